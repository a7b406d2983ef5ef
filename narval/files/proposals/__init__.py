"""Proposals: definitions that are not accepted yet, each a folder of the home, and their acceptance."""
