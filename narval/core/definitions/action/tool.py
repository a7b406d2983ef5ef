"""Tool: an MCP server's description of one of its tools, an action here, as stored in a `.tools` file;
and the arguments of tools, made from elements according to its JSON schema.

Scalars are attributes, or children with text. Objects are children, arrays are children with the same name.
Values filled in when a step runs are checked as far as they are written.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from lxml import etree

from narval.core.definitions.suggestions import closest
from narval.core.elements.element import Element, children, local_name, parse, text_within
from narval.core.errors import ActionError

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
    """The name of an element or attribute for a JSON name: characters invalid in XML become "_"."""
    name = re.sub(r"[^\w.-]", "_", text)
    return name if re.match(r"[^\W\d]|_", name) else f"_{name}"


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

MOST_ARGUMENTS = 1024 * 1024
"""The most bytes of a call's arguments, as JSON."""

MOST_DEPTH = 64
"""The most levels of arguments and of a result."""


FOREACH = "foreach"
"""The attribute that repeats an element within an argument of a step."""


class ArgumentError(ActionError):
    """An element that is not a valid argument of its tool."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "bad-argument", final=True)


class _MisfitError(Exception):
    """A value that does not match a schema: what was expected, and where."""

    def __init__(self, expected: str, place: str = "") -> None:
        super().__init__(f"{place}: expected {expected}" if place else f"expected {expected}")
        self.expected, self.place = expected, place


class _Document(NamedTuple):
    """The schema that references point into; `is_template` if values are filled in later."""

    schema: Mapping[str, Any]
    is_template: bool = False


class Argument(NamedTuple):
    """An argument as declared by a tool, with its XML name."""

    name: str
    type: str
    """The type in words: `string`, `integer or null`, `list of string`, `one of warm, cold`."""
    required: bool
    is_child: bool
    """True for a child of the element, False for an attribute."""
    description: str


def arguments_declared(tool: Tool) -> tuple[Argument, ...]:
    """The arguments that a tool declares, in order."""
    of, properties = _Document(tool.input_schema), tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    needed = required if isinstance(required, list) else ()
    return tuple(
        Argument(
            xml_name(name),
            _type(schema := _resolved(declared, of), of),
            name in needed,
            schema.get("type") in ("array", "object"),
            str(schema.get("description", "")),
        )
        for name, declared in (properties if isinstance(properties, dict) else {}).items()
    )


def _type(schema: Mapping[str, Any], of: _Document) -> str:
    """The type of a schema as text."""
    words, choices = schema.get("type", "anything"), schema.get("enum")
    if isinstance(choices, list):
        return f"one of {', '.join(map(str, choices))}"
    if _is_list(schema):
        return f"list of {_resolved(schema.get('items'), of).get('type', 'anything')}"
    return " or ".join(map(str, words)) if isinstance(words, list) else str(words)


def arguments_of(tool: Tool, element: Element | None) -> dict[str, Any]:
    """The arguments of a call, by the schema of the tool. Raises ActionError (`bad-argument`, final)."""
    schema = tool.input_schema
    node = etree.Element(tool.action) if element is None else parse(element.xml)
    try:
        made = _object(node, schema, _Document(schema), 0)
        if len(msgspec.json.encode(made)) > MOST_ARGUMENTS:
            raise _MisfitError(f"at most {MOST_ARGUMENTS:,} bytes of arguments")
    except _MisfitError as error:
        raise ArgumentError(f"{tool.action}: {error}") from None
    return made


def misfit_of(tool: Tool, xml: bytes) -> str:
    """The reason why a step's written argument does not match its tool; "" if it may."""
    schema = tool.input_schema
    try:
        _object(parse(xml), schema, _Document(schema, is_template=True), 0)
    except _MisfitError as error:
        return str(error)
    return ""


def _object(node: etree._Element, schema: Mapping[str, Any], of: _Document, depth: int) -> dict[str, Any]:
    """Convert an element to an object."""
    if depth > MOST_DEPTH:
        raise _MisfitError(f"at most {MOST_DEPTH} levels")
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    by_name = {xml_name(name): name for name in properties}
    more = schema.get("additionalProperties", not properties)
    parts: dict[str, list[str | etree._Element]] = {}
    for written, value in node.attrib.items():
        if of.is_template and str(written) == FOREACH:
            continue
        parts.setdefault(local_name(str(written)) or "", []).append(str(value))
    for child in children(node):
        parts.setdefault(local_name(child.tag) or "", []).append(child)
    made: dict[str, Any] = {}
    for written, values in parts.items():
        name = by_name.get(written, written)
        if written not in by_name and not more:
            raise _MisfitError(f"one of its arguments, found {written!r:.80}{closest(written, by_name)}")
        expected = properties.get(name, more if isinstance(more, dict) else {})
        try:
            made[name] = _value(values, expected, of, depth + 1)
        except _MisfitError as error:
            raise _MisfitError(error.expected, f"{written}/{error.place}".rstrip("/")) from None
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in made:
            default = properties.get(name, {})
            if isinstance(default, dict) and _is_list(_resolved(default, of)):
                made[name] = []
                continue
            raise _MisfitError(f"the attribute {xml_name(str(name))!r:.80}, which it requires")
    return made


