"""Performers: who does the work of operators outside, one for each instance of an operator."""
