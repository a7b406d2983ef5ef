"""Elements: immutable values, and the changes of a memory that holds them."""
