"""Messages between the agents of a store: recorded with what sends them, and with what takes them."""
