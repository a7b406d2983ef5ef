"""MCP clients: the tools that a client may use, the check of each call, and the answers."""
