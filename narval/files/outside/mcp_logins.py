"""Logins at MCP servers: the files `var/mcp/NAME.login`, which only their owner may read.

A login has tokens that identify the client to a server. They are stored nowhere else: not in memory, the log
or a backup.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from narval.system.whole_files import write_whole

MOST_BYTES = 256 * 1024
"""The most bytes of the file of a login."""


class McpLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login: the answers of a server and of its authorization server, as JSON of OAuth."""

    url: str
    """The address of the server, the only one to which the tokens are sent."""
    issuer: str
    """The address of the authorization server."""
    client: dict[str, Any]
    """The client as which narval is registered there."""
    token: dict[str, Any]
    """The tokens."""
    expires: float | None = None
    """The moment at which the token expires, in seconds since 1970; None: not stated."""
    authorization: dict[str, Any] = {}
    """The addresses that issue tokens."""
    resource: dict[str, Any] | None = None
    """The server's metadata about itself."""
    wants: str = ""
    """The scopes that the server has requested since, separated by blanks."""

    @property
    def scopes(self) -> list[str]:
        """The scopes that were granted."""
        return str(self.token.get("scope") or "").split()


def login_file(home: Path, name: str) -> Path:
    """The file of the login at a server."""
    return home / "var" / "mcp" / f"{name}.login"


def read_login(file: Path, url: str) -> McpLogin | None:
    """The login in a file; None if there is none, or it is for another address.

    Raises ValueError, with the remedy, if it cannot be read or others may read it.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from None
    with open(descriptor, "rb") as opened:
        if os.fstat(descriptor).st_mode & 0o077:
            raise ValueError(f"others may read its login: chmod 600 {file}")
        data = opened.read(MOST_BYTES)
    try:
        login = msgspec.json.decode(data, type=McpLogin)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is no login ({error}): delete it, and log in again") from None
    return login if login.url == url else None


def write_login(file: Path, login: McpLogin) -> None:
    """Write a login to its file. Raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(file, msgspec.json.encode(login).decode())


def remove_login(file: Path) -> bool:
    """Delete the file of a login; False if there was none. Raises OSError."""
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True
