"""The store: the persistent records of a home, on a disk, on a server, or in memory."""
