"""An item as a document: its text read back, for pages.

It is made only from the text, because the text is what is approved. Narval's words begin a line, and text
from elsewhere follows `| `, so the two cannot be confused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lxml import etree

from narval.core.elements.canonical import parse_untrusted
from narval.core.elements.titles import title_of
from narval.core.errors import ElementError

LEADING = ("subject", "title", "from-name", "from", "to", "cc", "bcc", "date", "at")
"""The attributes that a person reads first, in this order."""

_ELEMENT = re.compile(r"(?P<what>.+): element (?P<eid>\d+):")
_IN_THE_FORM = ("Outcome: ", "Field ", "Options of ", "Default of ")
_SAID = ("Description:", "It says:")


class Line(NamedTuple):
    """A statement of the item, with the word that begins it; "" for a sentence."""

    word: str
    value: str


class ShownElement(NamedTuple):
    """An element of an item as a person reads it; all of its content is there."""

    what: str
    """The words for its purpose, such as "It takes mail"."""
    eid: int
    name: str
    title: str
    attributes: list[Line]
    """All attributes, those of LEADING first."""
    texts: list[Line]
    """Its own text, and that of children with only text, each with its name."""
    xml: str
    """Its other children, as XML; "" if there are none."""


class Document(NamedTuple):
    """The parts of an item that a page shows."""

    said: list[str]
    """The description, and what actions say of their calls."""
    lines: list[Line]
    elements: list[ShownElement]


def document_of(text: str) -> Document:
    """Read the text of an item, without its title, outcomes and fields, which a page shows itself."""
    document = Document([], [], [])
    groups = _groups(text)
    next(groups, None)
    for words, shown in groups:
        if words.startswith(_IN_THE_FORM):
            continue
        if words in _SAID:
            document.said.append("\n".join(shown))
        elif (match := _ELEMENT.fullmatch(words)) and (element := _element(match, "\n".join(shown))):
            document.elements.append(element)
        elif shown:
            document.lines.append(Line(words.rstrip(":"), "\n".join(shown)))
        else:
            word, colon, value = words.partition(": ")
            document.lines.append(Line(word, value) if colon else Line("", words))
    return document


def _groups(text: str) -> Iterator[tuple[str, list[str]]]:
    """Narval's own lines, each with the following lines from elsewhere."""
    words, shown = "", list[str]()
    for line in text.split("\n"):
        if line.startswith("|"):
            shown.append(line[2:])
        elif line:
            if words:
                yield words, shown
            words, shown = line, []
    if words:
        yield words, shown


def _element(match: re.Match[str], xml: str) -> ShownElement | None:
    """The element that is shown as `xml`; None if it cannot be parsed, and is shown unchanged."""
    try:
        tree = parse_untrusted(xml.encode())
    except ElementError:
        return None
    attributes = {str(name): str(value) for name, value in tree.attrib.items()}
    order = [*(name for name in LEADING if name in attributes), *attributes]
    texts = [Line("", tree.text.strip())] if tree.text and tree.text.strip() else []
    others = []
    for child in tree:
        tail = (child.tail or "").strip()
        if not isinstance(child.tag, str) or len(child) or child.attrib or tail:
            others.append(etree.tostring(child, encoding="unicode").strip())
        else:
            texts.append(Line(child.tag, (child.text or "").strip()))
    return ShownElement(
        match["what"],
        int(match["eid"]),
        str(tree.tag),
        title_of(attributes),
        [Line(name, attributes[name]) for name in dict.fromkeys(order)],
        texts,
        "\n".join(others),
    )
