"""Compiling dataflows: what is written becomes a graph, checked."""
