"""Child processes that answer calls."""
