"""Agents in a daemon: their lifecycle as a pure protocol, the supervisor that performs it, their hosts."""
