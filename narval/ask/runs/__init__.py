"""Runs of any kind: start and end them, list them, read one and its history."""
