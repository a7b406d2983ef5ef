"""Asking: to whom an item is offered, what it shows, who has caused it."""
