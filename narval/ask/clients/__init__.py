"""Clients outside: MCP clients with their tools and the check of each call; webhooks, programs, peers."""
