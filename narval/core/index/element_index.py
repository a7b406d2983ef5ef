"""ElementIndex: the eids that may satisfy a condition, by root name and by attribute value.

Fast path, measured by `make bench ONLY=W8`: names are indexed as elements arrive, the values of an attribute
when a pattern first needs them. `canonical` wrote the bytes, so an attribute nearly always appears as `
name="value"`, and reading it costs a quarter of parsing the element. An element is parsed if the reader is
not sure that an attribute is absent, or what its value is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import lru_cache
from itertools import islice
from types import MappingProxyType

from narval.core.elements.element import CONTROL, SIGNAL, Element, parse
from narval.core.index.result_sets import ResultSet, ResultSets
from narval.core.index.sorted_numbers import SortedInts, Span, ascending, descending, snapshot
from narval.core.memory.packed import ElementTable
from narval.core.patterns.pattern import Bound

Reader = Callable[[int, bytes], bytes | None]
"""Read the value of an attribute of a root, as UTF-8, given eid and XML; None if it is absent."""

_EID_BITS = 40
"""Enough for a million million elements: thirty years at a thousand a second."""
_HASHES = (1 << 64 - _EID_BITS) - 1

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PLAIN = re.compile(rb'<[^\s"\'/>?!=]+(?: [^\s"\'/>=]+="[^"]*")*/?>')
"""A plainly written start tag: an attribute that does not appear in it as ` name="` is absent."""
_DECLARED = f' xmlns:al="{CONTROL}"'.encode()
"""The declaration of the prefix of stamps. No value can contain it: it has quotes."""


@lru_cache(maxsize=256)
def reader(attribute: str) -> Reader:
    """The reader for an attribute, named as in lxml."""
    if attribute == "eid":
        return lambda eid, xml: str(eid).encode() if eid else _parsed(xml, attribute)
    local = attribute.removeprefix(f"{{{CONTROL}}}")
    is_stamp = local != attribute
    if attribute == "xmlns" or not _BARE.fullmatch(local):
        return lambda _, xml: _parsed(xml, attribute)
    name = f"al:{local}" if is_stamp else attribute
    # Earlier attributes are skipped as a whole, so that text within a value is not read as one. A value with
    # a reference (`&amp;`) or a line break differs from its text: it is parsed.
    written = rb'<[^\s"\'/>?!=]+(?: [^\s"\'/>=]+="[^"]*")*? %s="([^"&\t\n\r]*)"' % re.escape(name.encode())
    find, is_plain = re.compile(written).match, _PLAIN.match
    opening = b"xmlns" if is_stamp else f' {attribute}="'.encode()

    def read(_: int, xml: bytes) -> bytes | None:
        values = find(xml)
        if values is not None and (not is_stamp or _DECLARED in values[0]):
            return values[1]
        plain = is_plain(xml)
        if plain is not None and opening not in plain[0]:
            return None
        return _parsed(xml, attribute)

    return read


def _parsed(xml: bytes, attribute: str) -> bytes | None:
    value = parse(xml).get(attribute)
    return None if value is None else str(value).encode()


class ValueIndex:
    """The eids of elements under the hashes of their values of an attribute.

    It takes eight bytes an element, however long the values are, and returns an element with another value
    once in sixteen million: callers test the results anyway.
    """

    __slots__ = ("_numbers", "_read")

    def __init__(self, attribute: str, elements: Iterable[tuple[int, bytes]]) -> None:
        """Index elements, given by eid and XML."""
        self._read = read = reader(attribute)
        filed = ((read(eid, xml), eid) for eid, xml in elements)
        self._numbers = SortedInts(sorted([_filed(value, eid) for value, eid in filed if value is not None]))

    def add_documents(self, elements: Iterable[tuple[int, bytes]]) -> None:
        """Add elements, by eid and XML."""
        for eid, xml in elements:
            value = self._read(eid, xml)
            if value is not None:
                self._numbers.add(_filed(value, eid))

    def of(self, value: str) -> Span:
        """The eids of elements that may have a value, oldest first."""
        low = _filed(value.encode("utf-8", "surrogatepass"), 0)
        return Span(self._numbers, low, low + (1 << _EID_BITS))

    def add(self, element: Element) -> None:
        """Add an element."""
        value = self._read(element.eid, element.xml)
        if value is not None:
            self._numbers.add(_filed(value, element.eid))

    def discard(self, element: Element) -> None:
        """Remove an element."""
        value = self._read(element.eid, element.xml)
        if value is not None:
            self._numbers.discard(_filed(value, element.eid))


def _filed(value: bytes, eid: int) -> int:
    # The hash of bytes has a new key in each process, so that a stranger cannot send colliding values.
    return (hash(value) & _HASHES) << _EID_BITS | eid


WORTH_INDEXING = 32
"""With fewer elements of a name than this, testing each is cheaper than an index of an attribute."""

TRIED_OFTEN = 8 * WORTH_INDEXING
"""Tests of a few elements after which an index has paid off: a thousand runs may look for one of ten."""

TRIED_FIRST = 1024
"""The newest elements that are tested before an index of an attribute is built to find a few of all."""

PIECE = 256
"""The elements added to an index at a time, if it is built incrementally."""

_NONE = SortedInts()
_NO_INDEXES: Mapping[str, ValueIndex] = MappingProxyType({})


class ElementIndex:
    """The eids of elements and runs by root name, by attribute value, and by condition (`result_sets`)."""

    def __init__(self, elements: ElementTable) -> None:
        self.result_sets = ResultSets()
        self._elements = elements
        self._by_name: defaultdict[str, SortedInts] = defaultdict(SortedInts)
        self._by_value: dict[str, dict[str, ValueIndex]] = {}
        """The indexes by root name and attribute, for the attributes that patterns have needed."""
        self._coming: dict[tuple[str, str], tuple[ValueIndex, int]] = {}
        """The indexes being built, each with the last eid added to it."""
        self._tried: dict[str, int] = {}
        """The number of elements of a name that were tested because they were few."""
        self._run_names: set[str] = set()
        """Names of runs: runs change, so attributes of elements with these names are not indexed."""
        self._addressed: set[int] = set()
        """Signals sent to one run, which only its context finds."""

    # --- changing -------------------------------------------------------------------------------------

    def add(self, element: Element) -> None:
        """Add the youngest element."""
        name = element.name
        self._by_name[name].add(element.eid)
        if name in self._by_value:
            for index in self._by_value[name].values():
                index.add(element)
        if name in self.result_sets.by_name:
            self.result_sets.add(element, self._elements.tree)
        if name == SIGNAL and element.addressed:
            self._addressed.add(element.eid)

    def discard(self, element: Element) -> None:
        """Remove an element that has left memory."""
        for index in self._by_value.get(element.name, _NO_INDEXES).values():
            index.discard(element)
        if self._coming:
            for (name, _), (coming, last) in self._coming.items():
                if name == element.name and element.eid <= last:
                    coming.discard(element)
        self._by_name[element.name].discard(element.eid)
        self.result_sets.discard(element)
        self._addressed.discard(element.eid)

    def add_run(self, eid: int, name: str) -> None:
        """Add a run; from then on, attributes of elements with its name are not indexed."""
        if name not in self._run_names:
            self._run_names.add(name)
            self.result_sets.drop_named(name)
        self._by_name[name].add(eid)

    def discard_run(self, eid: int, name: str) -> None:
        """Remove a run; ignore an unknown one."""
        self._by_name.get(name, _NONE).discard(eid)

    # --- reading --------------------------------------------------------------------------------------

    def named(self, names: Iterable[str]) -> Iterable[int]:
        """The eids of elements with one of these root names, oldest first."""
        return ascending(self.sets_named(names))

    def candidates(self, bound: Bound) -> Iterable[int] | None:
        """The eids that may satisfy a condition, oldest first; None if any may."""
        buckets = self._buckets(bound, make=True)
        return None if buckets is None else ascending(buckets)

    def oldest(self, bound: Bound | None) -> Iterable[int] | None:
        """The eids that may satisfy a condition now, oldest first; None if any may. Memory may change during
        iteration.
        """
        buckets = self._buckets(bound, make=True)
        return None if buckets is None else snapshot(buckets)

    def make(self, bound: Bound | None) -> Iterator[None]:
        """Build the indexes that a condition needs, piece by piece; memory may change between steps."""
        keys = (bound.keys if bound is not None else None) or ()
        if any(key.tag is None for key in keys):
            return
        for key in keys:
            for attribute, _ in key.eq if key.tag not in self._run_names else ():
                while self._make_piece(key.tag or "", attribute):
                    yield

    def newest(self, bound: Bound | None, below: int | None = None, *, make: bool = True) -> Iterator[int]:
        """The eids that may satisfy a condition (None: all), newest first; with `below` only those below it.

        They are found lazily; memory may change during iteration. With `make` false no index is built,
        however many are requested (M21).
        """
        tried = 0
        for eid in self._descending(self._buckets(bound, make=False), below):
            if make and tried == TRIED_FIRST:
                yield from self._descending(self._buckets(bound, make=True), below)
                return
            yield eid
            tried, below = tried + 1, eid

    def counts(self) -> Iterator[tuple[str, int]]:
        """The existing root names, each with the number of its elements and runs (M22)."""
        return ((name, count) for name, eids in self._by_name.items() if (count := len(eids)))

    def newest_named(self, names: Iterable[str]) -> Iterator[int]:
        """The eids of elements and runs with one of these names, newest first."""
        return self._descending(self.sets_named(names), None)

    def sets_named(self, names: Iterable[str]) -> list[SortedInts | Span]:
        """The non-empty sets of eids of elements and runs with these names."""
        return [bucket for name in names if (bucket := self._by_name.get(name))]

    def unaddressed(self, eids: Iterable[int]) -> Iterable[int]:
        """The `eids` that are not signals to one run."""
        return (eid for eid in eids if eid not in self._addressed) if self._addressed else eids

    def new_result_set(
        self, bound: Bound, candidates: Iterable[int], current: Callable[[Bound], Iterable[int]]
    ) -> ResultSet | None:
        """A new result set of a condition, filled by `current`; None if it is not worth keeping."""
        names = None if bound.variables else bound.names
        is_small = isinstance(candidates, Sized) and len(candidates) < WORTH_INDEXING
        if names is None or is_small or not self._run_names.isdisjoint(names):
            return None
        return self.result_sets.of(bound, names, lambda: current(bound))

    # --- inside ---------------------------------------------------------------------------------------

    def _descending(self, buckets: list[SortedInts | Span] | None, below: int | None) -> Iterator[int]:
        """The eids of some buckets (None: all) below a limit, greatest first."""
        return descending([*self._by_name.values()] if buckets is None else buckets, below)

    def _buckets(self, bound: Bound | None, *, make: bool) -> list[SortedInts | Span] | None:
        """Sets that contain everything that may satisfy a condition; None if any element may.

        Indexes of attributes are used; missing ones are built if `make` is true.
        """
        if bound is None:
            return None
        keys = bound.keys
        if keys is None:
            return None if bound.names is None else self.sets_named(bound.names)
        buckets = []
        for key in keys:
            if key.tag is None:
                return None
            buckets.append(self._bucket(key.tag, key.eq, make))
        return buckets

    def _bucket(self, name: str, equalities: Iterable[tuple[str, str]], make: bool) -> SortedInts | Span:
        """The smallest indexed set that contains every element of that name with these attribute values."""
        best: SortedInts | Span = self._by_name.get(name, _NONE)
        least = len(best)
        if least <= 1 or name in self._run_names:
            return best
        if least < WORTH_INDEXING:
            tried = self._tried[name] = self._tried.get(name, 0) + least
            if tried < TRIED_OFTEN:
                return best
        for attribute, value in equalities:
            if not make and attribute not in self._by_value.get(name, _NO_INDEXES):
                continue
            bucket = self._values(name, attribute).of(value)
            if (size := len(bucket)) < least:
                best, least = bucket, size
        return best

    def _make_piece(self, name: str, attribute: str) -> bool:
        """Add the next elements to an index; False once it is complete, or would have few elements."""
        eids = self._by_name.get(name, _NONE)
        if attribute in self._by_value.get(name, _NO_INDEXES) or len(eids) <= PIECE:
            return False
        index, last = self._coming.get((name, attribute)) or (ValueIndex(attribute, ()), 0)
        piece = list(islice(eids.above(last), PIECE))
        index.add_documents(self._elements.documents(piece))
        if len(piece) == PIECE:
            self._coming[name, attribute] = index, piece[-1]
            return True
        self._coming.pop((name, attribute), None)
        self._by_value.setdefault(name, {})[attribute] = index
        return False

    def _values(self, name: str, attribute: str) -> ValueIndex:
        indexes = self._by_value.setdefault(name, {})
        index = indexes.get(attribute)
        if index is None:
            self._coming.pop((name, attribute), None)
            documents = self._elements.documents(self._by_name.get(name, ()))
            index = indexes[attribute] = ValueIndex(attribute, documents)
        return index
