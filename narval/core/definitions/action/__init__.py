"""Actions as declared in modules."""
