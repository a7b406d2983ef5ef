"""Surfaces: the ways to ask a home; each asks operations and shows the answers."""
