"""The tokens of a process: where they are, how they move, join, split and go back."""
