"""Dataflows at work: networks of operators that push batches of tuples, and the runs that have them."""
