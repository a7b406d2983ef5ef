"""Operations that try something out: simulations and explorations by child programs, and their results."""
