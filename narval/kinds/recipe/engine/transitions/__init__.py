"""Transitions: which fire, by their dates and conditions, and which never will."""
