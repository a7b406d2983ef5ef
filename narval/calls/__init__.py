"""Calls: queued within limits, answered by backends, their returns delivered."""
