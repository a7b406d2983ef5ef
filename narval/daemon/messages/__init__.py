"""Messages between the agents of a store: recorded with the turn that sends, and the turn that takes."""
