"""The lossless mapping between JSON and elements (docs/reference/modules/json.md).

    {"state": "failed", "n": 3, "by": {"name": "Ann"}, "steps": ["a", "b"], "odd key": true, "none": null}

    <build state="failed" n="3" json-types="n:number steps:list none:null"><by name="Ann"/><steps>a</steps>
    <steps>b</steps><item key="odd key" json-types="boolean">true</item></build>

A text, number or truth value is an attribute, an object an element, each value of a list an element with the
name of the list. `json-types` says what the XML does not: which values are not texts, what is a list, what is
null. Without it (`typed=False`, as for webhooks) elements are the same except for that attribute, and null
members are left out. Numbers stay as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from json import dumps, loads
from typing import Any

from lxml import etree

DEPTH = 64
"""The most levels of objects and lists."""

MOST_VALUES = 250_000
"""The most values of a JSON text: each takes some hundred bytes while the element is made."""

TYPES, ITEM = "json-types", "item"
_KEY, _EID, _TEXT = "key", "eid", "#text"
_NAME = re.compile(r"(?!xml)[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are invalid in XML."""
_UNESCAPED = re.compile(rf"\\|{_NO_XML.pattern}")
_ESCAPED = re.compile(r"\\(?:(\\)|u([0-9a-f]{4}))")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)


class JsonError(ValueError):
    """Invalid JSON, or an element that represents none; the message says what was expected."""


