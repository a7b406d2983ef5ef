"""Agents in a daemon: their lives as a pure protocol, the supervisor that does what it says, their hosts."""
