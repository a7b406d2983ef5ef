"""Runs of any kind: begin and end them, list them, look at one and at its history."""
