"""HTTP: the door of the monitor, which knows who asks and no page."""