def _value(values: list[str | etree._Element], schema: Any, of: _Document, depth: int) -> Any:
    """Convert the values written under one name: to an array if the schema says so."""
    schema = _resolved(schema, of)
    if depth > MOST_DEPTH:
        raise _MisfitError(f"at most {MOST_DEPTH} levels")
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list) and choices:
        return _first_fit(values, choices, of, depth)
    types = schema.get("type")
    if isinstance(types, list):
        return _first_fit(values, [{**schema, "type": one} for one in types], of, depth)
    if types == "array":
        items = schema.get("items", {})
        return [_item(value, items, of, depth) for value in values]
    if len(values) > 1:
        if types is None and "enum" not in schema:
            return [_item(value, {}, of, depth) for value in values]
        raise _MisfitError(f"one value, found {len(values)}")
    return _single(values[0], schema, of, depth)


def _item(value: str | etree._Element, schema: Any, of: _Document, depth: int) -> Any:
    schema = _resolved(schema, of)
    if _is_list(schema) and isinstance(value, etree._Element):
        return [_item(child, schema.get("items", {}), of, depth + 1) for child in children(value)]
    return _value([value], schema, of, depth + 1)


def _first_fit(values: list[str | etree._Element], schemas: list[Any], of: _Document, depth: int) -> Any:
    """The value according to the first schema that it matches."""
    expected: dict[str, None] = {}
    for schema in schemas:
        if isinstance(schema, dict) and schema.get("type") == "null":
            continue
        try:
            return _value(values, schema, of, depth + 1)
        except _MisfitError as error:
            expected[error.expected] = None
    raise _MisfitError(" or ".join(expected) or "nothing")


def _single(value: str | etree._Element, schema: Mapping[str, Any], of: _Document, depth: int) -> Any:
    type = schema.get("type")
    if isinstance(value, etree._Element) and (
        type == "object" or (type is None and (value.attrib or children(value)))
    ):
        return _object(value, schema, of, depth)
    if type == "object":
        raise _MisfitError("a child element, for its schema says object")
    if type == "null":
        raise _MisfitError("nothing, for its schema says null")
    text = value if isinstance(value, str) else text_within(value)
    if of.is_template and "{" in text:
        return text
    made = _scalar(text, type)
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(allowed, list) and made not in allowed:
        fitting = next(
            (
                one
                for one in allowed
                if not isinstance(one, str) and msgspec.json.encode(one).decode() == text
            ),
            None,
        )
        if fitting is None:
            words = ", ".join(str(one) for one in allowed[:12])
            hint = closest(text, [one for one in allowed if isinstance(one, str)])
            raise _MisfitError(f"one of {words}, found {text!r:.80}{hint if 'mean' in hint else ''}")
        return fitting
    return made


def _scalar(text: str, type: Any) -> Any:
    if type == "boolean":
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.strip().lower() not in words:
            raise _MisfitError(f"true or false, found {text!r:.80}")
        return words[text.strip().lower()]
    if type in ("integer", "number"):
        written = text.strip()
        if re.fullmatch(r"[+-]?[0-9]{1,18}", written):
            return int(written)
        if type == "number" and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", written):
            number = float(written)
            if math.isfinite(number):
                return number
        what = "a whole number" if type == "integer" else "a number"
        raise _MisfitError(f"{what}, found {text!r:.80}")
    return text


def _resolved(schema: Any, of: _Document) -> Mapping[str, Any]:
    """A schema, or the one it refers to in the same document; an invalid schema allows anything."""
    for _ in range(MOST_DEPTH):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        if not reference.startswith("#"):
            return {}
        part: Any = of.schema
        for word in reference.removeprefix("#").split("/")[1:]:
            word = word.replace("~1", "/").replace("~0", "~")
            part = part.get(word) if isinstance(part, dict) else None
        schema = part
    return {}


def _is_list(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "array"
