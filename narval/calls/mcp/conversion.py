"""Elements become arguments of tools, by the JSON schema of these; results of tools become elements.

Scalars are attributes; they may be written as children with text too. Objects are children, arrays are
children of one name. A result is written in the same way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from lxml import etree

from narval.core.definitions.action.tool import Tool, xml_name
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import Element, children, local_name, parse, text_within
from narval.core.elements.error_element import xml_safe
from narval.core.errors import ActionError

MOST_ARGUMENTS = 1024 * 1024
"""The most bytes that the arguments of a call may have, as JSON."""

MOST_DEPTH = 64
"""The most levels of arguments and of a result."""

MOST_NODES = 50_000
"""The most elements and attributes that a result becomes."""

ITEM = "item"
"""The name of the items of an array that stands in an array."""

_SCALARS = ("string", "number", "integer", "boolean")


class ArgumentError(ActionError):
    """An element that is no argument of its tool."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "bad-argument", final=True)


class _MisfitError(Exception):
    """A value that does not fit a schema: what was expected, and where."""

    def __init__(self, expected: str, place: str = "") -> None:
        super().__init__(expected)
        self.expected, self.place = expected, place


# --- arguments ----------------------------------------------------------------------------------------------


def arguments_of(tool: Tool, element: Element | None) -> dict[str, Any]:
    """The arguments of a call, by the schema of the tool. Raises ActionError (`bad-argument`, final)."""
    schema = tool.input_schema
    node = etree.Element(tool.action) if element is None else parse(element.xml)
    try:
        made = _object(node, schema, schema, 0)
        if len(json.dumps(made)) > MOST_ARGUMENTS:
            raise _MisfitError(f"at most {MOST_ARGUMENTS:,} bytes of arguments")
    except _MisfitError as error:
        place = f"{error.place}: " if error.place else ""
        raise ArgumentError(f"{tool.action}: {place}expected {error.expected}") from None
    return made


def _object(
    node: etree._Element, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int
) -> dict[str, Any]:
    """An element as an object."""
    if depth > MOST_DEPTH:
        raise _MisfitError(f"at most {MOST_DEPTH} levels")
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    by_name = {xml_name(name): name for name in properties}
    more = schema.get("additionalProperties", not properties)
    parts: dict[str, list[str | etree._Element]] = {}
    for written, value in node.attrib.items():
        parts.setdefault(local_name(str(written)) or "", []).append(str(value))
    for child in children(node):
        parts.setdefault(local_name(child.tag) or "", []).append(child)
    made: dict[str, Any] = {}
    for written, values in parts.items():
        name = by_name.get(written, written)
        if written not in by_name and not more:
            raise _MisfitError(f"one of its arguments, found {written!r:.80}{closest(written, by_name)}")
        of = properties.get(name, more if isinstance(more, dict) else {})
        try:
            made[name] = _value(values, of, root, depth + 1)
        except _MisfitError as error:
            raise _MisfitError(error.expected, f"{written}/{error.place}".rstrip("/")) from None
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in made:
            default = properties.get(name, {})
            if isinstance(default, dict) and _is_list(_resolved(default, root)):
                made[name] = []
                continue
            raise _MisfitError(f"the attribute {xml_name(str(name))!r:.80}, which it requires")
    return made


def _value(values: list[str | etree._Element], schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """The value that is written under one name: an array where the schema says so."""
    schema = _resolved(schema, root)
    if depth > MOST_DEPTH:
        raise _MisfitError(f"at most {MOST_DEPTH} levels")
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list) and choices:
        return _first_fit(values, choices, root, depth)
    types = schema.get("type")
    if isinstance(types, list):
        return _first_fit(values, [{**schema, "type": one} for one in types], root, depth)
    if types == "array":
        items = schema.get("items", {})
        return [_item(value, items, root, depth) for value in values]
    if len(values) > 1:
        if types is None and "enum" not in schema:
            return [_item(value, {}, root, depth) for value in values]
        raise _MisfitError(f"one value, found {len(values)}")
    return _single(values[0], schema, root, depth)


