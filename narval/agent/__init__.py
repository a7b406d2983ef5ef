"""One agent: its memory, its runs, the turns that advance them, and what is recorded and recovered."""
