"""The language of automata."""
