"""The pages of a home put together, and served until the program is to end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from narval.files.home import Home
from narval.surfaces.http.application import application
from narval.surfaces.http.guard import Application, Guard
from narval.surfaces.http.hooks import Hooks, hook_route
from narval.surfaces.http.login import LoginPages, session_pages
from narval.surfaces.http.people import PeopleOfHome
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.saved_forms import SavedForms
from narval.surfaces.http.server import PageServer
from narval.surfaces.http.sessions import Sessions
from narval.surfaces.web.site import PAGES, make_site

SCARCE = {"simulate": 20, "explore": 20, "past": 20}
"""The times an hour that a session may have something simulated, explored, or tried on the past."""


def pages(home: Home, folder: Path, place: WebPlace, sessions: Sessions) -> Application:
    """All pages of a home, behind the guard."""
    site = make_site(home.known_socket, folder)
    people = PeopleOfHome(site.reading.ask)
    forms = SavedForms()
    login = LoginPages(sessions, people, place, site, forms)
    hooks = hook_route(Hooks(site.reading, site.writing))
    inside = application((*PAGES, *session_pages(sessions, forms)), site, *login.mounted(), hooks)
    return Guard(inside, place, sessions, people, forms, scarce=SCARCE)


async def serve(
    pages: Application,
    sockets: list[socket.socket],
    ready: Callable[[], None],
    *,
    ends_with_input: bool = False,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; also until the end of the input where that is to count."""
    loop, server = asyncio.get_running_loop(), PageServer(pages, ready)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, server.end)

    def read() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            server.end()

    if ends_with_input:
        loop.add_reader(0, read)
    await server.serve(sockets)
