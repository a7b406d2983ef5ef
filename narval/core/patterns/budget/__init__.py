"""Budgets: how long a pattern may occupy the loop, whatever the element and the variables contain."""
