"""Executor of dataflows: drives networks, and performs their operators' outside work."""
