"""The channels to people besides the surfaces: messages to them, and their answers."""
