"""narval as an MCP server: for assistants elsewhere, over stdio and over HTTP."""
