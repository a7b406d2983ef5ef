"""The element of a signal: `<signal name="approve" run="12">`, with its contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lxml import etree

from narval.core.elements.canonical import canonical
from narval.core.elements.element import SIGNAL, parse


def signal_element(run: int, name: str, attributes: Mapping[str, object], elements: Iterable[bytes]) -> bytes:
    """A signal to a run, as an element. Raises ElementError if it is too large or too deep."""
    root = etree.Element(SIGNAL, name=name, run=str(run))
    for key, value in attributes.items():
        if value is not None and key not in root.attrib:
            root.set(key, str(value))
    root.extend(map(parse, elements))
    return canonical(root)
