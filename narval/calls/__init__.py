"""Calls: queued within limits, answered by backends, and their results delivered."""
