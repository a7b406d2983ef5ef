"""One agent: its memory, its runs, the turns that advance them, what is recorded and recovered."""
