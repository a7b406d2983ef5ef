"""MCP clients: the files `etc/mcp/NAME.toml`, each with the rights of one assistant elsewhere.

Anything not named is refused. Changes of a file apply from the client's next call.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from narval.core.definitions.suggestions import closest
from narval.core.elements.names import is_reserved
from narval.core.errors import Fault, NotFoundError, OperatorError, PatternError, RequestError
from narval.core.memory.labels import SERVER
from narval.core.patterns.pattern import compile_pattern
from narval.files import toml
from narval.files.agents.senders import new_token, read_digest, token_digest
from narval.files.found_files import names_in
from narval.system.minute import UsedMinute
from narval.system.whole_files import CurrentFile, write_whole

CLIENTS = "etc/mcp"
"""The folder of the clients' files."""

TOOLS = (
    "add", "elements", "count", "start", "signal", "cancel", "show", "why", "history", "simulate", "check",
    "explore", "worklist", "answer", "send", "propose",
)  # fmt: skip
"""The tools that a client may be given: operations of these names."""

TOOL_CALL = "tool-call"
"""The element that asks a person whether a recipe may be started for a client; no client can add it."""

CLIENT_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_NAMED = "a name of a to z, digits and -, at most 32, that begins with a letter"
_ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")

_agent = toml.fitting(re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch, "the name of an agent")


def _tool(text: str) -> str:
    if text not in TOOLS:
        raise ValueError(f"one of {', '.join(TOOLS)}{closest(text, TOOLS)}")
    return text


def _element(text: str) -> str:
    if not _ELEMENT.fullmatch(text):
        raise ValueError("the name of an element, such as note")
    if is_reserved(text) or text == TOOL_CALL:
        raise ValueError("the name of an element from outside, none that narval obeys or gives")
    return text


def _pattern(text: str) -> str:
    try:
        pattern = compile_pattern(text)
    except PatternError as error:
        raise ValueError(f"a pattern ({error.message})") from None
    if pattern.variables:
        raise ValueError(f"a pattern without variables, such as note; ${min(pattern.variables)} is one")
    return text


_recipe = toml.fitting(
    re.compile(r"[^\s.*]{1,100}(\.[^\s.*]{1,100})+").fullmatch,
    "the full name of a definition, such as notes.summary",
)


class McpClient(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP client, and all its rights; an empty list allows nothing."""

    name: str
    """Its name, which is that of its file."""
    sha256: Annotated[str, partial(read_digest, made=", as `narval mcp client add` writes it")] = ""
    """The SHA-256 of its token, in hex; without one it has no access over HTTP."""
    agents: Annotated[tuple[str, ...], toml.listed(_agent, "names of agents")] = ()
    """The agents that it may ask; a request that names none asks the first."""
    tools: Annotated[tuple[str, ...], toml.listed(_tool, "names of tools")] = ()
    """The tools that it may use."""
    add: Annotated[tuple[str, ...], toml.listed(_element, "names of elements")] = ()
    """The names of the elements that it may add, send and give to runs."""
    read: Annotated[tuple[str, ...], toml.listed(_pattern, "patterns")] = ()
    """The patterns of the elements that it may read."""
    recipes: Annotated[tuple[str, ...], toml.listed(_recipe, "names of definitions")] = ()
    """The definitions that it may start; those with a `tool` are tools of their own."""
    secrets: Annotated[tuple[str, ...], toml.secret_names] = ()
    """The names of `[secret]` whose elements it may read, and receive from runs."""
    calls: Annotated[int, toml.count(6_000)] = 60
    """The most calls in a minute."""
    bytes: Annotated[int, toml.size_up_to("64M")] = 1024 * 1024
    """The most bytes in a minute."""

    @property
    def person(self) -> str:
        """The name under which its acts are recorded, also the label of its data."""
        return f"{SERVER}{self.name}"


def read_client(home: Path, name: str) -> tuple[McpClient | None, list[Fault]]:
    """A client by the name of its file, or all the faults of that. Raises FileNotFoundError."""
    place = f"{CLIENTS}/{name}.toml"

    def client(file: toml.TomlFile) -> McpClient:
        if not CLIENT_NAME.fullmatch(name):
            file.faults.append(Fault(place, 1, 1, f"the name of a client: expected {_NAMED}, found {name!r}"))
        return McpClient(name=name, **file.read(McpClient))

    file = toml.TomlFile.of(home / place, place)
    if file.is_missing:
        raise FileNotFoundError(place)
    return toml.outcome(file, client)


def client_names(home: Path) -> list[str]:
    """The names of the clients that have a file, sorted."""
    names = names_in(home / CLIENTS)
    return [name.removesuffix(".toml") for name in names if name.endswith(".toml") and name[0] != "."]


def faults_of_clients(home: Path) -> list[Fault]:
    """All the faults of the clients' files."""
    return [fault for name in client_names(home) for fault in read_client(home, name)[1]]


def clients_of(home: Path) -> tuple[McpClient, ...]:
    """The clients of a home whose files have no faults, sorted by name."""
    clients = (read_client(home, name)[0] for name in client_names(home))
    return tuple(client for client in clients if client is not None)


def make_client(home: Path, name: str, agent: str) -> str:
    """Make the file of a client without rights; returns its token, which is not stored.

    Raises OperatorError if there is such a file, or the name is invalid, and OSError.
    """
    if not CLIENT_NAME.fullmatch(name):
        raise OperatorError(f"expected {_NAMED}, got {name!r:.80}")
    path = home / CLIENTS / f"{name}.toml"
    if path.exists():
        raise OperatorError(f"there is {CLIENTS}/{name}.toml already; delete it first for a new token")
    token = new_token()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _NEW.format(name=name, agent=agent, digest=token_digest(token)))
    return token


