"""People: who they are, what they may do, and the work that asks them."""
