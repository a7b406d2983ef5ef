"""Exploration: find everything that the runs of a definition may do, by walking through its engine.

Engines are used only through their contract. A part reported as impossible is impossible as long as engines
keep two rules: they learn of memory only through their view, and they ignore the number of an element, the
order of a table, and any count beyond `unknown_memory.MANY`.
"""
