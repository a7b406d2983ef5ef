"""Chat: people write to the home, and the home asks them, in a chat program."""
