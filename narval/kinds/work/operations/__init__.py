"""Operations of people on their work: what they see, what they do, and the log of it."""
