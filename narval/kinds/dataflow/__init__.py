"""Dataflows: plans of operators through which tuples pass."""
