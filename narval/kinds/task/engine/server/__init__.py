"""Service runs of task types and global events: their queue, their events, and who works."""
