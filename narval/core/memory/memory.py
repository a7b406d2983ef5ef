"""Memory: the elements, marks and contexts of an agent, altered only by changes.

An element stays bytes until it is read. A run is an element too, rendered from its state on demand. Indexes
only make queries cheaper: `index/`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from narval.core.elements import changes
from narval.core.elements.changes import Change, MarkScope
from narval.core.elements.element import Element, Tree
from narval.core.index.element_index import ElementIndex
from narval.core.memory.contexts import Contexts, Declared
from narval.core.memory.labels import Labels
from narval.core.memory.packed import Descent, ElementTable
from narval.core.patterns.pattern import Bound


class Memory:
    """All elements of an agent, their marks and contexts.

    `marks` are the elements that each input or condition has used, each with the run that used it. `reserved`
    are those that an active call will replace, `outdated` those that have been replaced, and `withdrawn`
    those of the outdated that should never have counted, each with the reason; `doubtful` were made from
    withdrawn ones. `declared` says what protects an element. `unique_values` are the values given by outputs
    with `unique`. `labels` say where the contents of elements came from.
    """

    def __init__(self) -> None:
        self.next_eid = 1
        self.contexts = Contexts()
        self.labels = Labels()
        self.declared = Declared()
        self.unique_values: set[tuple[str, str, str]] = set()
        self.marks: dict[MarkScope, dict[int, int]] = {}
        self.outdated: set[int] = set()
        self.withdrawn: dict[int, str] = {}
        self.reserved: set[int] = set()
        self.elements = ElementTable()
        self.doubtful = self.elements.doubtful
        self._rendered: dict[int, Callable[[int], Element]] = {}
        self.index = ElementIndex(self.elements)
        self.descent = Descent(self.elements)

    # --- reading --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.elements) + len(self._rendered)

    def __contains__(self, eid: object) -> bool:
        return eid in self.elements or eid in self._rendered

    def __iter__(self) -> Iterator[int]:
        """All current eids, oldest first; memory may change during iteration."""
        return heapq.merge(list(self.elements), sorted(self._rendered))

    def element(self, eid: int) -> Element | None:
        """The element of an eid; None if there is none or it was forgotten."""
        element = self.elements.get(eid)
        if element is not None:
            return element
        render = self._rendered.get(eid)
        return render(eid) if render is not None else None

    def is_run(self, eid: int) -> bool:
        """True if the element is a run, rendered from its state."""
        return eid in self._rendered

    def tree(self, element: Element) -> Tree:
        """The tree of an element, in memory or not; from a bounded cache."""
        return self.elements.tree(element)

    def is_available(self, eid: int, scope: MarkScope | None) -> bool:
        """True if an element exists, is neither replaced nor reserved, and is not used by `scope`."""
        if scope is not None and eid in self.marks.get(scope, ()):
            return False
        return eid in self and eid not in self.outdated and eid not in self.reserved

    def among(self, eids: Iterable[int], bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        """The `eids` that match and are available, in the order given."""
        outdated, reserved, name_of = self.outdated, self.reserved, self.elements.name
        if self.doubtful and not bound.asks_doubtful:
            eids = without(eids, self.doubtful)
        used = self.marks.get(scope, ()) if scope is not None else ()
        sufficient, last, is_admitted = bound.sufficient, "", False
        for eid in eids:
            if eid in used or eid in outdated or eid in reserved:
                continue
            name = name_of(eid)
            if name is None:  # a run, whose name is known once it is rendered; or gone
                if self._fits(eid, bound):
                    yield eid
                continue
            if name != last:  # often several of one name in a row
                last, is_admitted = name, name in sufficient or bound.admits(name)
            if is_admitted and (name in sufficient or self._fits(eid, bound)):
                yield eid

    def matching(
        self, bound: Bound, scope: MarkScope | None = None, *, newest_first: bool = False
    ) -> Iterator[int]:
        """All elements that match and are available, lazily, oldest or newest first; without signals sent to
        one run.
        """
        index = self.index
        if self.doubtful and bound.asks_doubtful:  # no index knows what is doubtful
            eids = sorted({*self._candidates(bound), *self.doubtful}, reverse=newest_first)
            return self.among(index.unaddressed(eids), bound, scope)
        result_set = index.result_sets.get(bound)
        if result_set is None:
            candidates = self._candidates(bound)
            result_set = index.new_result_set(bound, candidates, self._current)
            if result_set is None:
                candidate_eids = index.newest(bound) if newest_first else candidates
                return self.among(index.unaddressed(candidate_eids), bound, scope)
        used = self.marks.get(scope, ()) if scope is not None else ()
        unused = result_set.unused(scope, used)
        candidate_eids = index.unaddressed(unused.descending() if newest_first else unused)
        return (eid for eid in candidate_eids if eid not in self.reserved)

    def select(self, bound: Bound) -> Iterator[int]:
        """All elements that match, including replaced, doubtful and reserved ones, oldest first."""
        eids = self._candidates(bound)
        if self.doubtful and bound.asks_doubtful:
            eids = sorted({*eids, *self.doubtful})
        return (eid for eid in eids if self._fits(eid, bound))

    def reserved_for(self, bound: Bound, scope: MarkScope | None) -> bool:
        """True if an element would match if an active call had not reserved it."""
        used = self.marks.get(scope, ()) if scope is not None else ()
        return any(eid not in used and self._fits(eid, bound) for eid in sorted(self.reserved))

    def named(self, names: Iterable[str] | None) -> Iterable[int]:
        """The eids of elements with one of these root names (None: all), oldest first."""
        return self if names is None else self.index.named(names)

    def used_by(self, eid: int) -> list[tuple[MarkScope, int]]:
        """The inputs and conditions that have used an element, each with the run that did (0: none)."""
        return [(scope, runs[eid]) for scope, runs in self.marks.items() if eid in runs]

    # --- changing -------------------------------------------------------------------------------------

    def apply(self, change: Change) -> Change | None:
        """Apply a change; return the part of it that was new, or None."""
        return _APPLY[type(change)](self, change)

    def revert(self, change: Change) -> None:
        """Revert what `apply` returned last; raises KeyError for a change that cannot be reverted, such as
        Forgotten.
        """
        _REVERT[type(change)](self, change)

    def fill(
        self,
        rows: Iterable[tuple[Element, str, bool]],
        unique_values: Iterable[tuple[str, str, str]] = (),
        next_eid: int = 1,
    ) -> None:
        """Load an empty memory from a store.

        Elements come oldest first, each with its declaration ("": none) and whether it has been replaced.
        """
        self.unique_values.update(unique_values)
        eid = 0
        for element, declared, outdated in rows:
            eid = element.eid
            if declared:  # its bytes may be shared by many agents, so it is not packed
                self.elements.add(element)
            else:
                self.elements.add_old(element)
            self.index.add(element)
            if declared:
                self.declared[eid] = declared
            if outdated:
                self.outdated.add(eid)
        self.next_eid = max(self.next_eid, next_eid, eid + 1)

    def show_run(self, eid: int, name: str, render: Callable[[int], Element]) -> None:
        """Add a run; `render` makes its element, given its eid, on each access."""
        self._rendered[eid] = render
        self.index.add_run(eid, name)
        self.next_eid = max(self.next_eid, eid + 1)

    def hide_run(self, eid: int, name: str) -> None:
        """Remove a run; ignore an unknown one."""
        self._rendered.pop(eid, None)
        self.index.discard_run(eid, name)

    # --- inside ---------------------------------------------------------------------------------------

    def _fits(self, eid: int, bound: Bound) -> bool:
        element = self.element(eid)
        return element is not None and bound.test(self.elements.tree(element))

    def _candidates(self, bound: Bound) -> Iterable[int]:
        candidates = self.index.candidates(bound)
        return self if candidates is None else candidates

    def _current(self, bound: Bound) -> Iterator[int]:
        """All elements that match, have not been replaced, and are not doubtful."""
        eids = without(without(self._candidates(bound), self.outdated), self.doubtful)
        return (eid for eid in eids if self._fits(eid, bound))

    def _add(self, change: changes.Added) -> Change:
        element = change.element
        eid = element.eid
        self.elements.add(element)
        self.index.add(element)
        if change.declared:
            self.declared[eid] = change.declared
        if change.held:
            self.contexts.join(change.held, (eid,))
        if eid >= self.next_eid:
            self.next_eid = eid + 1
        if self.descent.is_used:
            self.descent.add(element)
        return change

    def _remove(self, eid: int) -> None:
        element = self.elements.pop(eid)
        if element is not None:
            self.index.discard(element)
            self.declared.drop(eid)
            if self.descent.is_used:
                self.descent.discard(element)
            self.withdrawn.pop(eid, None)
            self.doubtful.discard(eid)

    def _unadd(self, change: changes.Added) -> None:
        if change.held:
            self.contexts.leave(change.held, (change.element.eid,))
        self._remove(change.element.eid)
        if change.element.eid == self.next_eid - 1:
            self.next_eid -= 1


def _hold(memory: Memory, change: changes.Held) -> Change | None:
    holds = memory.contexts.holds
    new = tuple([eid for eid in change.eids if eid in memory and not holds(change.run, eid)])
    memory.contexts.join(change.run, new)
    return _news(change, new)


def _unhold(memory: Memory, change: changes.Unheld) -> Change:
    memory.contexts.leave(change.run, change.eids)
    return change


def _mark(memory: Memory, change: changes.Used) -> Change | None:
    marked = memory.marks.setdefault(change.scope, {})
    new = change.eids if marked.keys().isdisjoint(change.eids) else _without(change.eids, marked)
    marked.update(dict.fromkeys(new, change.run))
    memory.index.result_sets.use(change.scope, new)
    return _news(change, new)


def _unmark(memory: Memory, change: changes.Used) -> None:
    runs = memory.marks[change.scope]
    for eid in change.eids:
        runs.pop(eid, None)
    memory.index.result_sets.unuse(change.scope)


def _key(memory: Memory, change: changes.Keyed) -> Change | None:
    if change.identity in memory.unique_values:
        return None
    memory.unique_values.add(change.identity)
    return change


def _reserve(memory: Memory, change: changes.Reserved) -> Change | None:
    new = _without(change.eids, memory.reserved)
    memory.reserved.update(new)
    return _news(change, new)


def _release(memory: Memory, change: changes.Released) -> Change | None:
    new = tuple([eid for eid in change.eids if eid in memory.reserved])
    memory.reserved.difference_update(new)
    return _news(change, new)


def _outdate(memory: Memory, change: changes.Outdated) -> Change | None:
    new = _without(change.eids, memory.outdated)
    memory.outdated.update(new)
    for element in filter(None, map(memory.elements.get, new)):
        memory.index.result_sets.discard(element)
    return _news(change, new)


def _unoutdate(memory: Memory, change: changes.Outdated) -> None:
    memory.outdated.difference_update(change.eids)
    for element in filter(None, map(memory.elements.get, change.eids)):
        memory.index.result_sets.drop_named(element.name)


def _withdraw(memory: Memory, change: changes.Withdrawn) -> Change | None:
    new = tuple([eid for eid in _without(change.eids, memory.withdrawn) if eid in memory.elements])
    _outdate(memory, changes.Outdated(new))
    _confirm(memory, changes.Confirmed(new))
    memory.withdrawn.update(dict.fromkeys(new, change.why))
    return _news(change, new)


def _doubt(memory: Memory, change: changes.Doubted) -> Change | None:
    new = tuple([eid for eid in _without(change.eids, memory.doubtful) if eid in memory.elements])
    memory.doubtful.update(new)
    for element in filter(None, map(memory.elements.get, new)):
        memory.index.result_sets.discard(element)
    return _news(change, new)


def _confirm(memory: Memory, change: changes.Confirmed) -> Change | None:
    new = tuple([eid for eid in change.eids if eid in memory.doubtful])
    memory.doubtful.difference_update(new)
    for element in filter(None, map(memory.elements.get, new)):
        memory.index.result_sets.drop_named(element.name)
    return _news(change, new)


def without(eids: Iterable[int], excluded: Container[int]) -> Iterable[int]:
    """The eids that are not excluded, lazily."""
    return (eid for eid in eids if eid not in excluded)


def _without(eids: tuple[int, ...], excluded: Container[int]) -> tuple[int, ...]:
    return tuple([eid for eid in eids if eid not in excluded])


def _news(change: Any, new: tuple[int, ...]) -> Change | None:
    """The change limited to these elements; None if there are none."""
    if len(new) == len(change.eids):
        return change if new else None
    return replace(change, eids=new) if new else None


def _forget(memory: Memory, change: changes.Forgotten) -> Change:
    for run in change.runs:
        memory.contexts.forget_run(run)
        memory.contexts.forget_element(run)
    for eid in change.eids:
        memory._remove(eid)
        memory.contexts.forget_element(eid)
        memory.outdated.discard(eid)
    gone = {*change.eids, *change.runs}
    memory.labels.forget(gone)
    for runs in memory.marks.values():
        for eid in runs.keys() & gone if not runs.keys().isdisjoint(gone) else ():
            del runs[eid]
    return change


def _label(memory: Memory, change: changes.Labelled) -> Change | None:
    new = memory.labels.add(change.eid, change.labels)
    if not new:
        return None
    return change if new is change.labels else replace(change, labels=new)


def _undeclare(memory: Memory, change: changes.Undeclared) -> Change:
    for eid in change.eids:
        memory.declared.drop(eid)
    return change


_APPLY: dict[type, Callable[[Memory, Any], Change | None]] = {
    changes.Added: Memory._add,
    changes.Held: _hold,
    changes.Unheld: _unhold,
    changes.Used: _mark,
    changes.Reserved: _reserve,
    changes.Released: _release,
    changes.Outdated: _outdate,
    changes.Withdrawn: _withdraw,
    changes.Doubted: _doubt,
    changes.Confirmed: _confirm,
    changes.Keyed: _key,
    changes.Undeclared: _undeclare,
    changes.Labelled: _label,
    changes.Forgotten: _forget,
}

_REVERT: dict[type, Callable[[Memory, Any], None]] = {
    changes.Added: Memory._unadd,
    changes.Held: lambda memory, change: memory.contexts.leave(change.run, change.eids),
    changes.Unheld: lambda memory, change: memory.contexts.join(change.run, change.eids),
    changes.Used: _unmark,
    changes.Reserved: lambda memory, change: memory.reserved.difference_update(change.eids),
    changes.Released: lambda memory, change: memory.reserved.update(change.eids),
    changes.Outdated: _unoutdate,
    changes.Keyed: lambda memory, change: memory.unique_values.discard(change.identity),
    changes.Labelled: lambda memory, change: memory.labels.remove(change.eid, change.labels),
}
