"""Indexes: of elements for conditions, and of conditions for elements."""
