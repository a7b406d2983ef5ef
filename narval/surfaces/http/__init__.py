"""HTTP: the door of the monitor, which knows askers but no pages."""
