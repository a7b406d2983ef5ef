"""Drawings: Graphviz does the layout, templates draw (M80)."""
