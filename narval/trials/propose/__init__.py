"""Proposing: a model drafts definitions from a wish, and narval judges them until nothing is wrong."""
