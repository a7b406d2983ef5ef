"""Who waits for what, by the values that could satisfy it."""
