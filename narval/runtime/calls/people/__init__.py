"""Ways to people: what is asked of them before a call is made (P72, P73)."""
