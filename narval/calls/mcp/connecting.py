"""The connection to a server of the settings, and the tools that it offers when a command asks for them."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from narval.calls.mcp.frames import Connect
from narval.calls.mcp.session import import_client_alone, session, session_error
from narval.calls.mcp.transports import LOST
from narval.calls.programs.process_group import small_environment
from narval.core.definitions.action.tool import Tool
from narval.core.errors import ActionError
from narval.files.outside.mcp_servers import McpServer, login_file

LONGEST_START = 60.0
"""Seconds that a server has to start and list its tools."""


LAST_LINES, LONGEST_LAST = 3, 300
"""The number of last lines of a server's standard error that are reported when it is lost, and the most
characters of each.
"""


class Offered(NamedTuple):
    """The tools that a server offers, by name, and the tools that cannot be actions, with the reason."""

    tools: Mapping[str, Tool]
    left_out: Mapping[str, str]


def connect_to(server: McpServer, home: Path | None, marks: Mapping[str, str]) -> Connect:
    """The request that makes a bridge connect to a server, whose program gets the `marks` as environment
    variables.

    Raises ActionError (`no-secret`, final).
    """
    folder = os.path.normpath((home or Path.cwd()) / Path(server.folder or ".").expanduser())
    variables = {**small_environment(), **marks, **server.variables(home)} if server.command else {}
    token = server.secret_named(server.secret, home) if server.secret else ""
    login = ""
    has_word = server.secret or any(name.lower() == "authorization" for name, _ in server.headers)
    if server.url and not has_word and home is not None:
        login = str(login_file(home, server.name))
    ca = os.path.normpath((home or Path.cwd()) / Path(server.ca).expanduser()) if server.ca else ""
    headers = {name: server.secret_named(secret, home) for name, secret in server.headers}
    return Connect(server.name, server.command, folder, variables, server.url, token, login, headers, ca)


def quiet_library() -> None:
    """Keep the library's logs about a server out of a command's output."""
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
            raise ActionError(f"{why}{_printed(prints, server)}", LOST) from None
        except Exception as error:
            cause = session_error(error)
            message = f"{server} in etc/narval.toml: {cause}{_printed(prints, server)}"
            raise ActionError(message, cause.kind, final=True) from None


def last_lines(prints: Iterable[str]) -> str:
    """The last non-empty lines that a server printed, each cut to a readable length."""
    lines = [line.rstrip()[:LONGEST_LAST] for line in prints if line.strip()]
    return "\n".join(lines[-LAST_LINES:])


def told_last(prints: str, server: McpServer) -> str:
    """The end of a message about a lost server: its last output, and what to do if it does not trust a
    certificate; "" if it printed nothing.
    """
    if not prints:
        return ""
    program = Path(server.command[0]).name if server.command else ""
    variable = _OF_CERTIFICATES.get(program, "") if _UNTRUSTED.search(prints) else ""
    why = "if a proxy stands before the net, with certificates of its own, let"
    step = f"\n{why} {program} trust them: environment = {{ {variable} }} in {server}" if variable else ""
    return f"; it printed:\n{prints}{step}"


_UNTRUSTED = re.compile(
    "invalid peer certificate|UnknownIssuer|unable to get local issuer|UNABLE_TO_GET_ISSUER|"
    "unable to verify the first certificate|self.signed.cert",
    re.IGNORECASE,
)
"""Phrases by which programs report that they do not trust a certificate."""

_OF_CERTIFICATES = {
    **dict.fromkeys(("uv", "uvx"), 'UV_SYSTEM_CERTS = "true"'),
    **dict.fromkeys(("npm", "npx", "node"), 'NODE_EXTRA_CA_CERTS = "/etc/ssl/certs/ca-certificates.crt"'),
}
"""The variables that make programs trust the certificates of the system."""


def _printed(prints: IO[bytes], server: McpServer) -> str:
    """The last lines that a server has printed to a file, as the end of a message."""
    prints.seek(max(0, prints.seek(0, os.SEEK_END) - _MOST_PRINTS))
    return told_last(last_lines(prints.read().decode("utf-8", "replace").splitlines()), server)


_MOST_PRINTS = 8192
