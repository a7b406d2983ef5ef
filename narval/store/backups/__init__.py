"""Backups: the store at one moment in a file, from any database, and the way back (G60)."""
