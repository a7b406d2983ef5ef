"""MCP servers: a backend of calls. For each server, a child program, the bridge, speaks with it."""
