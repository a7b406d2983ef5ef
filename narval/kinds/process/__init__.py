"""Processes: tokens that move along arcs."""
