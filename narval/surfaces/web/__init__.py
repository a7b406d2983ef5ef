"""Pages of the monitor: each asks operations, and a template shows their answers."""
