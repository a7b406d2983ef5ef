"""Scripts of processes: small programs by users, in languages that reach nothing outside (section 10)."""
