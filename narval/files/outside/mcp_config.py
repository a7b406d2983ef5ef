"""MCP config: the `mcpServers` JSON of other programs, as tables of the settings and files of secrets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from narval.core.errors import RequestError
from narval.core.source.text import Source
from narval.files.outside.mcp_servers import MCP, NAME
from narval.files.settings import FILE, parse_settings
from narval.system.whole_file import write_whole

TABLES = ("mcpServers", "servers")
"""The names that programs give to the table of servers."""

MOST_BYTES = 1024 * 1024
"""The most bytes of a text of servers."""

_FOLLOWED = ("command", "args", "env", "cwd", "url", "serverUrl", "headers")
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")


class AddedServer(NamedTuple):
    """A server to be added: its name, its table in TOML, and its secrets by the names of their files."""

    name: str
    table: str
    secrets: Mapping[str, str]
    ignored: tuple[str, ...]


def read_config(text: str) -> list[AddedServer]:
    """The servers in a text of JSON. Raises RequestError with what was expected."""
    if len(text) > MOST_BYTES:
        raise RequestError(f"expected at most {MOST_BYTES:,} characters, got {len(text):,}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"expected JSON with mcpServers: {error}") from None
    tables = [value[name] for name in TABLES if isinstance(value, dict) and isinstance(value.get(name), dict)]
    if not tables or not tables[0]:
        raise RequestError(
            'expected {"mcpServers": {"NAME": {"command": …, "args": […]}}}, got no such server'
        )
    return [_server(name, entry) for name, entry in tables[0].items()]


def add_servers(home: Path, servers: Iterable[AddedServer]) -> None:
    """Write the tables of servers and their secrets into a home; all of them or, where one is at fault, none.

    Raises RequestError, and OSError.
    """
    servers = list(servers)
    file = home / FILE
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    current, _ = parse_settings(Source(FILE, before.encode()), home)
    names = {server.name for server in current.mcp} if current is not None else set()
    for server in servers:
        if server.name in names:
            raise RequestError(f"[{MCP}.{server.name}] is in {FILE} already: remove it, or name it otherwise")
    text = before + ("" if before.endswith("\n") or not before else "\n")
    text += "".join(f"\n{server.table}" for server in servers)
    settings, faults = parse_settings(Source(FILE, text.encode()), home)
    if settings is None:
        raise RequestError("\n".join(map(str, faults)))
    for server in servers:
        for name in server.secrets:
            if (home / "etc" / name).exists():
                raise RequestError(f"etc/{name} is there already: remove it first")
    file.parent.mkdir(parents=True, exist_ok=True)
    for server in servers:
        for name, secret in server.secrets.items():
            _write_secret(home / "etc" / name, secret)
    write_whole(file, text)


def _write_secret(path: Path, secret: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{secret}\n")


def _server(written: str, entry: Any) -> AddedServer:
    """One server. Raises RequestError."""
    name = re.sub(r"[^a-z0-9_-]+", "-", written.lower()).strip("-_")
    if NAME.fullmatch(name) is None:
        raise RequestError(f"{written!r:.80}: expected a name that begins with a letter")
    if not isinstance(entry, dict):
        raise RequestError(f"{name}: expected an object with a command or a url")
    lines, secrets = [f"[{MCP}.{name}]"], dict[str, str]()
    url = entry.get("url", entry.get("serverUrl"))
    if isinstance(url, str):
        lines.append(f"url = {_quoted(url)}")
        lines += _token(name, entry.get("headers"), secrets)
    elif isinstance(entry.get("command"), str):
        words = [entry["command"], *_texts(name, "args", entry.get("args", []))]
        lines.append(f"command = [{', '.join(map(_quoted, words))}]")
        if isinstance(entry.get("cwd"), str):
            lines.append(f"folder = {_quoted(entry['cwd'])}")
        lines += _variables(name, entry.get("env"), secrets)
    else:
        raise RequestError(f"{name}: expected a command or a url, got {', '.join(entry) or 'nothing'}")
    ignored = tuple(sorted(set(entry) - {*_FOLLOWED, "type", "transport"}))
    return AddedServer(name, "\n".join(lines) + "\n", secrets, ignored)


def _variables(name: str, variables: Any, secrets: dict[str, str]) -> list[str]:
    """The line of the variables of a program: each is a secret, for nobody can tell which of them is none."""
    if not variables:
        return []
    if not isinstance(variables, dict):
        raise RequestError(f"{name}: env: expected an object of texts")
    pairs = []
    for variable, value in variables.items():
        if not isinstance(value, str | int | float | bool):
            raise RequestError(f"{name}: env: {variable!r:.80}: expected a text")
        reference = _REFERENCE.fullmatch(str(value))
        secret = reference[1] if reference is not None else f"mcp-{name}-{_plain(variable)}"
        if reference is None:
            secrets[secret] = value if isinstance(value, str) else json.dumps(value)
        pairs.append(f"{_quoted(variable)} = {_quoted(secret)}")
    return [f"secrets = {{ {', '.join(pairs)} }}"]


def _token(name: str, headers: Any, secrets: dict[str, str]) -> list[str]:
    """The line of the secret of a server that is reached by an address."""
    if not headers:
        return []
    if not isinstance(headers, dict) or {str(key).lower() for key in headers} != {"authorization"}:
        raise RequestError(f'{name}: headers: expected {{"Authorization": "Bearer …"}} and no other header')
    scheme, _, token = str(next(iter(headers.values()))).partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RequestError(f'{name}: headers: expected "Authorization": "Bearer …"')
    reference = _REFERENCE.fullmatch(token.strip())
    secret = reference[1] if reference is not None else f"mcp-{name}-token"
    if reference is None:
        secrets[secret] = token.strip()
    return [f"secret = {_quoted(secret)}"]


def _texts(name: str, key: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str | int | float) for word in value):
        raise RequestError(f"{name}: {key}: expected a list of texts")
    return [str(word) for word in value]


def _plain(variable: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "-", variable.lower())


def _quoted(text: str) -> str:
    """A text of TOML."""
    return json.dumps(text)
