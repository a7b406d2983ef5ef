"""Calls of any kind: the elements that are given, those that come back, and the wait before another try."""
