"""Running dataflows: networks of operators that push batches of tuples, and the runs that have them."""
