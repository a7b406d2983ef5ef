"""Transitions: which of them fire, by their dates and conditions, and which never will."""
