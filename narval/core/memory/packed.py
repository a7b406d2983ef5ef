"""ElementTable: the elements of a memory by eid, the youngest as objects, older ones packed into bytes; and
Descent: what was made from each of them, according to the origins of elements.

Fast path, measured by `make bench ONLY=W8`: an element with its origin, moment and eid is half a dozen
objects, 300 bytes besides its XML; packed it is one object of 50 bytes, which the garbage collector ignores.
Young elements are read again and again, so they stay objects; an old one is unpacked in a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any

import msgspec
from msgspec.structs import astuple

from narval.core.elements.element import Element, Origin, Tree


class TreeCache:
    """The most recently used trees, so that an element tested by many patterns is parsed once.

    At most `most` trees and `most_bytes` of XML are cached, in two halves. A requested tree goes into the
    newer half; when that is full it becomes the older, and the older is dropped. So caching a tree costs no
    more than inserting it.
    """

    def __init__(self, most: int = 1024, most_bytes: int = 8 * 1024 * 1024) -> None:
        self._most, self._most_bytes = max(1, most // 2), most_bytes // 2
        self._newer: dict[int, Tree] = {}
        self._older: dict[int, Tree] = {}
        self._bytes = 0
        """The bytes of XML in the newer half."""

    def of(self, element: Element) -> Tree:
        """The element's tree; an element without an eid is parsed each time."""
        eid = element.eid
        tree = self._newer.get(eid)
        if tree is not None:
            return tree
        tree = self._older.pop(eid, None) or Tree(element)
        if eid and tree.size * 4 <= self._most_bytes:
            if len(self._newer) >= self._most or self._bytes + tree.size > self._most_bytes:
                self._newer, self._older, self._bytes = {}, self._newer, 0
            self._newer[eid] = tree
            self._bytes += tree.size
        return tree

    def drop(self, eid: int) -> None:
        """Drop the tree of an element that has left memory."""
        self._newer.pop(eid, None)
        self._older.pop(eid, None)


YOUNG = 4096
"""The number of youngest elements that stay objects."""

TOGETHER = 512
"""The number packed at once: packing in batches takes half the time."""

LARGE = 2048
"""The most bytes of an element that is packed: a larger one would be copied at each read, for little gain."""

_Fields = tuple[int | str | tuple[int | str, ...], ...]
_HEAD = Struct("<dHH")
"""Moment, number of the root name, length of the origin; the origin and the XML follow."""
_LONGEST = (1 << 16) - 1
_USUAL = Origin.__struct_fields__.index("way")
"""The packed fields of an origin; the rest are packed only if one of them is set, as in a message."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Fields).decode


class ElementTable:
    """Elements by eid, in the order in which they were added, and their trees."""

    __slots__ = ("_kept", "_names", "_numbers", "_trees", "_young", "bytes", "doubtful")

    def __init__(self) -> None:
        self.bytes = 0
        """The bytes of all their XML."""
        self._kept: dict[int, Element | bytes] = {}
        self._young: list[int] = []
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        """The position of each root name in `_names`."""
        self._trees = TreeCache()
        self.doubtful: set[int] = set()
        """The elements that patterns see as doubtful."""

    def add(self, element: Element) -> None:
        """Add the youngest element."""
        self._kept[element.eid] = element
        self.bytes += len(element.xml)
        self._young.append(element.eid)
        if len(self._young) >= YOUNG + TOGETHER:
            self._age()

    def add_old(self, element: Element) -> None:
        """Add an element from a store, packed at once, since it may not be looked at for long."""
        self._kept[element.eid] = self._packed(element)
        self.bytes += len(element.xml)

    def pop(self, eid: int) -> Element | None:
        """Remove an element and return it; None if there is none with that eid."""
        element = self.get(eid)
        if element is not None:
            del self._kept[eid]
            self.bytes -= len(element.xml)
            self._trees.drop(eid)
        return element

    def get(self, eid: int) -> Element | None:
        """The element of an eid; None if there is none."""
        cached = self._kept.get(eid)
        return self._unpacked(eid, cached) if isinstance(cached, bytes) else cached

    def tree(self, element: Element) -> Tree:
        """The tree of an element; from a bounded cache if the element is in the table."""
        eid = element.eid
        if eid in self.doubtful:
            return Tree(element, doubtful=True)
        return self._trees.of(element) if eid in self._kept else Tree(element)

    def name(self, eid: int) -> str | None:
        """The root name of an element, without unpacking it; None if there is none with that eid."""
        cached = self._kept.get(eid)
        if isinstance(cached, bytes):
            _, number, _ = _HEAD.unpack_from(cached)
            name: str = self._names[number]
            return name
        return cached.name if cached is not None else None

    def documents(self, eids: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Eid and XML of the elements that exist, without unpacking anything else."""
        for eid in eids:
            cached = self._kept.get(eid)
            if isinstance(cached, bytes):
                yield eid, cached[_HEAD.size + _HEAD.unpack_from(cached)[2] :]
            elif cached is not None:
                yield eid, cached.xml

    def __contains__(self, eid: object) -> bool:
        return eid in self._kept

    def __iter__(self) -> Iterator[int]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def _age(self) -> None:
        cached, packed, young = self._kept, self._packed, self._young
        oldest = young[:TOGETHER]
        del young[:TOGETHER]
        for eid in oldest:
            element = cached.get(eid)
            if isinstance(element, Element):
                cached[eid] = packed(element)

    def _packed(self, element: Element) -> Element | bytes:
        made, xml, name = element.origin, element.xml, element.name
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        origin = b""
        if made is not None:
            fields = astuple(made)
            whole = made.way or made.sent_as or made.made_there or made.replaces or made.came_from
            origin = _encode(fields if whole else fields[:_USUAL])
        if len(xml) > LARGE or len(origin) > _LONGEST or number > _LONGEST:
            return element
        return _HEAD.pack(element.added, number, len(origin)) + origin + xml

    def _unpacked(self, eid: int, packed: bytes) -> Element:
        added, number, length = _HEAD.unpack_from(packed)
        xml = _HEAD.size + length
        fields: Any = _decode(packed[_HEAD.size : xml]) if length else None
        origin = Origin(*fields) if fields is not None else None
        return Element(eid, packed[xml:], added, origin, self._names[number])


