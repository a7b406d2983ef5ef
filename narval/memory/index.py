"""The index: who waits for what (design, "Memory and the index"; N24).

A condition is filed under what must be equal in an element that satisfies it: its root name, then the value
of one field, the one that fewest others wait for; a number it compares with is kept in order there. So an
element looks up its own name and values, and meets only conditions that may concern it. Those are tried on
the tests that their place leaves open, and evaluated only when their tests do not decide. What a thousand
wait for is filed once and tried once.

Nearly every condition has one alternative, one watcher, and a value of its own: each of the three is held
directly then, and in a collection when there are more. With a hundred thousand conditions that saves half of
the memory, and much of the time, which is spent on fetching what is not in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count
from typing import Any, Generic, TypeVar

from narval.memory.element import Tree
from narval.memory.match import Bound, Key
from narval.memory.places import Branch, Leaf, Tests
from narval.memory.xpath.field import Facts

Watcher = TypeVar("Watcher", bound=Hashable)

_NEVER = Key("", exact=True)
"""What nothing can satisfy waits under a name that no element has."""


class Index(Generic[Watcher]):
    """Who waits for what. A watcher is anything hashable; it may wait for several conditions."""

    def __init__(self) -> None:
        self.tried = 0
        """How many conditions had to be evaluated, all in all: a measure of what the keys leave open."""
        self._watchers: dict[Watcher, _Entry | _Several] = {}
        self._entries: dict[Hashable, _Entry] = {}
        self._branches: dict[Any, Branch] = {}
        """By root name; None holds what any name may satisfy."""
        self._serials = count()

    def __len__(self) -> int:
        """How many watchers wait."""
        return len(self._watchers)

    def add(self, watcher: Watcher, bound: Bound) -> None:
        """A watcher waits for a condition, besides those it waits for already."""
        entry = self._entries.get(bound.identity)
        if entry is None:
            entry = self._entries[bound.identity] = self._filed(bound)
        held = self._watchers.get(watcher)
        if held is None:
            rank = next(self._serials)
            self._watchers[watcher] = _Several(rank, (entry,)) if entry.join(rank, watcher) else entry
            return
        if isinstance(held, _Entry):
            held = self._watchers[watcher] = _Several(held.rank, (held,))
        if entry not in held.entries:
            held.entries = (*held.entries, entry)
            entry.join(held.rank, watcher)

    def discard(self, watcher: Watcher) -> None:
        """A watcher waits for nothing any more; it need not have waited."""
        held = self._watchers.pop(watcher, None)
        if isinstance(held, _Entry):
            self._leave(held, held.rank)
        elif held is not None:
            for entry in held.entries:
                self._leave(entry, held.rank)

    def wakes(self, tree: Tree) -> list[Watcher]:
        """The watchers that an element satisfies, each once, in the order they came."""
        sure, unsure = self._met(tree)
        if unsure:
            for entry in set(unsure).difference(sure):
                self.tried += 1
                if entry.bound is not None and entry.bound.test(tree):
                    sure.append(entry)
        return _in_order(sure) if sure else []

    def candidates(self, tree: Tree) -> tuple[list[Watcher], list[Watcher]]:
        """The watchers an element surely satisfies, and those whose conditions would have to be evaluated."""
        sure, unsure = self._met(tree)
        return _in_order(sure), _in_order(unsure)

    def interested(self, name: str) -> bool:
        """Whether some condition could match an element of that root name."""
        return name in self._branches or None in self._branches

    # --- inside -----------------------------------------------------------------------------------------

    def _filed(self, bound: Bound) -> _Entry:
        keys = bound.alternatives() or [_NEVER]
        entry = _Entry(bound, all(key.exact for key in keys), len(keys) - 1)
        for leaf, key in zip((entry, *entry.leaves), keys, strict=True):
            leaf.entry = entry
            leaf.exact = key.exact
            branch = self._branches.get(key.tag)
            if branch is None:
                branch = self._branches[key.tag] = Branch(key.tag, self._branches)
            leaf.serial = next(self._serials)
            branch.add(leaf, key.tests)
        return entry

    def _leave(self, entry: _Entry, rank: int) -> None:
        if entry.others:
            entry.leave(rank)
            return
        del self._entries[entry.identity]
        entry.home.remove(entry)
        del entry.entry  # a cycle: with it the entry would stay until the next collection
        for leaf in entry.leaves:
            leaf.home.remove(leaf)
            del leaf.entry

    def _met(self, tree: Tree) -> tuple[list[_Entry], list[_Entry]]:
        """The conditions an element satisfies for sure, and those to be evaluated; some come repeatedly."""
        sure: list[_Entry] = []
        unsure: list[_Entry] = []
        facts = Facts(tree)
        for branch in (self._branches.get(tree.name), self._branches.get(None)):
            if branch is not None:
                for leaf in branch.met(facts):
                    if not leaf.tests or _hold(leaf.tests, facts):
                        (sure if leaf.exact else unsure).append(leaf.entry)
        return sure, unsure


def _hold(tests: Tests, facts: Facts) -> bool:
    """Whether all tests hold of an element."""
    for test in tests:  # noqa: SIM110 - a generator would cost more than the tests
        if not test.holds(facts):
            return False
    return True


def _in_order(entries: list[_Entry]) -> list[Any]:
    """Those who wait for some conditions, each once, in the order they came."""
    if len(entries) == 1 and not entries[0].others:
        return [entries[0].watcher]
    watchers: dict[int, Any] = {}
    for entry in entries:
        watchers[entry.rank] = entry.watcher
        if entry.others:
            watchers.update(entry.others)
    return [watchers[rank] for rank in sorted(watchers)]


class _Several:
    """What a watcher waits for, and its rank, when it waits for several conditions or not alone."""

    __slots__ = ("entries", "rank")

    def __init__(self, rank: int, entries: tuple[_Entry, ...]) -> None:
        self.rank = rank
        self.entries = entries


_NO_OTHERS: dict[int, Any] = {}


class _Entry(Leaf):
    """A condition and who waits for it; itself the leaf of its first alternative."""

    __slots__ = ("bound", "identity", "leaves", "others", "rank", "watcher")

    watcher: Any

    def __init__(self, bound: Bound, exact: bool, further: int) -> None:
        self.identity = bound.identity
        self.bound = None if exact else bound
        """The condition itself; not kept when its keys decide alone."""
        self.leaves = tuple([Leaf() for _ in range(further)])
        """Its further alternatives."""
        self.rank = -1
        self.others = _NO_OTHERS
        """By rank, those who wait besides `watcher`."""

    def join(self, rank: int, watcher: Any) -> bool:
        """One more waits; returns whether others did."""
        if self.rank < 0:
            self.rank, self.watcher = rank, watcher
            return False
        if self.others is _NO_OTHERS:
            self.others = {}
        self.others[rank] = watcher
        return True

    def leave(self, rank: int) -> None:
        """One of several waits no more."""
        if self.rank == rank:
            self.rank, self.watcher = self.others.popitem()
        else:
            del self.others[rank]
