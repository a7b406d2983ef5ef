"""The channels to people besides the surfaces: their messages and the answers."""