# --- descent ----------------------------------------------------------------------------------------------

Sent = tuple[str, int]
"""An element of another agent: the name of the agent, and the eid there."""


class Descent:
    """The elements made from each element, and those that came from each element of another agent.

    It is empty until the first question about an element: then all origins are read once, and later additions
    and removals are recorded. It is complete when `reading` has ended. Callers continue the reading, at once
    or step by step.
    """

    def __init__(self, elements: ElementTable) -> None:
        self._elements = elements
        self._made: dict[int | Sent, list[int]] = {}
        self._gone: dict[int | Sent, int] = {}
        """The number of entries of each list that have gone since it was last cleaned."""
        self._reading: Iterator[None] | None = None
        self.is_used = False
        """True after the first question: new elements are recorded from then on."""

    @property
    def reading(self) -> Iterator[None]:
        """The remaining work before it is complete, one element at a time."""
        if self._reading is None:
            self._reading, self.is_used = self._read(list(self._elements)), True
        return self._reading

    def add(self, element: Element) -> None:
        """Record what an element was made from."""
        for source in _sources(element):
            made = self._made.setdefault(source, [])
            made.append(element.eid)

    def discard(self, element: Element) -> None:
        """Remove an element that is gone, both as a source and as a product."""
        self._made.pop(element.eid, None)
        self._gone.pop(element.eid, None)
        for source in _sources(element):
            made = self._made.get(source)
            if made is None:
                continue
            gone = self._gone[source] = self._gone.get(source, 0) + 1
            if 2 * gone >= len(made):  # rare, so it costs little
                self._look_through(source, made)

    def _look_through(self, source: int | Sent, made: list[int]) -> None:
        """Remove from a list the elements that are gone, and the list if it is empty."""
        made[:] = [eid for eid in made if eid in self._elements]
        self._gone.pop(source, None)
        if not made:
            del self._made[source]

    def of(self, eid: int) -> list[int]:
        """The eids of the elements made from one, oldest first."""
        return self._there(eid)

    def received(self, agent: str, eid: int) -> list[int]:
        """The eids of the elements sent as another agent's element, or made from it there."""
        return self._there((agent, eid))

    def _there(self, source: int | Sent) -> list[int]:
        made = self._made.get(source)
        if made is None:
            return []
        if len(made) == 1:  # the usual case
            return made[:] if made[0] in self._elements else []
        return sorted({eid for eid in made if eid in self._elements})

    def _read(self, eids: list[int]) -> Iterator[None]:
        for eid in eids:
            if (element := self._elements.get(eid)) is not None:
                self.add(element)
            yield


def _sources(element: Element) -> Iterable[int | Sent]:
    origin = element.origin
    if origin is None:
        return ()
    if not origin.agent:
        return dict.fromkeys(origin.inputs)
    there = (*origin.sent_as, *origin.made_there)
    return dict.fromkeys((*origin.inputs, *((origin.agent, eid) for eid in there)))
