"""Links with other homes over HTTPS: the listener, the task that asks peers, and commands that ask one."""
