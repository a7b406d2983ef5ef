"""A server by the library `mcp`: over its pipes as a program, or by HTTP, where it wants a token."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@server.tool()
async def climb(ctx: Context) -> str:
    """Tell of progress."""
    for step in range(1, 4):
        await ctx.report_progress(step, 3)
    return "up"


def guarded(token: str) -> Any:
    """The application, which answers nobody without the token."""
    app = server.streamable_http_app()

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {token}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return guard


if __name__ == "__main__":
    server.run("stdio")
