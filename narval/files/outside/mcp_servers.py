"""MCP servers: the tables `[mcp.NAME]` of the settings, the programs and addresses that offer tools.

The login at a server is a file, `var/mcp/NAME.login`, which only its owner may read. It has tokens that
identify the client to the server. They are stored nowhere else: not in memory, the log or a backup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from narval.core.errors import ActionError
from narval.files import toml
from narval.files.outside.services import address, is_in_the_clear, read_variables
from narval.system.secret import secret_named
from narval.system.whole_files import write_whole

MCP = "mcp"
"""The table of the settings with the servers."""

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

_name = toml.fitting(NAME.fullmatch, "a name of small letters, digits, - and _, which begins with a letter")


def _words(value: object) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    if not words or not words[0] or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise ValueError('the words of a program, such as ["uvx", "mcp-server-time"]')
    return tuple(words)


_TOOLS = toml.listed(toml.text, 'tools, such as ["get_current_time"]')


def _secrets(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not all(
        isinstance(secret, str) and re.fullmatch(r"[A-Za-z0-9_][\w.-]*", secret)
        and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        for name, secret in value.items()
    ):  # fmt: skip
        raise ValueError('variables and the names of secrets, such as { GITHUB_TOKEN = "github-token" }')
    return tuple(value.items())


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not all(
        isinstance(secret, str) and re.fullmatch(r"[A-Za-z0-9_][\w.-]*", secret)
        and re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}", name) and not _OF_PROTOCOL.fullmatch(name)
        for name, secret in value.items()
    ):  # fmt: skip
        raise ValueError('headers and the names of secrets, such as { X-API-Key = "tracker-key" }')
    return tuple(value.items())


_OF_PROTOCOL = re.compile(
    "accept|connection|content-.*|cookie|host|last-event-id|mcp-.*|te|transfer-encoding|upgrade",
    re.IGNORECASE,
)
"""The headers that every request has."""


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the Model Context Protocol, as in `[mcp.NAME]` of the settings."""

    name: str
    """The name, which is the group of its tools as actions."""
    command: Annotated[tuple[str, ...], _words] = ()
    """The words that start its program, which uses its standard input and output."""
    url: Annotated[str, address] = ""
    """The address of a server that uses HTTP."""
    secret: Annotated[str, toml.text] = ""
    """The name of the secret sent to it as a bearer token."""
    headers: Annotated[tuple[tuple[str, str], ...], _headers] = ()
    """The headers that hold secrets, each with the name of the secret."""
    client_id: Annotated[str, toml.text] = ""
    """The client registered for narval's logins; "": narval registers itself."""
    client_secret: Annotated[str, toml.text] = ""
    """The name of the secret of that client."""
    ca: Annotated[str, toml.text] = ""
    """The file with the certificates that may sign those of the server; "": those of this machine."""
    folder: Annotated[str, toml.text] = ""
    """The folder in which the program runs; "": the home."""
    environment: Annotated[tuple[tuple[str, str], ...], read_variables] = ()
    """The variables of the program, besides the few that every program gets."""
    secrets: Annotated[tuple[tuple[str, str], ...], _secrets] = ()
    """The variables of the program that hold secrets, each with the name of the secret."""
    tools: Annotated[tuple[str, ...] | None, _TOOLS] = None
    """The tools that may be called; None: all."""
    idempotent: Annotated[tuple[str, ...], _TOOLS] = ()
    """The tools that may be called twice: again if the server or the daemon dies."""
    approved: Annotated[tuple[str, ...], _TOOLS] = ()
    """The tools declared destructive that are called without asking a person."""
    timeout: Annotated[float | None, toml.duration] = None
    """The seconds that a call may take; None: the limit of the home."""

    def __str__(self) -> str:
        return f"[{MCP}.{self.name}]"

    def variables(self, home: Path | None) -> dict[str, str]:
        """The variables of its program. Raises ActionError (`no-secret`, final)."""
        return {
            **dict(self.environment),
            **{name: self.secret_named(secret, home) for name, secret in self.secrets},
        }

    def secret_named(self, name: str, home: Path | None) -> str:
        """One of its secrets. Raises ActionError (`no-secret`, final) with the remedy."""
        try:
            return secret_named(name, home)
        except ValueError as error:
            raise ActionError(f"{self} in etc/narval.toml: {error}", "no-secret", final=True) from None


_OF_PROGRAMS = ("folder", "environment", "secrets")
_OF_ADDRESSES = ("headers", "client_id", "client_secret", "ca")


def read_mcp_servers(file: toml.TomlFile) -> tuple[McpServer, ...]:
    """The servers of a file of settings; faults are noted there."""
    servers = []
    for name, values in file.named(MCP, McpServer, "time", _name):
        if lacking := _lacking(values):
            keys = ", ".join(values) or "nothing"
            file.note((MCP, name), f"{MCP}.{name}: expected {lacking}, found {keys}")
        else:
            servers.append(McpServer(name=name, **values))
    return tuple(servers)


def _lacking(values: Mapping[str, Any]) -> str:
    """The missing keys of a table, or its keys that exclude each other."""
    if ("command" in values) == ("url" in values):
        return 'either command = ["program", "word"] or url = "https://…"'
    if "url" in values and any(key in values for key in _OF_PROGRAMS):
        return f"no {', '.join(key for key in _OF_PROGRAMS if key in values)} beside a url"
    if "secret" in values and "url" not in values:
        return 'secrets = { VARIABLE = "NAME" }, since a program gets its secrets as variables'
    if "url" not in values and any(key in values for key in _OF_ADDRESSES):
        return f"no {', '.join(key for key in _OF_ADDRESSES if key in values)} beside a command"
    if "secret" in values and "client_id" in values:
        return "either secret, which is its token, or client_id, by which one logs in"
    if "client_secret" in values and "client_id" not in values:
        return "client_id, whose secret client_secret is"
    if "secret" in values and any(name.lower() == "authorization" for name, _ in values.get("headers", ())):
        return "either secret, which is sent as Authorization: Bearer, or headers with Authorization"
    if ("secret" in values or "headers" in values) and is_in_the_clear(values["url"]):
        return "https, since it is asked with a secret, which would go through the net in the clear"
    return ""


# --- logins ---------------------------------------------------------------------------------------------

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
