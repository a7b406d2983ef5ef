"""The kinds of definitions, a folder each: its language, its engine, and what it alone has elsewhere."""
