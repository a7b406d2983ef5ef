"""Notices about items: to whom they go, and what their tokens are worth."""
