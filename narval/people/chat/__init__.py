"""Chat in the daemon: what came and is not dealt with, what is to be sent, and what was sent.

All of it is recorded with turns, as results of the home's own agent, so that the program which holds the
connections may end at any moment.
"""
