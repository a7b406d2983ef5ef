"""The engine of automata: states, programs, joins."""
