"""The engine of processes: tokens, arcs, joins, guards, going back."""
