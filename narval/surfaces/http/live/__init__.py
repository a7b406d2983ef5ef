"""Pages that are open: news of an agent, pages made anew by it, streams of what differs (M60 to M63)."""
