"""Arguments of tools, made from elements according to the JSON schema of a tool.

Scalars are attributes, or children with text. Objects are children, arrays are children with the same name.
Values filled in when a step runs are checked as far as they are written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from lxml import etree

from narval.core.definitions.action.tool import Tool, xml_name
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import Element, children, local_name, parse, text_within
from narval.core.errors import ActionError

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
