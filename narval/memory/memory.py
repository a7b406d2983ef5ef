"""Memory applies changes; everything else about it only reads.

Elements stay as bytes. Names are indexed as elements arrive; the values of an attribute are indexed when a
pattern first asks for them. A run is an element too, rendered from its state when somebody looks (N2).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from types import MappingProxyType
from typing import Any

from narval.memory.contexts import Contexts
from narval.memory.elements import changes
from narval.memory.elements.changes import Change, MarkScope
from narval.memory.elements.element import SIGNAL, Element, Tree
from narval.memory.elements.tree_cache import Trees
from narval.memory.index.attribute_values import Values
from narval.memory.index.result_sets import ResultSet, ResultSets
from narval.memory.index.sorted_ints import Numbers, Span
from narval.memory.packed import Elements
from narval.memory.patterns.pattern import Bound

_WORTH_INDEXING = 32
"""With fewer elements of a name than this, trying each is cheaper than an index of an attribute."""

_NONE = Numbers()
_NO_INDEXES: Mapping[str, Values] = MappingProxyType({})


class Memory:
    """All elements of an agent, their marks and contexts."""

    def __init__(self) -> None:
        self.next_eid = 1
        self.contexts = Contexts()
        self.declared: dict[int, str] = {}
        self.keys: set[tuple[str, str, str]] = set()
        self.marks: dict[MarkScope, set[int]] = {}
        self.outdated: set[int] = set()
        self.reserved: set[int] = set()
        self._elements = Elements()
        self._rendered: dict[int, Callable[[int], Element]] = {}
        self._run_names: set[str] = set()
        """Runs change, so the attributes of elements of these names are not indexed."""
        self._by_name: defaultdict[str, Numbers] = defaultdict(Numbers)
        self._by_value: dict[str, dict[str, Values]] = {}
        """By root name and attribute: of attributes that a pattern has asked for."""
        self._addressed: set[int] = set()
        """What was said to one run: found in its context alone."""
        self._extents = ResultSets()
        self._trees = Trees()

    # --- reading --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._elements) + len(self._rendered)

    def __contains__(self, eid: object) -> bool:
        return eid in self._elements or eid in self._rendered

    def __iter__(self) -> Iterator[int]:
        """All eids, oldest first."""
        return heapq.merge(self._elements, sorted(self._rendered))

    def element(self, eid: int) -> Element | None:
        """The element of that number, or None when there is none or it was forgotten."""
        found = self._elements.get(eid)
        if found is not None:
            return found
        render = self._rendered.get(eid)
        return render(eid) if render is not None else None

    def is_run(self, eid: int) -> bool:
        """Whether the element is a run, rendered from its state."""
        return eid in self._rendered

    def tree(self, element: Element) -> Tree:
        """The element parsed, from a bounded cache."""
        if element.eid in self._elements:
            return self._trees.of(element)
        return Tree(element)

    def fits(self, element: Element, bound: Bound) -> bool:
        """Whether an element, in memory or not yet, fits."""
        return bound.test(self.tree(element))

    def may_take(self, eid: int, scope: MarkScope | None) -> bool:
        """Whether an input or condition may take the element: there, not replaced, reserved or used by it."""
        if eid in self.outdated or eid in self.reserved or eid not in self:
            return False
        return scope is None or eid not in self.marks.get(scope, ())

    def among(self, eids: Iterable[int], bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        """Those of `eids` that fit and may be taken, in their order."""
        outdated, reserved, name_of = self.outdated, self.reserved, self._elements.name
        used = self.marks.get(scope, ()) if scope is not None else ()
        for eid in eids:
            if eid in used or eid in outdated or eid in reserved:
                continue
            name = name_of(eid)
            if name is None:  # a run, whose name is known when it is looked at; or gone
                if self._fits(eid, bound):
                    yield eid
            elif name in bound.sufficient or (bound.admits(name) and self._fits(eid, bound)):
                yield eid

    def matching(self, bound: Bound, scope: MarkScope | None = None) -> Iterator[int]:
        """All of memory that fits and may be taken, oldest first; lazily. What is said to one run is not."""
        extent = self._extents.get(bound)
        if extent is None:
            candidates = self.candidates(bound)
            extent = self._extent(bound, candidates)
            if extent is None:
                return self.among(self._for_all(candidates), bound, scope)
        used = self.marks.get(scope, ()) if scope is not None else ()
        return (eid for eid in self._for_all(extent.unused(scope, used)) if eid not in self.reserved)

    def select(self, bound: Bound) -> Iterator[int]:
        """All of memory that fits, replaced and reserved elements too, oldest first."""
        return (eid for eid in self.candidates(bound) if self._fits(eid, bound))

    def reserved_for(self, bound: Bound, scope: MarkScope | None) -> bool:
        """Whether an element would fit if no call under way had reserved it (N18)."""
        used = self.marks.get(scope, ()) if scope is not None else ()
        return any(eid not in used and self._fits(eid, bound) for eid in sorted(self.reserved))

    def named(self, names: Iterable[str] | None) -> Iterable[int]:
        """The eids of elements with one of these root names (None: all), oldest first."""
        if names is None:
            return self
        buckets = [bucket for name in names if (bucket := self._by_name.get(name))]
        return buckets[0] if len(buckets) == 1 else heapq.merge(*buckets)

    def used_by(self, eid: int) -> list[MarkScope]:
        """Which inputs and conditions have used an element."""
        return [scope for scope, eids in self.marks.items() if eid in eids]

    # --- changing -------------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        """Let a change happen."""
        _APPLY[type(change)](self, change)

    def revert(self, change: Change) -> None:
        """Take back the change that happened last; forgetting cannot be taken back."""
        _REVERT[type(change)](self, change)

    def fill(self, kept: Iterable[tuple[Element, str, bool]]) -> None:
        """Elements of before come into a memory that is empty, oldest first, each with what declares it and
        whether it has been replaced."""
        eid = 0
        for element, declared, outdated in kept:
            eid = element.eid
            self._elements.add_old(element)
            self._by_name[element.name].add(eid)
            if element.addressed:
                self._addressed.add(eid)
            if declared:
                self.declared[eid] = declared
            if outdated:
                self.outdated.add(eid)
        self.next_eid = max(self.next_eid, eid + 1)

    def number_from(self, eid: int) -> None:
        """Give the next element this eid, or a later one."""
        self.next_eid = max(self.next_eid, eid)

    def show_run(self, eid: int, name: str, render: Callable[[int], Element]) -> None:
        """A run begins to be seen as an element; `render` makes it of its eid, when somebody looks."""
        self._rendered[eid] = render
        if name not in self._run_names:
            self._run_names.add(name)
            self._extents.drop_named(name)
        self._by_name[name].add(eid)
        self.next_eid = max(self.next_eid, eid + 1)

    def hide_run(self, eid: int, name: str) -> None:
        """A run is not seen any more."""
        self._rendered.pop(eid, None)
        self._by_name.get(name, _NONE).discard(eid)

    # --- inside ---------------------------------------------------------------------------------------

    def _for_all(self, eids: Iterable[int]) -> Iterable[int]:
        """Those that are not addressed to one run."""
        return (eid for eid in eids if eid not in self._addressed) if self._addressed else eids

    def _fits(self, eid: int, bound: Bound) -> bool:
        element = self.element(eid)
        return element is not None and bound.test(self.tree(element))

    def candidates(self, bound: Bound) -> Iterable[int]:
        """The eids of elements that may satisfy a condition, as far as the indexes know; oldest first."""
        keys = bound.keys
        if keys is None:
            return self.named(bound.names)
        buckets: list[Iterable[int]] = []
        for key in keys:
            if key.tag is None:
                return self
            buckets.append(self._bucket(key.tag, key.eq))
        return buckets[0] if len(buckets) == 1 else _distinct(heapq.merge(*buckets))

    def _extent(self, bound: Bound, candidates: Iterable[int]) -> ResultSet | None:
        """What satisfies a condition, where so many elements may that it is worth keeping."""
        if bound.variables:
            return None
        names = bound.names
        if names is None or not self._run_names.isdisjoint(names):
            return None
        if isinstance(candidates, Sized) and len(candidates) < _WORTH_INDEXING:
            return None
        return self._extents.of(bound, names, lambda: self._current(bound))

    def _current(self, bound: Bound) -> Iterator[int]:
        """What satisfies a condition and has not been replaced."""
        return (eid for eid in self.candidates(bound) if eid not in self.outdated and self._fits(eid, bound))

    def _bucket(self, name: str, equalities: Iterable[tuple[str, str]]) -> Iterable[int]:
        """The smallest indexed set that holds every element of that name with these attribute values."""
        best: Numbers | Span = self._by_name.get(name, _NONE)
        if name in self._run_names or (least := len(best)) < _WORTH_INDEXING:
            return best
        for attribute, value in equalities:
            bucket = self._values(name, attribute).of(value)
            if (size := len(bucket)) < least:
                best, least = bucket, size
        return best

    def _values(self, name: str, attribute: str) -> Values:
        indexes = self._by_value.setdefault(name, {})
        index = indexes.get(attribute)
        if index is None:
            bearers = self._elements.documents(self._by_name.get(name, ()))
            index = indexes[attribute] = Values(attribute, bearers)
        return index

    def _add(self, change: changes.Added) -> None:
        element = change.element
        eid, name = element.eid, element.name
        self._elements.add(element)
        self._by_name[name].add(eid)
        if name in self._by_value:
            for index in self._by_value[name].values():
                index.add(element)
        self._extents.enter(element, self._trees.of)
        if name == SIGNAL and element.addressed:
            self._addressed.add(eid)
        if change.declared:
            self.declared[eid] = change.declared
        if change.held:
            self.contexts.join(change.held, (eid,))
        if eid >= self.next_eid:
            self.next_eid = eid + 1

    def _remove(self, eid: int) -> None:
        element = self._elements.pop(eid)
        if element is None:
            return
        for index in self._by_value.get(element.name, _NO_INDEXES).values():
            index.discard(element)
        self._by_name[element.name].discard(eid)
        self._extents.leave(element)
        self._addressed.discard(eid)
        self._trees.drop(eid)
        self.declared.pop(eid, None)

    def _forget(self, change: changes.Forgotten) -> None:
        for run in change.runs:
            self.contexts.forget_run(run)
            self.contexts.forget_element(run)
        for eid in change.eids:
            self._remove(eid)
            self.contexts.forget_element(eid)
            self.outdated.discard(eid)
        gone = {*change.eids, *change.runs}
        for eids in self.marks.values():
            if not eids.isdisjoint(gone):
                eids -= gone

    def _undeclare(self, change: changes.Undeclared) -> None:
        for eid in change.eids:
            self.declared.pop(eid, None)

    def _mark(self, change: changes.Used) -> None:
        self.marks.setdefault(change.scope, set()).update(change.eids)
        self._extents.use(change.scope, change.eids)

    def _unmark(self, change: changes.Used) -> None:
        self.marks[change.scope].difference_update(change.eids)
        self._extents.unuse(change.scope)

    def _outdate(self, change: changes.Outdated) -> None:
        self.outdated.update(change.eids)
        for element in filter(None, map(self._elements.get, change.eids)):
            self._extents.leave(element)

    def _unoutdate(self, change: changes.Outdated) -> None:
        self.outdated.difference_update(change.eids)
        for element in filter(None, map(self._elements.get, change.eids)):
            self._extents.drop_named(element.name)

    def _unadd(self, change: changes.Added) -> None:
        if change.held:
            self.contexts.leave(change.held, (change.element.eid,))
        self._remove(change.element.eid)
        if change.element.eid == self.next_eid - 1:
            self.next_eid -= 1


def _distinct(eids: Iterable[int]) -> Iterator[int]:
    last = 0
    for eid in eids:
        if eid != last:
            yield eid
            last = eid


_APPLY: dict[type, Callable[[Memory, Any], None]] = {
    changes.Added: Memory._add,
    changes.Held: lambda memory, change: memory.contexts.join(change.run, change.eids),
    changes.Unheld: lambda memory, change: memory.contexts.leave(change.run, change.eids),
    changes.Used: Memory._mark,
    changes.Reserved: lambda memory, change: memory.reserved.update(change.eids),
    changes.Released: lambda memory, change: memory.reserved.difference_update(change.eids),
    changes.Outdated: Memory._outdate,
    changes.Keyed: lambda memory, change: memory.keys.add((change.name, change.expression, change.value)),
    changes.Undeclared: Memory._undeclare,
    changes.Forgotten: Memory._forget,
}

_REVERT: dict[type, Callable[[Memory, Any], None]] = {
    changes.Added: Memory._unadd,
    changes.Held: lambda memory, change: memory.contexts.leave(change.run, change.eids),
    changes.Unheld: lambda memory, change: memory.contexts.join(change.run, change.eids),
    changes.Used: Memory._unmark,
    changes.Reserved: lambda memory, change: memory.reserved.difference_update(change.eids),
    changes.Released: lambda memory, change: memory.reserved.update(change.eids),
    changes.Outdated: Memory._unoutdate,
    changes.Keyed: lambda memory, change: memory.keys.discard((change.name, change.expression, change.value)),
}
