"""Operations of people on their work: who asks, what they see, what they do, and the log of it."""
