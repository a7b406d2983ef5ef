"""Budgets: how long a pattern may keep the loop, whatever the element and what its variables hold."""
