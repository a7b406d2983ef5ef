"""Work at a terminal: the command `narval work`, and its tables."""
