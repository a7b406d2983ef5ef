"""Operators at work: one class for each that needs nothing from outside, one for all that do."""
