"""Trust: which labels the parts of calls have, and what is declared of these parts."""
