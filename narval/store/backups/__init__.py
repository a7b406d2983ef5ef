"""Backups: the store at one moment in a file, from any database, and restoring it (G60)."""
