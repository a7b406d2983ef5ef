"""The actions of a `.tools` file: JSON with the accepted tools of an MCP server."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePath

import msgspec
from msgspec.structs import replace

from narval.core.definitions.action.definition import Action, Input, Output, render
from narval.core.definitions.action.needs import Needs
from narval.core.definitions.action.tool import MOST_TOOLS, Tool, ToolsFile, fault_of
from narval.core.definitions.library import Parsed
from narval.core.definitions.prototype import Prototype
from narval.core.elements.own_elements import xml_safe
from narval.core.errors import DefinitionError, Fault
from narval.core.memory.labels import SERVER
from narval.core.source.text import Source

NEED = "mcp:"
"""The prefix of the program that a tool needs: the server, by its name in the settings."""

_EXPECTED = "expected the tools of a server in JSON, as `narval mcp tools` writes them"


def parse(source: Source, root: None = None) -> Parsed:
    """The actions of a `.tools` file, and all its faults."""
    try:
        file = read_tools(source)
    except DefinitionError as error:
        return Parsed((), faults=error.faults)
    faults = list(_faults(source, file))
    actions = () if faults else tuple(_action(source, file.server, tool) for tool in file.tools)
    return Parsed(actions, faults=tuple(faults), names=frozenset(("action", a.full_name) for a in actions))


def read_tools(source: Source) -> ToolsFile:
    """The tools in a file. Raises DefinitionError for an invalid file."""
    text = source.text.encode("utf-8", "surrogatepass")
    try:
        return msgspec.json.decode(text, type=ToolsFile)
    except (msgspec.ValidationError, RecursionError) as error:
        raise source.error(f"{_EXPECTED}: {error}") from None
    except msgspec.DecodeError as error:
        place = re.search(r"\(byte (\d+)\)", str(error))
        before = text[: int(place[1]) if place is not None else 0].decode("utf-8", "ignore")
        raise source.error(f"{_EXPECTED}: {error}", *source.place(len(before))) from None


def _faults(source: Source, file: ToolsFile) -> Iterator[Fault]:
    stem = PurePath(source.path).stem
    if file.server != stem:
        yield source.fault(f"server: expected {stem!r:.80}, as the file is called, found {file.server!r:.80}")
    if len(file.tools) > MOST_TOOLS:
        yield source.fault(f"expected at most {MOST_TOOLS} tools, found {len(file.tools):,}")
    names: dict[str, str] = {}
    for tool in file.tools:
        why = fault_of(tool)
        if not why and (other := names.setdefault(tool.action, tool.name)) != tool.name:
            why = f"this tool and {other!r:.80} would be one action, {tool.action!r:.80}"
        if why:
            yield source.fault(f"{tool.name!r:.80}: {why}", *_place(source, tool))


def _place(source: Source, tool: Tool) -> tuple[int, int]:
    at = source.text.find(f'"name": {msgspec.json.encode(tool.name).decode()}')
    return source.place(max(at, 0))


def _action(source: Source, server: str, tool: Tool) -> Action:
    needs_arguments = bool(tool.input_schema.get("required"))
    name = tool.action
    action = Action(
        group=server,
        name=name,
        function=xml_safe(tool.name),
        prototype=Prototype(
            (Input(name, name, optional=not needs_arguments),), (Output(tool.result, tool.result),)
        ),
        descriptions={"en": xml_safe(tool.description)} if tool.description.strip() else {},
        label=f"{SERVER}{server}",
        where="mcp",
        needs=Needs(programs=(f"{NEED}{server}",)),
        tool=tool,
        path=source.path,
        line=_place(source, tool)[0],
    )
    xml = render(action, "mcp", False, None)
    return replace(action, xml=xml, digest=hashlib.sha256(tool.digest.encode() + xml).hexdigest())
