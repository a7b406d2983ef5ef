"""How each kind runs: pure functions from events to changes and commands."""
