"""Chat in the daemon: messages received and not yet handled, messages to send, and messages sent.

All of it is recorded with turns, as results of the home's own agent, so the program that holds the
connections may end at any moment.
"""
