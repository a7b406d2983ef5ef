"""Drawings: Graphviz lays out, templates draw (M80)."""
