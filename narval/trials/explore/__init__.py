"""Exploration: all that the runs of a definition may do, found by walking through its engine.

Engines are used through their contract alone. A part called impossible is impossible as long as engines keep
two habits: they learn of memory by asking their view, and they take no notice of the number of an element, of
the order of a table, or of a count beyond `unknown_memory.MANY`.
"""
