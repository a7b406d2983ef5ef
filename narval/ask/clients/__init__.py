"""Clients of MCP: the tools that one may use, what each of them is held against, and what they answer."""