class WrittenNumber(str):
    """A number as written."""

    __slots__ = ()


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text: dicts, lists, texts, truth values and None; numbers are texts as written.
    Raises JsonError.
    """
    try:
        return loads(text, parse_int=WrittenNumber, parse_float=WrittenNumber, parse_constant=_no_number)
    except RecursionError:
        raise JsonError(f"expected at most {DEPTH} levels of JSON") from None
    except ValueError as error:  # includes errors of the encoding
        raise JsonError(f"expected JSON: {error}") from None


def element_of_json(name: str, value: Any, *, typed: bool = True) -> etree._Element:
    """The element with a name for a value from `parse_json`; unless `typed`, without the attribute
    `json-types`. Raises JsonError, and ValueError for an invalid element name.
    """
    root = etree.Element(name)
    _Filling(typed).fill(root, value, DEPTH)
    return root


def json_of_element(node: etree._Element) -> str:
    """The JSON text that an element represents, by its `json-types` if it has them. Raises JsonError."""
    own, types = _types_of(node)
    if own == "list":
        return f"[{', '.join(json_of_element(child) for child in node.iterchildren('*'))}]"
    members = _members(node, types)
    text = "".join([node.text or "", *(child.tail or "" for child in node)])
    if own not in (None, "object") or not (own or members):
        if members:
            raise JsonError(f"expected a {own} alone in <{node.tag!s}>, found more: {', '.join(members)}")
        return _scalar(str(node.tag), text, own or "string")
    if text.strip():
        members.setdefault(_TEXT, []).append(_quoted(text))
    return f"{{{', '.join(_member(key, values, types) for key, values in members.items())}}}"


class _Filling:
    """A filler of elements with the values of one text."""

    def __init__(self, typed: bool) -> None:
        self._typed = typed
        self._left = MOST_VALUES

    def fill(self, node: etree._Element, value: Any, depth: int) -> None:
        """Put a value into an element."""
        if not depth:
            raise JsonError(f"expected at most {DEPTH} levels of JSON")
        if isinstance(value, dict):
            types = [word for key, held in value.items() for word in self._put(node, key, held, depth)]
            self._mark(node, *(types if value else ["object"]))
        elif isinstance(value, list):
            for held in value:
                self._count()
                self.fill(etree.SubElement(node, ITEM), held, depth - 1)
            self._mark(node, "list")
        else:
            type = self._type(value)
            if value is not None:
                node.text = self._text(value)
            if type != "string":
                self._mark(node, type)

    def _put(self, node: etree._Element, key: str, value: Any, depth: int) -> Iterator[str]:
        """Put a member of an object into its element, and yield its types."""
        self._count()
        is_name = _NAME.fullmatch(key) is not None
        type = self._type(value)
        if is_name and type == "null":
            yield f"{key}:null"
        elif is_name and type == "list":
            for held in value:
                self._count()
                self.fill(etree.SubElement(node, key), held, depth - 1)
            yield f"{key}:list"
        elif not is_name:
            if type != "null" or self._typed:
                child = etree.SubElement(node, ITEM, {_KEY: self._text(key)})
                if self._type(key) == "escaped":
                    self._mark(child, f"{_KEY}:escaped")
                self.fill(child, value, depth - 1)
        elif type == "object" or not _is_attribute(node, key):
            self.fill(etree.SubElement(node, key), value, depth - 1)
        else:
            node.set(key, self._text(value))
            if type != "string":
                yield f"{key}:{type}"

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise JsonError(f"expected at most {MOST_VALUES:,} values of JSON")

    def _type(self, value: Any) -> str:
        for type, held in _TYPES.items():
            if isinstance(value, held):
                return type
        return "escaped" if self._typed and _NO_XML.search(value) else "string"

    def _text(self, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if self._type(value) == "escaped":
            return _UNESCAPED.sub(_escape, value)
        return _NO_XML.sub("\ufffd", value)

    def _mark(self, node: etree._Element, *types: str) -> None:
        if self._typed and types:
            node.set(TYPES, " ".join([*node.get(TYPES, "").split(), *types]))


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "list": list,
    "boolean": bool,
    "null": type(None),
    "number": WrittenNumber,
}
"""The types of values besides `string`, and `escaped`: a text with characters that are invalid in XML."""

_WORDS = (*_TYPES, "string", "escaped")


def _is_attribute(node: etree._Element, key: str) -> bool:
    """True if a member with this name is an attribute: some attribute names are reserved."""
    return key not in (_EID, TYPES) and not (key == _KEY and node.tag == ITEM)


def _types_of(node: etree._Element) -> tuple[str | None, dict[str, str]]:
    """The type of an element itself, and those of its members by name."""
    own: str | None = None
    types: dict[str, str] = {}
    for word in node.get(TYPES, "").split():
        name, colon, type = word.rpartition(":")
        if type not in _WORDS:
            raise JsonError(
                f"expected {TYPES} of <{node.tag!s}> to be of {', '.join(_WORDS)}, with the name of a member "
                f"before, such as total:number; found {word[:80]!r}"
            )
        if not colon:
            own = type
        elif not _is_key_escaped(node, word):
            types[name] = type
    return own, types


def _members(node: etree._Element, types: Mapping[str, str]) -> dict[str, list[str]]:
    """The values of an object by key, each as JSON; null and empty lists come only from the types."""
    members: dict[str, list[str]] = {}
    for name, value in node.attrib.items():
        if _is_attribute(node, name):
            _check_name(name)
            members[name] = [_scalar(name, value, types.get(name, "string"))]
    for child in node.iterchildren("*"):
        _check_name(str(child.tag))
        members.setdefault(_key_of(child), []).append(json_of_element(child))
    for name, type in types.items():
        if name not in members:
            members[name] = ["null"] if type == "null" else []
    return members


def _member(key: str, values: list[str], types: Mapping[str, str]) -> str:
    is_list = len(values) != 1 or types.get(key) == "list"
    value = f"[{', '.join(values)}]" if is_list else values[0]
    return f"{_quoted(key)}: {value}"


def _key_of(child: etree._Element) -> str:
    """The key of a member that is an element: its name, or the key that an `item` holds."""
    key = child.get(_KEY) if child.tag == ITEM else None
    if key is None:
        return str(child.tag)
    is_escaped = any(_is_key_escaped(child, word) for word in child.get(TYPES, "").split())
    return _unescaped(key) if is_escaped else key


def _is_key_escaped(node: etree._Element, word: str) -> bool:
    return node.tag == ITEM and word == f"{_KEY}:escaped"


def _scalar(name: str, text: str, type: str) -> str:
    """A value other than an object or a list, as JSON. Raises JsonError for a text of another type."""
    bare = text.strip()
    if type == "string":
        return _quoted(text)
    if type == "escaped":
        return _quoted(_unescaped(text))
    if type == "number" and _NUMBER.fullmatch(bare):
        return bare
    if type == "boolean" and bare in ("true", "false"):
        return bare
    if type == "null" and not bare:
        return "null"
    raise JsonError(f"expected {name} to be of type {type}, found {text[:80]!r}")


def _quoted(text: str) -> str:
    """A text as JSON, in characters that are valid in XML."""
    return _NO_XML.sub(_escape, dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return r"\\" if match[0] == "\\" else f"\\u{ord(match[0]):04x}"


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: match[1] or chr(int(match[2], 16)), text)


def _check_name(name: str) -> None:
    if name.startswith("{"):
        raise JsonError(f"expected names without a namespace, found {name}")


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")
