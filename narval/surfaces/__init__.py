"""Surfaces: the ways to use a home; each asks operations and shows the answers."""
