"""Elements: immutable values, and the changes of a memory of them."""
