"""The engines of all kinds: pure functions from events to changes and commands."""
