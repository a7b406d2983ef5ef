"""Trust: the labels of the parts of calls, and what is declared about these parts."""
