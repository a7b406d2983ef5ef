"""Conversion of tools' results to elements.

Scalars become attributes, objects become children, and arrays become children of one name. Bytes, such as a
picture, are kept as a file of the home, which the element names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lxml import etree

from narval.calls.kept_files import MCP_FILES, write_file
from narval.core.definitions.action.tool import xml_name
from narval.core.definitions.action.tool_arguments import MOST_DEPTH
from narval.core.elements.own_elements import xml_safe
from narval.core.errors import ActionError

MOST_NODES = 50_000
"""The most elements and attributes of a converted result."""

ITEM = "item"
"""The name of the items of an array within an array."""


def result_of(
    name: str,
    structured: Mapping[str, Any] | None,
    content: Iterable[Mapping[str, Any]],
    home: Path | None = None,
) -> bytes:
    """The element for a result: from its structured part, or else from its texts. Its bytes are kept as files
    of the home.

    Raises ActionError: `bad-output` (final) if it is too deep, has too many parts, or has bytes that are not
    valid base64; `unwritable-file` if the bytes cannot be kept.
    """
    root = etree.Element(name)
    count = [0]
    if structured is not None:
        _write(root, structured, 0, count)
        _write_content(root, [part for part in content if has_bytes(part)], home)
    else:
        _write_content(root, list(content), home)
    return etree.tostring(root, encoding="utf-8")


def has_bytes(part: Mapping[str, Any]) -> bool:
    """True for a binary part of a result: a picture, a sound, or a resource that is not text."""
    return _encoded(_source(part)) is not None


def _source(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part itself, or the resource embedded in it."""
    resource = part.get("resource")
    return resource if part.get("type") == "resource" and isinstance(resource, dict) else part


def _encoded(source: Mapping[str, Any]) -> str | None:
    """The bytes of a part, in base64; None if it has none."""
    data = source.get("data", source.get("blob"))
    return data if isinstance(data, str) else None


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


def _write_content(root: etree._Element, content: list[Mapping[str, Any]], home: Path | None) -> None:
    """Write the parts of a result that are not structured."""
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
        source = _source(part)
        node = etree.SubElement(root, "link" if kind == "resource_link" else xml_name(kind or "part"))
        for name in ("uri", "name", "title", "mimeType"):
            if isinstance(source.get(name), str):
                node.set("type" if name == "mimeType" else name, xml_safe(source[name]))
        if isinstance(source.get("text"), str):
            node.text = xml_safe(source["text"])
        if (encoded := _encoded(source)) is not None:
            for name, value in _kept(kind, str(source.get("mimeType", "")), encoded, home).items():
                node.set(name, value)


def _kept(kind: str, mime_type: str, encoded: str, home: Path | None) -> dict[str, str]:
    """The size, digest and file of bytes; for a home in memory no file is kept. Raises ActionError."""
    try:
        data = base64.b64decode("".join(encoded.split()), validate=True)
    except ValueError as error:
        why = f"expected the {xml_name(kind)} of a result in base64: {error}"
        raise ActionError(why, "bad-output", final=True) from None
    digest = hashlib.sha256(data).hexdigest()
    about = {"size": str(len(data)), "sha256": digest}
    if home is None:
        return about
    ending = mimetypes.guess_extension(mime_type.partition(";")[0].strip()) or ".bin"
    path = f"{MCP_FILES}/{digest[:2]}/{digest}/{xml_name(kind)}{ending}"
    try:
        write_file(home / path, data)
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror}"
        raise ActionError(why, "unwritable-file", final=True) from None  # the tool has done its work
    return about | {"file": path}


def _too(what: str, most: str) -> ActionError:
    return ActionError(
        f"expected a result of at most {most}, got one that is too {what}", "bad-output", final=True
    )
