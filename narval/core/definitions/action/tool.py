"""Tool: an MCP server's description of one of its tools, an action here, as stored in a `.tools` file."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from typing import Any

import msgspec

LONGEST_NAME, LONGEST_DESCRIPTION, LARGEST_SCHEMA = 128, 16_384, 65_536
"""The most characters of a name and of a description, and the most bytes of a schema."""

MOST_TOOLS = 500
"""The most tools of one server."""


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", dict=True):
    """A tool, as described by its server."""

    name: str
    """The name of the tool at the server."""
    description: str = ""
    """The server's description of the tool."""
    input_schema: dict[str, Any] = {}
    """The JSON schema of its arguments."""
    output_schema: dict[str, Any] | None = None
    """The JSON schema of its result; None: it returns text."""
    annotations: dict[str, Any] = {}
    """The server's hints about its effects, such as `destructiveHint`."""

    @cached_property
    def digest(self) -> str:
        """The digest of the server's whole description."""
        return hashlib.sha256(canonical_json(msgspec.to_builtins(self))).hexdigest()

    @property
    def action(self) -> str:
        """The name of the action, and of the element of its arguments."""
        return action_name(self.name)

    @property
    def result(self) -> str:
        """The name of the element it returns."""
        return f"{self.action}-result"

    @property
    def destroys(self) -> bool:
        """True if the server says that it destroys or overwrites something."""
        return self.annotations.get("destructiveHint") is True

    @property
    def is_repeatable(self) -> bool:
        """True if the server says that it only reads, or that a second equal call changes nothing."""
        return True in (self.annotations.get("readOnlyHint"), self.annotations.get("idempotentHint"))


class ToolsFile(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a server, as stored in a `.tools` file."""

    server: str
    """The name of the server in the settings."""
    tools: list[Tool] = []
    """The accepted tools."""


def canonical_json(value: object) -> bytes:
    """The same bytes for the same value, whatever the order of its keys."""
    return msgspec.json.encode(value, order="sorted")


def xml_name(text: str) -> str:
    """The name of an element or attribute for a JSON name: characters invalid in XML become "_", and one that
    XML reserves begins with it.
    """
    name = re.sub(r"[^\w.-]", "_", text)
    return name if re.match(r"[^\W\d]|_", name) and name != "xmlns" else f"_{name}"


def action_name(tool: str) -> str:
    """The name of a tool's action, without its group."""
    return xml_name(tool).replace(".", "_")


def fault_of(tool: Tool) -> str:
    """The reason why a tool cannot be an action; "" if it can."""
    sizes = (len(canonical_json(schema)) for schema in (tool.input_schema, tool.output_schema or {}))
    if not tool.name or len(tool.name) > LONGEST_NAME:
        return f"expected a name of 1 to {LONGEST_NAME} characters, found {len(tool.name)}"
    if len(tool.description) > LONGEST_DESCRIPTION:
        expected = f"expected a description of at most {LONGEST_DESCRIPTION:,} characters"
        return f"{expected}, found {len(tool.description):,}"
    if (largest := max(sizes)) > LARGEST_SCHEMA:
        return f"expected a schema of at most {LARGEST_SCHEMA:,} bytes, found {largest:,}"
    properties = tool.input_schema.get("properties", {})
    if not isinstance(properties, dict):
        return "expected the properties of its schema to be an object"
    names: dict[str, str] = {}
    for name in properties:
        if (other := names.setdefault(xml_name(name), name)) != name:
            return (
                f"its arguments {other!r:.80} and {name!r:.80} would be one attribute, {xml_name(name)!r:.80}"
            )
    return ""


# --- arguments --------------------------------------------------------------------------------------------
