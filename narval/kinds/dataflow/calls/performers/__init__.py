"""Performers: they do the work of outside operators, one for each instance of an operator."""
