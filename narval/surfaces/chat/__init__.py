"""Chat: people write to the home and are asked by it, from the chat program of their telephone."""
