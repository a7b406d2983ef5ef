"""The attributes of a root, read from an element's bytes; and an index of the values of one of them.

What memory keeps was written by `canonical`, so nearly always an attribute stands there as ` name="value"`,
and reading it costs a quarter of parsing the element. Whatever is not written so is parsed: the reader never
takes an attribute for absent, or a value for read, unless it is sure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from narval.memory.elements.element import Element, parse
from narval.memory.index.sorted_ints import SortedInts, Span

Reader = Callable[[int, bytes], bytes | None]
"""Of an element with that eid and XML, the value of an attribute of its root, as UTF-8; None: it has none."""

_EID_BITS = 40
"""A million million elements: thirty years at a thousand a second."""
_HASHES = (1 << 64 - _EID_BITS) - 1

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PLAIN = re.compile(rb'<[^\s"\'/>?!=]+(?: [^\s"\'/>=]+="[^"]*")*/?>')
"""A start tag of which nothing is open: an attribute that is not in it as ` name="` is not there."""


@lru_cache(maxsize=256)
def reader(attribute: str) -> Reader:
    """What reads an attribute; its name is as lxml gives it."""
    if attribute == "eid":
        return lambda eid, xml: str(eid).encode() if eid else _parsed(xml, attribute)
    if attribute == "xmlns" or not _BARE.fullmatch(attribute):
        return lambda _, xml: _parsed(xml, attribute)
    # Attributes before it are passed over whole, so that nothing within a value is taken for one. A value
    # that has a reference (`&amp;`) or a break in it is not what it stands for: it is parsed.
    written = rb'<[^\s"\'/>?!=]+(?: [^\s"\'/>=]+="[^"]*")*? %s="([^"&\t\n\r]*)"' % re.escape(
        attribute.encode()
    )
    find, is_plain, opening = re.compile(written).match, _PLAIN.match, f' {attribute}="'.encode()

    def read(_: int, xml: bytes) -> bytes | None:
        found = find(xml)
        if found is not None:
            return found[1]
        plain = is_plain(xml)
        if plain is not None and opening not in plain[0]:
            return None
        return _parsed(xml, attribute)

    return read


def _parsed(xml: bytes, attribute: str) -> bytes | None:
    value = parse(xml).get(attribute)
    return None if value is None else str(value).encode()


class ValueIndex:
    """Which elements have which value of an attribute: for each its eid under the hash of the value.

    So it takes eight bytes an element, however long its values are, and may find elements of another value,
    one in sixteen million; who asks tries what it finds in any case.
    """

    __slots__ = ("_numbers", "_read")

    def __init__(self, attribute: str, elements: Iterable[tuple[int, bytes]]) -> None:
        """Of elements given by eid and XML."""
        self._read = read = reader(attribute)
        filed = ((read(eid, xml), eid) for eid, xml in elements)
        self._numbers = SortedInts(sorted([_filed(value, eid) for value, eid in filed if value is not None]))

    def of(self, value: str) -> Span:
        """The eids of elements that may have that value, oldest first."""
        low = _filed(value.encode("utf-8", "surrogatepass"), 0)
        return self._numbers.span(low, low + (1 << _EID_BITS))

    def add(self, element: Element) -> None:
        """An element comes."""
        value = self._read(element.eid, element.xml)
        if value is not None:
            self._numbers.add(_filed(value, element.eid))

    def discard(self, element: Element) -> None:
        """An element goes."""
        value = self._read(element.eid, element.xml)
        if value is not None:
            self._numbers.discard(_filed(value, element.eid))


def _filed(value: bytes, eid: int) -> int:
    # The hash of bytes is keyed anew for each process: nobody can send a million values that share one.
    return (hash(value) & _HASHES) << _EID_BITS | eid
