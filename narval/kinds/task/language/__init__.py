"""Tasks as written: states, rules in windows of time, routes."""
