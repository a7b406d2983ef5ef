"""narval as an MCP server: for external assistants, over stdio and over HTTP."""
