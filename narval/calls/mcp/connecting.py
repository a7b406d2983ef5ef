"""The way to a server of the settings, and the tools that it offers when it is asked from a command."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from narval.calls.mcp.frames import Connect
from narval.calls.mcp.session import import_client_alone, session, session_error
from narval.calls.mcp.transports import LOST
from narval.calls.programs.commands import small_environment
from narval.core.definitions.action.tool import Tool
from narval.core.errors import ActionError
from narval.files.outside.mcp_logins import login_file
from narval.files.outside.mcp_servers import McpServer

LONGEST_START = 60.0
"""Seconds that a server has to start and to list its tools."""


LAST_LINES, LONGEST_LAST = 3, 300
"""The lines of a server's standard error that are told when it is lost, and the most characters of each."""


class Offered(NamedTuple):
    """The tools that a server offers, by name, and those that cannot be actions, with the reason."""

    tools: Mapping[str, Tool]
    left_out: Mapping[str, str]


def connect_to(server: McpServer, home: Path | None, marks: Mapping[str, str]) -> Connect:
    """The request by which a bridge connects to a server; its program has the `marks` among its variables.

    Raises ActionError (`no-secret`, final).
    """
    folder = os.path.normpath((home or Path.cwd()) / Path(server.folder or ".").expanduser())
    variables = {**small_environment(), **marks, **server.variables(home)} if server.command else {}
    token = server.secret_named(server.secret, home) if server.secret else ""
    login = ""
    if server.url and not server.secret and home is not None:
        login = str(login_file(home, server.name))
    ca = os.path.normpath((home or Path.cwd()) / Path(server.ca).expanduser()) if server.ca else ""
    return Connect(server.name, server.command, folder, variables, server.url, token, login, ca)


def quiet_library() -> None:
    """Have what the library logs of a server be no output of a command."""
    for name in ("client", "mcp"):
        logging.getLogger(name).addHandler(logging.NullHandler())


def offered_by(server: McpServer, home: Path) -> Offered:
    """Ask a server for its tools, and end it. Raises ActionError."""
    import_client_alone()
    quiet_library()
    request = connect_to(server, home, {})

    login = None
    if request.login:
        from narval.calls.mcp.kept_login import kept_login

        login = kept_login(request)

    with tempfile.TemporaryFile() as prints:

        async def ask() -> Offered:
            async with asyncio.timeout(LONGEST_START), session(request, prints, login) as opened:
                return Offered(opened.tools, opened.left_out)

        try:
            return asyncio.run(ask())
        except TimeoutError:
            why = f"{server} in etc/narval.toml: it listed no tools within {LONGEST_START:g} s"
            raise ActionError(f"{why}{_printed(prints)}", LOST) from None
        except Exception as error:
            cause = session_error(error)
            message = f"{server} in etc/narval.toml: {cause}{_printed(prints)}"
            raise ActionError(message, cause.kind, final=True) from None


def last_lines(prints: Iterable[str]) -> str:
    """The last lines that a server printed and that say something, each cut to what people read."""
    lines = [line.rstrip()[:LONGEST_LAST] for line in prints if line.strip()]
    return "\n".join(lines[-LAST_LINES:])


def told_last(prints: str) -> str:
    """The end of a message about a server that is lost: what it printed last; "" if it printed nothing."""
    return f"; it printed:\n{prints}" if prints else ""


def _printed(prints: IO[bytes]) -> str:
    """The last lines that a server has printed into a file, as a message ends with them."""
    prints.seek(max(0, prints.seek(0, os.SEEK_END) - _MOST_PRINTS))
    return told_last(last_lines(prints.read().decode("utf-8", "replace").splitlines()))


_MOST_PRINTS = 8192
