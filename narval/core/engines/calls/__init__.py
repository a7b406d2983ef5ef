"""Calls of any kind: the elements given, the elements returned, and the wait before another attempt."""
