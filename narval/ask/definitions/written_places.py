"""Places written in texts of definitions: addresses and hosts, and values that make addresses in a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from narval.core.definitions.reading.values import values_in
from narval.core.errors import DefinitionError
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode, read_xml

UNNAMED = "which neither the wish nor the settings name"

_XSL = "{http://www.w3.org/1999/XSL/Transform}"
_RECEIVERS = ("to", "cc")
"""The attributes of elements that say whom a message goes to."""

_ADDRESS = re.compile(r"[\w.+-]{1,64}@(?:(?:[\w-]+\.)*[\w-]+|(?=['\"]))")
_PLACE = re.compile(r"\w://(?:[^/?#@\s]*@)?(\[[^\]/]*\]|[^/?#:\s'\"{}]+)")
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")

_GLUED = re.compile(r"[^\s,;{}]\{(?!\{)|\}[^\s,;{}]|\}\{|@\s*\{|\}\s*@")
_PIECE = re.compile(rf"{_LITERAL.pattern}|[\[\]]|[^'\"\[\]]+|.")
_JOIN = "string-join"
_GIVING = re.compile(rf"(?<![\w-])(?:if|{_JOIN}|normalize-space|string|text|node)\s*\(")
"""The functions that give values as they are, and the tests of nodes."""

_CALL = re.compile(r"\w\s*\(")
_WORD = re.compile(r"[\w@]")
_APART = re.compile(r"[\s,;]+")
"""Separators of receivers; anything else, or nothing, joins pieces to one."""


def written_in(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The addresses and hosts in texts, and the values that make addresses in a run, each with a sentence."""
    for value in _receivers(texts):
        if _is_made(value):
            yield value, f"It makes addresses while it runs: {value:.80}"
    for value in _values(texts):
        for address in _ADDRESS.findall(value):
            yield address, f"It has the address {address}, {UNNAMED}."
        literals = (literal for literal in _LITERAL.findall(value) if "@" in literal)
        if not _ADDRESS.search(value) and (part := next(literals, None)):
            yield part, f"It makes addresses while it runs: {value:.80}"
        for host in _PLACE.findall(value):
            yield host, f"It has an address at {host}, {UNNAMED}."


def _is_made(value: str) -> bool:
    """True if a receiver is put together in a run: of pieces, or by a function that alters its values."""
    return _GLUED.search(value) is not None or any(map(_is_put_together, values_in(value)))


def _is_put_together(expression: str) -> bool:
    outside = _outside_predicates(expression)
    literals = [literal[1:-1] for literal in _LITERAL.findall(outside)]
    if _JOIN in outside and not (literals and all(map(_APART.fullmatch, literals))):
        return True
    return _CALL.search(_GIVING.sub("", outside)) is not None or any(map(_WORD.search, literals))


def _outside_predicates(value: str) -> str:
    depth, outside = 0, list[str]()
    for piece in _PIECE.findall(value):
        depth += (piece == "[") - (piece == "]")
        if depth <= 0 and piece != "]":
            outside.append(piece)
    return "".join(outside)


def _values(texts: Mapping[str, str]) -> Iterator[str]:
    """All attributes and texts of XML after parsing, and other texts unchanged."""
    for text in texts.values():
        if (root := _read(text)) is None:
            yield text
            continue
        for node in root.walk():
            yield from node.attributes.values()
            yield node.text


def _receivers(texts: Mapping[str, str]) -> Iterator[str]:
    """The values in XML that say whom a message goes to, also those that a stylesheet puts together."""
    roots = filter(None, map(_read, texts.values()))
    for node in (node for root in roots for node in root.walk()):
        yield from (node.attributes.get(name, "") for name in _RECEIVERS)
        name = node.attributes.get("name", "") if node.tag == f"{_XSL}attribute" else ""
        if name in _RECEIVERS or "{" in name:
            yield "{…}".join(filter(None, map(_piece, node.walk())))


def _piece(node: XmlNode) -> str:
    """The piece of an attribute that a node of a stylesheet adds: its text, an expression, or a call."""
    select = "call()" if node.tag == f"{_XSL}call-template" else node.attributes.get("select")
    return node.text.strip() if select is None else f"{{{select}}}"


def _read(text: str) -> XmlNode | None:
    try:
        return read_xml(Source.of_text("", text))
    except DefinitionError:
        return None
