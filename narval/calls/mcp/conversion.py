"""Results of tools become elements.

Scalars are attributes, objects are children, arrays are children of one name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lxml import etree

from narval.core.definitions.action.tool import xml_name
from narval.core.definitions.action.tool_arguments import MOST_DEPTH
from narval.core.elements.error_element import xml_safe
from narval.core.errors import ActionError

MOST_NODES = 50_000
"""The most elements and attributes that a result becomes."""

ITEM = "item"
"""The name of the items of an array that stands in an array."""


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
