"""Executor of dataflows: drives networks, and does the work that their operators ask for outside."""
