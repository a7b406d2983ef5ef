"""Budgets: how much of the loop a pattern may take, whatever the element and what its variables hold (N10)."""
