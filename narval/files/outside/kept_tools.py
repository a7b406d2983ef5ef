"""Kept tools: `recipes/mcp/NAME.tools` has the tools of an MCP server as they were accepted.

Calls of tools are doubtful if the settings lack the server, or if no work can ask about them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.tool import Tool, ToolsFile
from narval.core.definitions.action.tools_parser import read_tools
from narval.core.definitions.library import Definition, Library, Reference
from narval.core.definitions.people.directory import DESTROYING, Directory
from narval.core.definitions.suggestions import closest
from narval.core.errors import Fault, RequestError
from narval.core.kinds import ASKING
from narval.files.outside.mcp_config import read_config
from narval.files.outside.mcp_servers import MCP, McpServer
from narval.files.settings import FILE
from narval.system.regular_file import read_file, read_source
from narval.system.whole_files import write_whole

FOLDER = "recipes/mcp"
"""The folder of a home with these files."""

State = Literal["accepted", "new", "changed", "gone"]


class KeptTool(NamedTuple):
    """A tool, as it was accepted and as its server now offers it; `state` says how they differ."""

    name: str
    state: State
    before: Tool | None
    offered: Tool | None

    @property
    def shown(self) -> Tool:
        """The tool as it is called, or would be."""
        tool = self.before or self.offered
        assert tool is not None
        return tool

    def differs(self) -> Iterator[str]:
        """The lines in which a changed tool's description by its server differs from the accepted one:
        accepted lines after "-", current ones after "+".
        """
        if self.state == "changed" and self.before is not None and self.offered is not None:
            before, now = (_text(one).splitlines() for one in (self.before, self.offered))
            yield from islice(unified_diff(before, now, n=2, lineterm=""), 3, None)


def path_of(server: str) -> str:
    """The file of a server, within the home."""
    return f"{FOLDER}/{server}.tools"


def kept_tools(home: Path, server: str) -> dict[str, Tool] | None:
    """The accepted tools, by name; None if there is no file. Raises DefinitionError."""
    path = path_of(server)
    if not (home / path).exists():
        return None
    return {tool.name: tool for tool in read_tools(read_source(home / path, path)).tools}


def compared(accepted: Mapping[str, Tool], offered: Mapping[str, Tool]) -> list[KeptTool]:
    """The tools of a server, as accepted and as offered, in the order of names."""
    rows = []
    for name in sorted({*accepted, *offered}):
        old, new = accepted.get(name), offered.get(name)
        state: State = "accepted"
        if old is None or new is None:
            state = "new" if old is None else "gone"
        elif old.digest != new.digest:
            state = "changed"
        rows.append(KeptTool(name, state, old, new))
    return rows


def taken_over(
    rows: Collection[KeptTool], accepted: Collection[str], only: Collection[str] | None
) -> list[KeptTool]:
    """The tools with the changes taken over: new ones, among `only` if that is given, and the accepted
    changes.

    Raises RequestError for an accepted one that does not exist.
    """
    names = {row.name for row in rows}
    for name in accepted:
        if name not in names:
            raise RequestError(f"expected a tool of this server, got {name!r:.80}{closest(name, names)}")
    result = []
    for row in rows:
        if row.name in accepted or (row.state == "new" and (only is None or row.name in only)):
            if row.offered is not None:
                result.append(KeptTool(row.name, "accepted", row.offered, row.offered))
        else:
            result.append(row)
    return result


def write_tools(home: Path, server: str, tools: Collection[Tool]) -> None:
    """Write the accepted tools. Raises OSError."""
    path = home / path_of(server)
    path.parent.mkdir(parents=True, exist_ok=True)
    value = ToolsFile(server=server, tools=sorted(tools, key=lambda tool: tool.name))
    write_whole(path, _text(value) + "\n")


def _text(value: ToolsFile | Tool) -> str:
    """The text of tools for their file."""
    return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)


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
