"""Automata as written."""
