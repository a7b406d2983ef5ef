"""Service runs of task types and global events: their queue, events and instances."""
