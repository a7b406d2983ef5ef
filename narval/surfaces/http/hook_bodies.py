"""Bodies of webhooks made into elements: JSON, a form, or XML becomes one element, by one mapping.

    {"state": "failed", "by": {"name": "Ann"}, "steps": ["a", "b"], "odd key": 1, "none": null}

    <build state="failed"><by name="Ann"/><steps>a</steps><steps>b</steps><item key="odd key">1</item></build>

A text, number or truth value is an attribute, an object an element, each value of a list an element with the
name of the list, and null nothing. A form is an object whose values are texts. XML stays as it is if its root
has the name of the element; else it is put within one. Numbers stay as they were written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from lxml import etree

from narval.errors import ElementError
from narval.memory.elements.canonical import parse_untrusted

DEPTH = 64
"""The most levels of objects and lists."""

FIELDS = 500
"""The most fields of a form."""

_NAME = re.compile(r"(?!xml)[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot have; they are shown as U+FFFD."""

_ITEM, _KEY, _EID = "item", "key", "eid"


class BodyError(ValueError):
    """A body that is not what its type says, or more than is taken; the message says what was expected."""


def of_json(name: str, body: bytes) -> bytes:
    """The element of a body of JSON. Raises BodyError."""
    try:
        given = json.loads(body, parse_int=str, parse_float=str, parse_constant=_no_number)
    except RecursionError:
        raise BodyError(f"expected at most {DEPTH} levels of JSON") from None
    except ValueError as error:  # of the encoding too
        raise BodyError(f"expected JSON: {error}") from None
    return _element(name, given)


def of_form(name: str, body: bytes) -> bytes:
    """The element of a body of fields. Raises BodyError."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError as error:
        raise BodyError(f"expected at most {FIELDS} fields of a form, in UTF-8: {error}") from None
    given: dict[str, Any] = {}
    for key, value in pairs:
        given.setdefault(key, []).append(value)
    return _element(name, {key: found[0] if len(found) == 1 else found for key, found in given.items()})


def of_xml(name: str, body: bytes) -> bytes:
    """The element of a body of XML. Raises BodyError."""
    try:
        root = parse_untrusted(body)
    except ElementError as error:
        raise BodyError(f"{error.line}:{error.column}: {error}") from None
    if root.tag != name:
        outer = etree.Element(name)
        outer.append(root)
        root = outer
    return etree.tostring(root, encoding="utf-8")


BODY_READERS: Mapping[str, Callable[[str, bytes], bytes]] = {
    "application/json": of_json,
    "application/x-www-form-urlencoded": of_form,
    "application/xml": of_xml,
    "text/xml": of_xml,
}
"""The readers of bodies by their media type."""


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _element(name: str, given: Any) -> bytes:
    root = etree.Element(name)
    _fill(root, given, DEPTH)
    return etree.tostring(root, encoding="utf-8")


def _fill(node: etree._Element, given: Any, depth: int) -> None:
    """Put a value into an element."""
    if not depth:
        raise BodyError(f"expected at most {DEPTH} levels of JSON")
    if isinstance(given, dict):
        for key, value in given.items():
            _put(node, key, value, depth)
    elif isinstance(given, list):
        for value in given:
            _fill(etree.SubElement(node, _ITEM), value, depth - 1)
    elif given is not None:
        node.text = _text(given)


def _put(node: etree._Element, key: str, value: Any, depth: int) -> None:
    """Put a value of an object into its element."""
    is_name = _NAME.fullmatch(key) is not None
    if value is None:
        return
    if is_name and key != _EID and not isinstance(value, dict | list):
        node.set(key, _text(value))
        return
    for each in value if isinstance(value, list) else (value,):
        child = etree.SubElement(node, key if is_name else _ITEM)
        if not is_name:
            child.set(_KEY, _text(key))
        _fill(child, each, depth - 1)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _NO_XML.sub("\ufffd", value)
