"""The kinds of definitions, one folder each: its language, its engine, and anything only that kind needs."""
