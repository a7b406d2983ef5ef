"""MCP config: the `mcpServers` JSON of other programs, as tables of the settings and files of secrets."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from narval.core.errors import RequestError
from narval.core.source.text import Source
from narval.files.outside.mcp_servers import MCP, NAME
from narval.files.settings import FILE, parse_settings
from narval.files.toml import quoted
from narval.system.whole_files import write_whole

TABLES = ("mcpServers", "servers", "context_servers")
"""The names that programs give to the table of servers."""

MOST_BYTES = 1024 * 1024
"""The most bytes of a text of servers."""

_SWITCHES = ("disabled", "enabled")
_URLS = ("url", "serverUrl", "httpUrl")
_FOLLOWED = ("command", "args", "env", "cwd", *_URLS, "headers", "type", "transport", "source", *_SWITCHES)
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_ASKED = re.compile(r"\$\{input:[^{}]*\}")
_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}")
_STRING = r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_OVER_HTTP = ("http", "streamable-http", "streamablehttp", "streamable_http", "remote")
_OVER_PIPES = ("stdio", "local")


class AddedServer(NamedTuple):
    """A server to be added: its name, its table in TOML, its secrets by the names of their files, the secrets
    that the other program asks its user for, and the settings left out.
    """

    name: str
    table: str
    secrets: Mapping[str, str]
    asked: tuple[str, ...]
    ignored: tuple[str, ...]


class Config(NamedTuple):
    """The servers of a text: those to be added, and the names of the disabled ones."""

    servers: list[AddedServer]
    disabled: list[str]


def read_config(text: str) -> Config:
    """The servers in a text of JSON. Raises RequestError with what was expected."""
    if len(text) > MOST_BYTES:
        raise RequestError(f"expected at most {MOST_BYTES:,} characters, got {len(text):,}")
    try:
        value = json.loads(_without_comments(text.removeprefix("\ufeff")))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"expected JSON with mcpServers: {error}") from None
    servers, disabled, written = list[AddedServer](), list[str](), dict[str, str]()
    for name, entry in _table_in(value).items():
        if isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False):
            disabled.append(name)
            continue
        server = _server(name, _usual(entry))
        if (before := written.setdefault(server.name, name)) != name:
            both = f"{before!r:.80} and {name!r:.80} would both be [{MCP}.{server.name}]"
            raise RequestError(f"{both}: name one of them otherwise")
        servers.append(server)
    return Config(servers, disabled)


def _without_comments(text: str) -> str:
    """JSON with the comments and trailing commas of editors, as plain JSON: they become blanks."""

    def blank(piece: re.Match[str]) -> str:
        return piece[0] if piece[0].startswith('"') else re.sub(r"[^\n]", " ", piece[0])

    return _LAST_COMMA.sub(blank, _COMMENT.sub(blank, text))


def _table_in(value: Any) -> dict[str, Any]:
    """The table of servers in a value of JSON, or the value itself if it is one. Raises RequestError."""
    holders = (value, value.get(MCP)) if isinstance(value, dict) else ()
    for holder in holders:
        for name in TABLES:
            table = holder.get(name) if isinstance(holder, dict) else None
            if isinstance(table, list) and all(
                isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in table
            ):
                table = {entry["name"]: entry for entry in table}
            if isinstance(table, dict) and table:
                return table
    for holder in holders:
        if isinstance(holder, dict) and holder and all(map(_is_server, holder.values())):
            return holder
    raise RequestError('expected {"mcpServers": {"NAME": {"command": …, "args": […]}}}, got no such server')


def _is_server(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    return isinstance(entry.get("command"), list) or any(
        isinstance(entry.get(key), str) for key in ("command", *_URLS)
    )


def _usual(entry: Any) -> Any:
    """An entry in the usual form: in some programs `command` has all words, or is an object."""
    if not isinstance(entry, dict):
        return entry
    usual = {key: value for key, value in entry.items() if key not in ("environment", "name")}
    if "environment" in entry:
        usual["env"] = entry["environment"]
    command = entry.get("command")
    if isinstance(command, list) and command:
        usual |= {"command": command[0], "args": command[1:]}
    elif isinstance(command, dict):
        usual |= {key: command[key] for key in ("args", "env") if key in command}
        usual["command"] = command.get("path")
    return usual


def add_servers(home: Path, servers: Iterable[AddedServer]) -> None:
    """Write the tables of servers and their secrets into a home; none of them if one is faulty.

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
            descriptor = os.open(home / "etc" / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                opened.write(f"{secret}\n")
    write_whole(file, text)


def _server(written: str, entry: Any) -> AddedServer:
    """One server. Raises RequestError."""
    name = re.sub(r"[^a-z0-9_-]+", "-", written.lower()).strip("-_")
    if NAME.fullmatch(name) is None:
        raise RequestError(f"{written!r:.80}: expected a name that begins with a letter")
    if not isinstance(entry, dict):
        raise RequestError(f"{name}: expected an object with a command or a url")
    lines, secrets = [f"[{MCP}.{name}]"], _Secrets(name)
    url = next((entry[key] for key in _URLS if isinstance(entry.get(key), str)), None)
    _check_transport(name, str(entry.get("type", entry.get("transport", ""))), url)
    if url is not None:
        lines.append(f"url = {quoted(_whole(name, 'url', url))}")
        lines += _headers(name, entry.get("headers"), secrets)
    elif isinstance(entry.get("command"), str):
        lines.append(f"command = [{', '.join(map(quoted, _words(name, entry)))}]")
        if isinstance(entry.get("cwd"), str):
            lines.append(f"folder = {quoted(_whole(name, 'cwd', entry['cwd']))}")
        lines += _variables(name, entry.get("env"), secrets)
    else:
        raise RequestError(f"{name}: expected a command or a url, got {', '.join(entry) or 'nothing'}")
    ignored = tuple(sorted(set(entry) - {*_FOLLOWED}))
    return AddedServer(name, "\n".join(lines) + "\n", secrets.values, tuple(secrets.asked), ignored)


class _Secrets:
    """The secrets of a server, as they are found: each becomes a file, since any value may be secret."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.values: dict[str, str] = {}
        self.asked: list[str] = []

    def named(self, key: str, of: str, value: str) -> str:
        """The name of the secret for a value, which the server's table `key` has under the name `of`."""
        if (reference := _REFERENCE.fullmatch(value)) is not None:
            return reference[1]
        name = f"mcp-{self._server}-{re.sub(r'[^a-z0-9_-]', '-', of.lower())}"
        if _ASKED.fullmatch(value):
            self.asked.append(name)
        else:
            self.values[name] = _whole(self._server, f"{key}: {of}", value)
        return name


def _check_transport(name: str, kind: str, url: str | None) -> None:
    """Raise RequestError for a server with an unsupported transport."""
    kind = kind.lower()
    if url is not None and kind == "sse":
        raise RequestError(
            f"{name}: type: expected http (streamable HTTP), got sse, which the protocol has given up: most "
            'servers have an address for http too, often …/mcp: write that, and "type": "http"; else start a '
            f'program that speaks both: "command": "npx", "args": ["-y", "mcp-remote", {quoted(url)}]'
        )
    if kind and url is not None and kind not in _OVER_HTTP:
        raise RequestError(f"{name}: type: expected http beside a url, got {kind:.80}")
    if kind and url is None and kind not in _OVER_PIPES:
        raise RequestError(f"{name}: type: expected stdio beside a command, or a url, got {kind:.80}")


def _words(name: str, entry: Mapping[str, Any]) -> list[str]:
    """The words that start a program."""
    program, words = entry["command"], _texts(name, "args", entry.get("args", []))
    if not words and " " in program and not Path(program).exists():  # all of it in one text
        try:
            program, *words = shlex.split(program)
        except ValueError as error:
            raise RequestError(f"{name}: command: expected the words of a program: {error}") from None
    if program.lower() in ("cmd", "cmd.exe") and words[:1] and words[0].lower() == "/c" and words[1:]:
        program, words = words[1], words[2:]  # for Windows
    return [_whole(name, "args", word) for word in (os.path.expanduser(program), *words)]


def _whole(name: str, key: str, text: str) -> str:
    """A text without variables that only the other program can fill in. Raises RequestError."""
    if placeholder := _PLACEHOLDER.search(text):
        why = f"expected a text that is whole, found {placeholder[0]:.80}, which the other program puts in"
        raise RequestError(f"{name}: {key}: {why}: write what it stands for")
    return text


def _variables(name: str, variables: Any, secrets: _Secrets) -> list[str]:
    """The line of the variables of a program."""
    if not variables:
        return []
    if not isinstance(variables, dict):
        raise RequestError(f"{name}: env: expected an object of texts")
    pairs = []
    for variable, value in variables.items():
        if not isinstance(value, str | int | float | bool):
            raise RequestError(f"{name}: env: {variable!r:.80}: expected a text")
        text = value if isinstance(value, str) else json.dumps(value)
        pairs.append(f"{quoted(variable)} = {quoted(secrets.named('env', variable, text))}")
    return [f"secrets = {{ {', '.join(pairs)} }}"]


def _headers(name: str, headers: Any, secrets: _Secrets) -> list[str]:
    """The lines of the secrets of a server with an address."""
    if not headers:
        return []
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise RequestError(f"{name}: headers: expected an object of texts")
    lines, pairs = list[str](), list[str]()
    for header, value in headers.items():
        scheme, _, token = value.partition(" ")
        if header.lower() == "authorization" and scheme.lower() == "bearer" and token.strip():
            lines.append(f"secret = {quoted(secrets.named('headers', 'token', token.strip()))}")
        else:
            pairs.append(f"{quoted(header)} = {quoted(secrets.named('headers', header, value))}")
    return [*lines, *([f"headers = {{ {', '.join(pairs)} }}"] if pairs else [])]


def _texts(name: str, key: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str | int | float) for word in value):
        raise RequestError(f"{name}: {key}: expected a list of texts")
    return [str(word) for word in value]
