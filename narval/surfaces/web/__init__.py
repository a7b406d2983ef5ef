"""Pages of the monitor: each asks operations and shows their answers by a template."""