def _item(value: str | etree._Element, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    schema = _resolved(schema, root)
    if _is_list(schema) and isinstance(value, etree._Element):
        return [_item(child, schema.get("items", {}), root, depth + 1) for child in children(value)]
    return _value([value], schema, root, depth + 1)


def _first_fit(
    values: list[str | etree._Element], schemas: list[Any], root: Mapping[str, Any], depth: int
) -> Any:
    """The value by the first schema that it fits."""
    expected: dict[str, None] = {}
    for schema in schemas:
        if isinstance(schema, dict) and schema.get("type") == "null":
            continue
        try:
            return _value(values, schema, root, depth + 1)
        except _MisfitError as error:
            expected[error.expected] = None
    raise _MisfitError(" or ".join(expected) or "nothing")


def _single(
    value: str | etree._Element, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int
) -> Any:
    type = schema.get("type")
    if isinstance(value, etree._Element) and (type == "object" or (type is None and _is_object(value))):
        return _object(value, schema, root, depth)
    if type == "object":
        raise _MisfitError("a child element, for its schema says object")
    if type == "null":
        raise _MisfitError("nothing, for its schema says null")
    text = value if isinstance(value, str) else text_within(value)
    made = _scalar(text, type)
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(allowed, list) and made not in allowed:
        fitting = next((one for one in allowed if not isinstance(one, str) and json.dumps(one) == text), None)
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
        if type == "integer" and re.fullmatch(r"[+-]?[0-9]{1,18}", written):
            return int(written)
        if re.fullmatch(r"[+-]?[0-9]{1,18}", written):
            return int(written)
        if type == "number" and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", written):
            number = float(written)
            if math.isfinite(number):
                return number
        what = "a whole number" if type == "integer" else "a number"
        raise _MisfitError(f"{what}, found {text!r:.80}")
    return text


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or that to which it refers within the same document; what is none allows anything."""
    for _ in range(MOST_DEPTH):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        if not reference.startswith("#"):
            return {}
        part: Any = root
        for word in reference.removeprefix("#").split("/")[1:]:
            word = word.replace("~1", "/").replace("~0", "~")
            part = part.get(word) if isinstance(part, dict) else None
        schema = part
    return {}


def _is_list(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "array"


def _is_object(node: etree._Element) -> bool:
    return bool(node.attrib) or any(True for _ in children(node))


# --- results ------------------------------------------------------------------------------------------------


def result_of(name: str, structured: Mapping[str, Any] | None, content: Iterable[Mapping[str, Any]]) -> bytes:
    """The element of a result: of its structured part, or else of its texts.

    Raises ActionError (`bad-output`, final) for one that is too deep or has too many parts.
    """
    root = etree.Element(name)
    count = [0]
    if structured is not None:
        _write(root, structured, 0, count)
    else:
        _write_content(root, list(content))
    return etree.tostring(root, encoding="utf-8")


def _write(node: etree._Element, value: Any, depth: int, count: list[int]) -> None:
    """Write a value of JSON into an element."""
    if depth > MOST_DEPTH:
        raise _too("deep", f"{MOST_DEPTH} levels")
    if isinstance(value, dict):
        for key, part in value.items():
            _write_part(node, xml_name(str(key)), part, depth, count)
    elif isinstance(value, list):
        for part in value:
            _write_part(node, ITEM, [part], depth, count)
    elif value is not None:
        node.text = xml_safe(_text(value))


def _write_part(node: etree._Element, name: str, part: Any, depth: int, count: list[int]) -> None:
    count[0] += 1
    if count[0] > MOST_NODES:
        raise _too("large", f"{MOST_NODES:,} values")
    if isinstance(part, list):
        for item in part:
            count[0] += 1
            _write(etree.SubElement(node, name), item, depth + 1, count)
    elif isinstance(part, dict):
        _write(etree.SubElement(node, name), part, depth + 1, count)
    elif part is not None:
        node.set(name, xml_safe(_text(part)))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def _write_content(root: etree._Element, content: list[Mapping[str, Any]]) -> None:
    """Write the parts of a result that is not structured; of what is no text its type and size are told."""
    if len(content) > MOST_NODES:
        raise _too("large", f"{MOST_NODES:,} parts")
    if len(content) == 1 and content[0].get("type") == "text":
        root.text = xml_safe(str(content[0].get("text", "")))
        return
    for part in content:
        kind = str(part.get("type", ""))
        if kind == "text":
            etree.SubElement(root, "text").text = xml_safe(str(part.get("text", "")))
            continue
        resource = part.get("resource")
        source = resource if kind == "resource" and isinstance(resource, dict) else part
        node = etree.SubElement(root, "link" if kind == "resource_link" else xml_name(kind or "part"))
        for name in ("uri", "name", "title", "mimeType"):
            if isinstance(source.get(name), str):
                node.set("type" if name == "mimeType" else name, xml_safe(source[name]))
        if isinstance(source.get("text"), str):
            node.text = xml_safe(source["text"])
        data = source.get("data", source.get("blob"))
        if isinstance(data, str):
            node.set("bytes", str(len(data.rstrip("=")) * 3 // 4))


def _too(what: str, most: str) -> ActionError:
    return ActionError(
        f"expected a result of at most {most}, got one that is too {what}", "bad-output", final=True
    )


def text_of(content: Iterable[Mapping[str, Any]]) -> str:
    """The texts of a result, one below the other."""
    return "\n".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
