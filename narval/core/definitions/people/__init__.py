"""People: who they are, what they may do, and who asks them."""
