"""Code of processes: questions while an engine decides, and the tasks of nodes."""
