"""Automata: they run programs of the operating system, in sequence and in parallel."""
