"""The engine of processes: tokens, arcs, joins, guards, backtracking."""
