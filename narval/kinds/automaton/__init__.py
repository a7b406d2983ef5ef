"""Automata: programs of the operating system, one after another and beside one another."""
