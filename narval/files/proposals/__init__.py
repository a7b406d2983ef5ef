"""Proposals: definitions that nobody accepted yet, each a folder of the home, and how one is accepted."""
