"""Compiling dataflows: plans as written become checked graphs."""
