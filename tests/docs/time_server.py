"""A server with the tools of mcp-server-time, by the library `mcp`, for the page that uses them."""

from __future__ import annotations

from typing import TypedDict

from mcp.server.mcpserver import MCPServer

server = MCPServer("time")


class TimeResult(TypedDict):
    """The time at a place."""

    timezone: str
    datetime: str


@server.tool(description="Convert time between timezones")
def convert_time(source_timezone: str, time: str, target_timezone: str) -> TimeResult:
    """The same time elsewhere."""
    return TimeResult(timezone=target_timezone, datetime=time)


@server.tool(description="Get current time in a specific timezone")
def get_current_time(timezone: str) -> TimeResult:
    """The time at a place."""
    return TimeResult(timezone=timezone, datetime="2026-11-19T18:00:00+02:00")


if __name__ == "__main__":
    server.run("stdio")
