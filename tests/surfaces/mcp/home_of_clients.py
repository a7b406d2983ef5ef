"""A home with clients of MCP, recipes that are tools, and the SDK's own client beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp.client.client import Client

from narval.files.agents.senders import token_digest
from narval.files.home import Home
from narval.files.shipped import shipped
from narval.files.web_settings import WebSettings
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.control.client import Client as BlockingClient
from narval.surfaces.http.server import PageServer, listening_at
from narval.surfaces.mcp.http import McpDoor
from narval.surfaces.mcp.server import ToolServer
from tests.acceptance.home import Narval

MODES = ("legacy", "2026-07-28")
"""The revisions with a handshake, and the one without."""

TOKEN, OTHER_TOKEN = "a-token-of-desk", "a-token-of-other"

DESK = f"""
sha256 = "{token_digest(TOKEN)}"
agents = ["narval"]
tools = ["add", "elements", "count", "start", "signal", "cancel", "show", "why", "history", "check",
         "explore", "worklist", "answer", "propose"]
add = ["note"]
read = ["note", "trip[@from]"]
recipes = ["trip.plan", "trip.slow", "trip.mine", "trip.owner", "trip.plain", "trip.extra",
           "trip.ride"]
calls = 1000
"""

OTHER = f"""
sha256 = "{token_digest(OTHER_TOKEN)}"
agents = ["narval"]
tools = ["cancel", "show", "signal", "history", "why", "elements", "count"]
calls = 5
bytes = "1K"
"""

TRIP = """<cookbook group="trip">
  <recipe name="plan" start_step="look" end_step="book">
    <description>Plan a trip.</description>
    <tool element="trip">
      <argument name="from" required="yes"/>
      <argument name="days" type="integer"><description>How long it is.</description></argument>
      <argument name="class" one-of="first second"/>
      <argument name="on" type="date"/>
      <argument name="wish" type="xml"/>
    </tool>
    <step id="look" type="action" target="basic.nothing"/>
    <step id="book" type="action" target="basic.copy"><input id="element"><match>trip</match></input></step>
    <transition id="found"><in idref="look"/><out idref="book"/></transition>
  </recipe>
  <recipe name="slow" start_step="look" end_step="book">
    <tool element="trip" wait="60s"/>
    <step id="look" type="action" target="basic.nothing"/>
    <step id="book" type="action" target="basic.nothing"/>
    <transition id="found"><in idref="look"/><out idref="book"/>
      <condition><match>signal[@name='go']</match></condition></transition>
  </recipe>
  <recipe name="mine" start_step="book" end_step="book">
    <tool element="trip" approve="user"><argument name="from"/></tool>
    <step id="book" type="action" target="basic.copy"><input id="element"><match>trip</match></input></step>
  </recipe>
  <recipe name="owner" start_step="book" end_step="book">
    <tool element="trip" approve="owner" wait="60s"><argument name="from"/></tool>
    <step id="book" type="action" target="basic.copy"><input id="element"><match>trip</match></input></step>
  </recipe>
  <recipe name="plain" start_step="look" end_step="look">
    <step id="look" type="action" target="basic.nothing"/>
  </recipe>
  <recipe name="hidden" start_step="look" end_step="look">
    <tool/>
    <step id="look" type="action" target="basic.nothing"/>
  </recipe>
</cookbook>"""


def make_home(folder: Path, files: Mapping[str, str]) -> Path:
    """Make the home in a folder, with some more files, or others."""
    for part in ("recipes", "modules", "data", "etc/mcp"):
        (folder / part).mkdir(parents=True)
    (folder / "etc/mcp/desk.toml").write_text(DESK)
    (folder / "etc/mcp/other.toml").write_text(OTHER)
    (folder / "recipes/trip.xml").write_text(TRIP)
    for name in ("mcp.xml", "mcp.begin.xsl"):
        (folder / "recipes" / name).write_text((shipped() / "recipes" / name).read_text())
    for path, text in files.items():
        (folder / path).write_text(text)
    return folder


class HomeOfClients:
    """A home with a daemon at work, asked through its control socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = Home(path).known_socket

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation."""
        socket = self.socket()
        assert socket is not None
        with BlockingClient(socket) as client:
            return client.ask(method, **params)

    @asynccontextmanager
    async def connected(self, client: str, mode: str, **settings: Any) -> AsyncIterator[Client]:
        """The SDK's client, connected to a server of this home that is within this program."""
        asks = AsyncClient(self.socket)
        server = ToolServer(asks, lambda ctx: client)
        try:
            async with Client(server.server, mode=mode, **settings) as connection:
                yield connection
        finally:
            await asks.close()


@asynccontextmanager
async def served(home: HomeOfClients, around: Callable[[McpDoor], Any] | None = None) -> AsyncIterator[str]:
    """The address of a listener of this home; `around` makes the application that is served, of its door."""
    listener = listening_at("127.0.0.1", 0)
    port = listener.getsockname()[1]
    reading, writing = AsyncClient(home.socket, "read"), AsyncClient(home.socket)
    door = McpDoor(reading, writing, WebSettings(mcp=f"127.0.0.1:{port}"))
    server = PageServer(around(door) if around is not None else door)
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        door.end()
        server.end()
        await serving
        await reading.close()
        await writing.close()


@contextmanager
def home_at_work(path: Path, files: Mapping[str, str] | None = None) -> Iterator[HomeOfClients]:
    """A home, with some more files, whose daemon runs meanwhile."""
    with Narval(make_home(path, files or {})).running():
        yield HomeOfClients(path)
