"""Extents: what satisfies a condition, kept as elements come and go.

A condition that is asked for again and again (that of a recipe which takes one mail after another) must not
look through all mails it has taken to find the next. So the elements that satisfy it are kept, and for each
scope those it has not used: finding the oldest costs the same however many went before.

An extent costs a test for each new element of its name, so there are few: only conditions without variables
that have been asked for several times while many elements bear the name; the one asked for longest ago makes
room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable

from narval.memory.elements.changes import MarkScope
from narval.memory.elements.element import Element, Tree
from narval.memory.index.sorted_ints import SortedInts
from narval.memory.patterns.pattern import Bound

MOST = 64
"""Extents kept at once."""
ASKED = 3
"""So often a condition is asked for before it gets one."""


class ResultSet:
    """The elements that satisfy one condition, oldest first: all of them, and those a scope has not used."""

    __slots__ = ("_fresh", "all", "bound")

    def __init__(self, bound: Bound, eids: Iterable[int]) -> None:
        self.bound = bound
        self.all = SortedInts(eids)
        self._fresh: dict[MarkScope, SortedInts] = {}

    def unused(self, scope: MarkScope | None, used: Container[int]) -> SortedInts:
        """Those a scope has not used; `used` are all that it has."""
        if scope is None:
            return self.all
        fresh = self._fresh.get(scope)
        if fresh is None:
            fresh = self._fresh[scope] = SortedInts([eid for eid in self.all if eid not in used])
        return fresh

    def add(self, eid: int) -> None:
        """The youngest element of all satisfies the condition."""
        for eids in (self.all, *self._fresh.values()):
            eids.add(eid)

    def discard(self, eid: int) -> None:
        """An element is gone, or replaced."""
        for eids in (self.all, *self._fresh.values()):
            eids.discard(eid)

    def use(self, scope: MarkScope, eids: Iterable[int]) -> None:
        """A scope has used these."""
        fresh = self._fresh.get(scope)
        if fresh is not None:
            for eid in eids:
                fresh.discard(eid)

    def unuse(self, scope: MarkScope) -> None:
        """A mark was taken back: what the scope has not used is found anew."""
        self._fresh.pop(scope, None)


class ResultSets:
    """The extents that are worth keeping."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[ResultSet, frozenset[str]]] = OrderedDict()
        self._asked: OrderedDict[Hashable, int] = OrderedDict()
        self._by_name: dict[str, list[ResultSet]] = {}

    def get(self, bound: Bound) -> ResultSet | None:
        """The extent of a condition, where there is one."""
        kept = self._kept.get(bound.identity)
        if kept is None:
            return None
        self._kept.move_to_end(bound.identity)
        return kept[0]

    def of(self, bound: Bound, names: frozenset[str], fill: Callable[[], Iterable[int]]) -> ResultSet | None:
        """A new extent of a condition on elements of these names; None when it is not asked for often."""
        if not self._is_wanted(bound):
            return None
        result_set = ResultSet(bound, fill())
        self._kept[bound.identity] = (result_set, names)
        for name in names:
            self._by_name.setdefault(name, []).append(result_set)
        if len(self._kept) > MOST:
            self._drop(next(iter(self._kept)))
        return result_set

    def add(self, element: Element, tree: Callable[[Element], Tree]) -> None:
        """A new element."""
        if not self._by_name:
            return
        for result_set in self._by_name.get(element.name, ()):
            if result_set.bound.test(tree(element)):
                result_set.add(element.eid)

    def discard(self, element: Element) -> None:
        """An element that is gone, or replaced."""
        for result_set in self._by_name.get(element.name, ()):
            result_set.discard(element.eid)

    def use(self, scope: MarkScope, eids: Iterable[int]) -> None:
        """A scope has used these."""
        for result_set, _ in self._kept.values():
            result_set.use(scope, eids)

    def unuse(self, scope: MarkScope) -> None:
        """A mark was taken back."""
        for result_set, _ in self._kept.values():
            result_set.unuse(scope)

    def drop_named(self, name: str) -> None:
        """An element of that name came back, not as the youngest: its extents are found anew."""
        for result_set in list(self._by_name.get(name, ())):
            self._drop(result_set.bound.identity)

    def _is_wanted(self, bound: Bound) -> bool:
        times = self._asked.pop(bound.identity, 0) + 1
        if times >= ASKED:
            return True
        self._asked[bound.identity] = times
        if len(self._asked) > 8 * MOST:
            self._asked.popitem(last=False)
        return False

    def _drop(self, identity: Hashable) -> None:
        result_set, names = self._kept.pop(identity)
        for name in names:
            self._by_name[name].remove(result_set)
