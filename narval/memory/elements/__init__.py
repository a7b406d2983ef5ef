"""Elements: immutable values, and what can happen to them."""
