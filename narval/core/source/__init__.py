"""Texts and XML as they stand in files, with the place of every fault."""
