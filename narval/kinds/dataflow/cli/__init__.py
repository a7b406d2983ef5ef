"""The commands of dataflows, such as the one that runs a file in the foreground."""
