"""Simulation: definitions tried on a copy of memory, with a clock of its own."""
