"""Elements: which of them the inputs of steps and the conditions of transitions take."""
