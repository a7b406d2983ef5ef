"""Code of processes: questions while an engine decides, and the calls of nodes."""
