"""narval as an MCP server: what assistants elsewhere may use, over stdio and over HTTP."""
