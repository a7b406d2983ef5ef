"""The store: what is recorded, on a disk, on a server, or in memory."""
