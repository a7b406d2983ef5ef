"""The tokens of a process: where they stand, how they move, join, split and go back."""
