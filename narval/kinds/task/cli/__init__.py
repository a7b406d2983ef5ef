"""Tasks at a terminal and in scripts: the commands below `narval task`, and their tables."""
