"""Notices about items: their recipients, and the validity of their tokens."""
