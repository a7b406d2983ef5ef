"""Result sets: the elements that satisfy a condition, maintained as elements are added and removed.

Fast path, measured by `make bench ONLY=W8`: a condition that is queried repeatedly, such as that of a
definition which takes one mail after another, must not scan all mails it has used to find the next. So the
elements that satisfy it are kept, and for each scope those that it has not used: finding the oldest costs the
same however many were used before.

A result set costs a test for each new element of its name, so there are few: only for conditions without
variables that have been queried several times while many elements have the name. The least recently queried
is dropped first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable

from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element, Tree
from narval.core.index.sorted_numbers import SortedInts
from narval.core.patterns.pattern import Bound

MOST = 64
"""The most result sets kept at a time."""
ASKED = 3
"""The number of queries after which a condition gets one."""


class ResultSet:
    """The eids of elements that satisfy a condition, oldest first: all, and those unused by each scope."""

    __slots__ = ("_fresh", "all", "bound")

    def __init__(self, bound: Bound, eids: Iterable[int]) -> None:
        self.bound = bound
        self.all = SortedInts(eids)
        self._fresh: dict[MarkScope, SortedInts] = {}

    def unused(self, scope: MarkScope | None, used: Container[int]) -> SortedInts:
        """The eids that a scope has not used; `used` are those it has."""
        if scope is None:
            return self.all
        fresh = self._fresh.get(scope)
        if fresh is None:
            fresh = self._fresh[scope] = SortedInts([eid for eid in self.all if eid not in used])
        return fresh

    def add(self, eid: int) -> None:
        """Add the youngest element, which satisfies the condition."""
        for eids in (self.all, *self._fresh.values()):
            eids.add(eid)

    def discard(self, eid: int) -> None:
        """Remove an element, forgotten or replaced."""
        for eids in (self.all, *self._fresh.values()):
            eids.discard(eid)

    def use(self, scope: MarkScope, eids: Iterable[int]) -> None:
        """Record that a scope has used these elements."""
        fresh = self._fresh.get(scope)
        if fresh is not None:
            for eid in eids:
                fresh.discard(eid)

    def unuse(self, scope: MarkScope) -> None:
        """Forget what a scope has not used, to be computed again, after a mark was reverted."""
        self._fresh.pop(scope, None)


class ResultSets:
    """The result sets worth keeping."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[ResultSet, frozenset[str]]] = OrderedDict()
        self._asked: OrderedDict[Hashable, int] = OrderedDict()
        self.by_name: dict[str, list[ResultSet]] = {}
        """The result sets that elements of a root name may enter."""

    def get(self, bound: Bound) -> ResultSet | None:
        """The result set of a condition; None if there is none."""
        cached = self._kept.get(bound.identity)
        if cached is None:
            return None
        self._kept.move_to_end(bound.identity)
        return cached[0]

    def of(self, bound: Bound, names: frozenset[str], fill: Callable[[], Iterable[int]]) -> ResultSet | None:
        """A new result set for a condition on elements of these names; None until it is queried often."""
        times = self._asked.pop(bound.identity, 0) + 1
        if times < ASKED:
            self._asked[bound.identity] = times
            if len(self._asked) > 8 * MOST:
                self._asked.popitem(last=False)
            return None
        result_set = ResultSet(bound, fill())
        self._kept[bound.identity] = (result_set, names)
        for name in names:
            self.by_name.setdefault(name, []).append(result_set)
        if len(self._kept) > MOST:
            self._drop(next(iter(self._kept)))
        return result_set

    def add(self, element: Element, tree: Callable[[Element], Tree]) -> None:
        """Add a new element to those result sets of its name whose condition it satisfies."""
        for result_set in self.by_name.get(element.name, ()):
            if result_set.bound.test(tree(element)):
                result_set.add(element.eid)

    def discard(self, element: Element) -> None:
        """Remove an element, forgotten or replaced, from all result sets."""
        for result_set in self.by_name.get(element.name, ()):
            result_set.discard(element.eid)

    def use(self, scope: MarkScope, eids: Iterable[int]) -> None:
        """Record that a scope has used these elements."""
        for result_set, _ in self._kept.values():
            result_set.use(scope, eids)

    def unuse(self, scope: MarkScope) -> None:
        """Record that a mark of a scope was reverted."""
        for result_set, _ in self._kept.values():
            result_set.unuse(scope)

    def drop_named(self, name: str) -> None:
        """Drop the result sets of a name after an element other than the youngest came back."""
        for result_set in list(self.by_name.get(name, ())):
            self._drop(result_set.bound.identity)

    def _drop(self, identity: Hashable) -> None:
        result_set, names = self._kept.pop(identity)
        for name in names:
            self.by_name[name].remove(result_set)
