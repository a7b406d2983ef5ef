"""Elements without content, and the attributes of other elements, read from their bytes.

Fast path, measured by `make bench ONLY=W3`: a parser is slower. Programs write elements of few *forms*: the
text around the values is the same each time. So an element is split at its quotes, and the text around its
values is looked up among recent forms; a new form is parsed once. It accepts ASCII with plain names and
values without references; all other XML, well formed or not, is left to the parser. Of an element with
content it reads the first tag, within which canonical bytes have no `>`. It also reads the stamp of a
message: names with the prefix `al`, if it is declared as on every message.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

CONTROL = "http://www.logilab.org/namespaces/Narval/1.2"
"""The control namespace; narval reads its own words with it and without it."""

LONGEST = 4096
"""The most characters of an element that is read this way."""

_is_one_tag = re.compile(r"<[ -%'-;=?-~]*+>").fullmatch
"""Match one tag of printable ASCII without references."""
_NAME = "[A-Za-z_][A-Za-z0-9_.-]*+"
_is_form = re.compile(rf'<({_NAME})(?: (?:xmlns:al|(?:al:)?{_NAME})="")*+/>').fullmatch
_names = re.compile(r' ([^=]+)=""').findall


class Form(NamedTuple):
    """The form of elements that differ only in the values of their attributes.

    `positions` has for each attribute, named as in lxml, the position of its value among the values; `prefix`
    is the position of the value of `xmlns:al`, -1 if it is absent.
    """

    name: str
    positions: dict[str, int]
    prefix: int = -1


_latest: list[tuple[bytes, Form, list[str]]] = [(b"", Form("", {}), [])]
"""The last element read, which is usually requested next; replaced as a whole, so any thread may do it."""


def canonical_flat(source: str | bytes) -> bytes | None:
    """The canonical bytes of an element; None if it needs the parser."""
    if len(source) > LONGEST:
        return None
    text = source if isinstance(source, str) else str(source, "latin-1")
    if '"' not in text:
        text = text.replace("'", '"')
    read = _read(text)
    if read is None or "eid" in read[0].positions or read[0].prefix >= 0:
        return None
    xml = text.encode("ascii")
    _latest[0] = (xml, *read)
    return xml


def flat_values(xml: bytes) -> tuple[dict[str, int], list[str]] | None:
    """The position of each attribute's value, and the values, of an element in memory; None if it needs the
    parser.
    """
    latest, form, values = _latest[0]
    if latest is xml:
        return form.positions, values
    end = xml.find(b">", 0, LONGEST)
    return _values(xml[: end + 1]) if end >= 0 else None


@lru_cache(maxsize=256)
def _values(tag: bytes) -> tuple[dict[str, int], list[str]] | None:
    text = str(tag, "latin-1")
    read = _read(text if text[-2] == "/" else f"{text[:-1]}/>")
    return None if read is None else (read[0].positions, read[1])


def flat_attributes(xml: bytes) -> dict[str, str] | None:
    """The attributes of an element in memory, by name; None if it needs the parser."""
    read = flat_values(xml)
    if read is None:
        return None
    positions, values = read
    return {name: values[position] for name, position in positions.items()}


def flat_name(xml: bytes) -> str | None:
    """The root name of the last element read; None if this is another."""
    latest, form, _ = _latest[0]
    return form.name if latest is xml else None


def _read(text: str) -> tuple[Form, list[str]] | None:
    """The form of an element in double quotes, and its values; None if it needs the parser."""
    if _is_one_tag(text) is None:
        return None
    parts = text.split('"')
    form = _form(tuple(parts[::2]))
    if form is None or (form.prefix >= 0 and parts[2 * form.prefix + 1] != CONTROL):
        return None
    return form, parts[1::2]


@lru_cache(maxsize=512)
def _form(around: tuple[str, ...]) -> Form | None:
    """The form of the text around values; None if it is not an element, or has other namespaces."""
    text = '""'.join(around)
    form = _is_form(text)
    if form is None:
        return None
    attributes = _names(text)
    prefix = attributes.index("xmlns:al") if "xmlns:al" in attributes else -1
    positions = {
        f"{{{CONTROL}}}{name[3:]}" if name.startswith("al:") else name: position
        for position, name in enumerate(attributes)
        if position != prefix
    }
    has_stranger = "xmlns" in positions or "xmlns:al" in positions  # declared twice
    if has_stranger or len(positions) + (prefix >= 0) < len(attributes):
        return None
    return Form(form[1], positions, prefix) if prefix >= 0 or ":" not in text else None
