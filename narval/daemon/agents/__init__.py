"""Agents at work in a daemon, and those that are not: activated, laid down, broken down."""
