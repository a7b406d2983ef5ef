"""Operations that try something out: simulations and explorations in child programs, and their results."""
