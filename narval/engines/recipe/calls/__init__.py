"""The calls of a step: their returns, and when they are made again."""
