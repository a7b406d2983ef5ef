"""Open pages: news of an agent, pages remade after it, streams of the differences (M60 to M63)."""
