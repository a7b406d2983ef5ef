"""The element of a signal: `<signal name="approve" run="12">`, with all that came with it."""

from __future__ import annotations

from lxml import etree

from narval.engines.events import Signalled
from narval.memory.elements.canonical import canonical
from narval.memory.elements.element import SIGNAL, parse


def element(run: int, event: Signalled) -> bytes:
    """A signal as an element. Raises ElementError for one too large or too deep."""
    root = etree.Element(SIGNAL, name=event.name, run=str(run))
    for key, value in event.arguments.items():
        if value is not None and key not in root.attrib:
            root.set(key, str(value))
    root.extend(parse(raw.xml) for raw in event.elements)
    return canonical(root)
