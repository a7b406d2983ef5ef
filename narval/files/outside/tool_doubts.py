"""Doubts about tools: calls of tools whose server the settings lack, or that no work can ask about."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Library, Reference
from narval.core.definitions.people.directory import DESTROYING, Directory
from narval.core.errors import Fault, RequestError
from narval.core.kinds import ASKING
from narval.files.outside.mcp_config import read_config
from narval.files.outside.mcp_servers import MCP, McpServer
from narval.files.settings import FILE
from narval.system.regular_file import read_file


def doubts_of_tools(
    home: Path, library: Library, servers: Iterable[McpServer], people: Directory | None
) -> Iterator[Fault]:
    """Warnings about calls of tools: the settings have no server of that name, or a person must be asked
    before the tool destroys something, and no work asks.
    """
    ruled = {rule.action for rule in people.approvals} if people is not None else set[str]()
    of_settings = {server.name: server for server in servers}
    for definition in library:
        for reference, action in _tools_named(definition, library):
            server = of_settings.get(action.group)
            if server is None:
                yield reference.warning(_without_server(home, definition, action))
            elif action.full_name not in ruled and _asks_in_vain(
                definition, library, reference, action, server
            ):
                why = "its server says that it destroys, and there is no work tools.approve, which asks first"
                message = f"{action.full_name}: {why}, so its calls fail"
                yield reference.warning(f"{message}; take what ships: narval take recipes/tools.xml")


def _tools_named(definition: Definition, library: Library) -> Iterator[tuple[Reference, Action]]:
    """The places of a definition that name tools."""
    for reference in definition.references:
        action = library.get(Action.kind, reference.target) if reference.kind in ("", Action.kind) else None
        if isinstance(action, Action) and action.tool is not None:
            yield reference, action


def _without_server(home: Path, definition: Definition, action: Action) -> str:
    beside = Path(definition.path).with_name(f"{action.group}.json")
    file = shlex.quote(str(home / beside)) if (home / beside).is_file() else "FILE"
    why = f"it is a tool of the MCP server {action.group}, and {FILE} has no table [{MCP}.{action.group}]"
    return f"{action.full_name}: {why}, so its calls fail; add the server: narval mcp add {file}"


def _asks_in_vain(
    definition: Definition, library: Library, reference: Reference, action: Action, server: McpServer
) -> bool:
    """True if a call must ask first, and nothing there asks."""
    tool = action.tool
    if tool is None or not tool.destroys or tool.name in server.approved:
        return False
    is_asked = any(
        one.kind == ASKING and one.what == f"approve of {reference.what}" for one in definition.references
    )
    return not is_asked and library.get(ASKING, DESTROYING) is None


def servers_to_add(home: Path, paths: Iterable[str], servers: Iterable[McpServer]) -> dict[str, str]:
    """The MCP servers that files of an example describe and the settings do not have: the files by server."""
    there = {server.name for server in servers}
    files = dict[str, str]()
    for path in paths:
        source = read_file(home / path, path) if path.endswith(".json") else None
        try:
            if source is None or isinstance(source, Fault):
                continue
            added = read_config(source.text).servers
        except RequestError:  # the file is about something else
            continue
        files.update({server.name: path for server in added if server.name not in there})
    return files
