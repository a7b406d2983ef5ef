"""Links with other homes over HTTPS: the listener, the task that asks peers, and the client for commands."""
