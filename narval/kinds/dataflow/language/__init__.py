"""Dataflows: plans of operators on relations that stream."""
