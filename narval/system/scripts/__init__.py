"""Scripts of processes: small programs of others, in languages that reach nothing outside (section 10)."""
