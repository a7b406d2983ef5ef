"""Kept tools: `recipes/mcp/NAME.tools` has the tools of an MCP server as they were accepted."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from narval.core.definitions.action.tool import Tool, ToolsFile
from narval.core.definitions.action.tools_parser import read_tools
from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError
from narval.system.regular_file import read_source
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
