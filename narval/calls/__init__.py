"""Calls: they are queued within limits, answered by backends, and their returns delivered."""