_NEW = """\
# What the MCP client {name} may do here. What is not named is refused (docs/reference/mcp-server.md).
sha256 = "{digest}"

# agents = ["{agent}"]
# tools = ["add", "elements", "count"]
# add = ["note"]                # the names of elements that it may add
# read = ["note"]               # the patterns of elements that it may read
# recipes = ["notes.summary"]   # the definitions that it may start
# secrets = ["health"]          # what etc/trust.toml calls secret, and it may read all the same
# calls = 60                    # a minute
# bytes = "1M"                  # a minute
"""


class Clients:
    """The clients of a home; a home in memory (None) has none."""

    def __init__(self, home: Path | None, seconds: Callable[[], float] = time.monotonic) -> None:
        self._home, self._used = home, UsedMinute(seconds)
        self._files: dict[str, CurrentFile[tuple[McpClient | None, list[Fault]]]] = {}

    def client(self, name: str) -> McpClient:
        """The client of that name, from its present file. Raises RequestError."""
        client, faults = self._current(name)
        if client is not None:
            return client
        if faults:
            raise RequestError(f"the client {name} cannot be served: {faults[0]}")
        names = client_names(self._home) if self._home is not None else []
        hint = closest(name, names) or f"; make it: narval mcp client add {name}"
        raise NotFoundError(f"there is no client {name!r:.80} in {CLIENTS}/{hint}")

    def all(self) -> Iterator[tuple[str, McpClient | None, list[Fault]]]:
        """The names of all clients, each with the client or the faults of its file."""
        for name in client_names(self._home) if self._home is not None else ():
            yield name, *self._current(name)

    def take(self, client: McpClient, size: int) -> None:
        """Count a call of `size` bytes. Raises RequestError if it exceeds the limits of the minute."""
        excess = self._used.take(client.name, client.calls, size, client.bytes)
        if excess is None:
            return
        if excess.what == "calls":
            why = f"too many calls: {client.name} may make {client.calls:,} a minute"
        else:
            why = f"too much: {client.name} may send {client.bytes:,} bytes a minute"
        raise RequestError(f"{why}; again in {excess.seconds} s" if excess.seconds else why)

    def _current(self, name: str) -> tuple[McpClient | None, list[Fault]]:
        """The client in a file, read again if it has changed; neither client nor faults without a file."""
        if self._home is None or "/" in name or "\0" in name:
            return None, []
        read = partial(read_client, self._home, name)
        file = self._files.setdefault(name, CurrentFile(self._home / CLIENTS / f"{name}.toml", read))
        try:
            return file.get()
        except OSError:
            del self._files[name]
            return None, []
