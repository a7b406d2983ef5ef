"""Open pages: news of an agent, pages remade by it, streams of the differences (M60 to M63)."""
