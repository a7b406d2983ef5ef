"""MCP servers: a backend of calls. Each server has a child program, the bridge, that speaks with it."""
