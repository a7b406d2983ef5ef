"""Texts and XML as written in files, with the place of every fault."""

MAX_BYTES = 16 * 1024 * 1024
"""The most bytes of a text that is read, and of XML that is parsed."""
