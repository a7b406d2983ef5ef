"""Assembling the pages of a home, and serving them until the program ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from narval.core.errors import OperatorError
from narval.files.home import Home
from narval.files.outside.peers import PeersFile
from narval.files.settings import FILE
from narval.files.web_settings import LINK, WEB, LinkSettings, WebSettings, host_and_port
from narval.surfaces.cli.daemon.kept import on_end
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.application import application
from narval.surfaces.http.guard import Application, Guard
from narval.surfaces.http.login import LoginPages, session_pages
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.programs import Calls, Hooks, Watched
from narval.surfaces.http.saved_forms import SavedForms
from narval.surfaces.http.server import PageServer, listening_at
from narval.surfaces.http.sessions import PeopleOfHome, Sessions
from narval.surfaces.link.asking import LinkAsking
from narval.surfaces.link.door import LinkDoor
from narval.surfaces.web.site import PAGES, make_site

SCARCE = {"simulate": 20, "explore": 20, "past": 20, "edit": 3_600}
"""The most simulations, explorations, trials on the past, and edits of a session in an hour."""


def pages(home: Home, folder: Path, place: WebPlace, sessions: Sessions, metrics: str = "") -> Application:
    """All pages of a home, behind the guard; `metrics` is the digest of the token for its numbers."""
    site = make_site(home.known_socket, folder, home.run_command)
    people = PeopleOfHome(site.reading.ask)
    forms = SavedForms()
    login = LoginPages(sessions, people, place, site, forms)
    hooks = Hooks(site.reading, site.writing).route()
    watched = Watched(site.reading, metrics).routes()
    calls = Calls(site.reading, site.writing).routes()
    own = (*login.mounted(), hooks, *calls, *watched)
    inside = application((*PAGES, *session_pages(sessions, forms, PAGES)), site, *own)
    return Guard(inside, place, sessions, people, forms, scarce=SCARCE)


class Beside(NamedTuple):
    """A server beside that of the pages: the server, its socket, what to call before it ends, and its
    address.
    """

    server: PageServer
    socket: socket.socket
    end: Callable[[], None]
    address: str


def mcp(home: Home, settings: WebSettings) -> Beside:
    """The MCP server that the settings name. Raises OperatorError if it cannot listen."""
    from narval.calls.mcp.session import import_server_alone

    import_server_alone(over_http=True)
    from narval.surfaces.mcp.http import PATH, McpDoor

    door = McpDoor(AsyncClient(home.known_socket, "read"), AsyncClient(home.known_socket), settings)
    files = settings.mcp_certificate, settings.mcp_key
    return _beside(home, f"{WEB}.mcp", door, (settings.host, settings.port), files, door.end, PATH)


def link(home: Home, settings: LinkSettings) -> Beside:
    """The server that peers ask, if the settings have it listen. Raises OperatorError if it cannot."""
    door = LinkDoor(AsyncClient(home.known_socket), PeersFile(home.path))
    files = settings.cert, settings.key
    return _beside(home, f"{LINK}.listen", door, host_and_port(settings.listen), files, lambda: None, "")


def asking(home: Home) -> LinkAsking:
    """The task that asks the peers of a home."""
    return LinkAsking(AsyncClient(home.known_socket), home.path)


def _beside(
    home: Home,
    setting: str,
    door: Application,
    at: tuple[str, int],
    files: tuple[str | None, str | None],
    end: Callable[[], None],
    path: str,
) -> Beside:
    """A server for an application at an address, with TLS if there are files of a certificate and its key."""
    certificate, key = files
    tls = None
    if certificate is not None and key is not None:
        tls = str(home.path / certificate), str(home.path / key)
    try:
        server = PageServer(door, tls=tls)
        server.config.load()
    except OSError as error:
        raise OperatorError(f"{FILE}: the certificate of {setting} cannot be used: {error}") from None
    host, port = at
    listener = listening_at("127.0.0.1" if host == "localhost" else host, port)
    name = f"[{host}]" if ":" in host else host
    scheme = "http" if tls is None else "https"
    return Beside(server, listener, end, f"{scheme}://{name}:{listener.getsockname()[1]}{path}")


async def serve(
    pages: Application,
    sockets: list[socket.socket],
    ready: Callable[[], None],
    *,
    ends_with_input: bool = False,
    beside: Iterable[Beside] = (),
    links: LinkAsking | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; with `ends_with_input` also until the end of the input."""
    server = PageServer(pages, ready)

    def end() -> None:
        server.end()
        for other in beside:
            other.end()
            other.server.end()

    on_end(end, ends_with_input=ends_with_input)
    task = asyncio.create_task(links.run()) if links is not None else None
    await asyncio.gather(server.serve(sockets), *(other.server.serve([other.socket]) for other in beside))
    if task is not None:
        task.cancel()
        await asyncio.wait((task,))
