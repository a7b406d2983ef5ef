"""Index: the watchers that wait for conditions (design, "Memory"; N24).

A condition is filed under what an element must equal to satisfy it: its root name, then the value of one
field, the one shared by the fewest others; a number it compares with is kept in order there (`buckets`). So
an element looks up its own name and values, and meets only conditions that may apply to it. Those are checked
by the tests that their position leaves open, and evaluated only if their tests do not decide.

Fast path, measured by `make bench ONLY=W3`: usually the position alone decides. Then the watchers are filed
there themselves, and an element that leads there wakes them. Any other condition has one *entry* for all its
watchers: a condition of a thousand watchers is filed once and tested once.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count
from typing import Any, Generic, TypeVar

from narval.core.elements.element import Tree
from narval.core.index.buckets import Branch, Leaf, decides
from narval.core.patterns.key import Facts, Key
from narval.core.patterns.pattern import Bound

Watcher = TypeVar("Watcher", bound=Hashable)

_NEVER = Key("", exact=True)
"""The key of a condition that cannot hold: a name that no element has."""


class Index(Generic[Watcher]):
    """Watchers by condition. A watcher is any hashable object; it may wait for several conditions."""

    def __init__(self) -> None:
        self.tried = 0
        """The number of conditions evaluated so far: a measure of what the keys leave open."""
        self._held: dict[Watcher, _Waiter | _Entry | _Several] = {}
        self._entries: dict[Hashable, _Entry] = {}
        self._branches: dict[Any, Branch] = {}
        """By root name; under None those that elements of any name may satisfy."""
        self._serials = count()

    def __len__(self) -> int:
        """The number of watchers."""
        return len(self._held)

    def add(self, watcher: Watcher, bound: Bound) -> None:
        """Add a condition for which a watcher waits."""
        held = self._held.get(watcher)
        rank = next(self._serials) if held is None else held.rank_of(watcher)
        awaited = self._entries.get(bound.identity) or self._filed(rank, bound)
        if held is None:
            alone = awaited.join(rank, watcher)
            self._held[watcher] = awaited if alone else _Several(rank, (awaited,))
            return
        if not isinstance(held, _Several):
            held = self._held[watcher] = _Several(rank, (held,))
        if awaited not in held.all:
            held.all = (*held.all, awaited)
            awaited.join(rank, watcher)

    def discard(self, watcher: Watcher) -> None:
        """Remove a watcher; ignore an unknown one."""
        held = self._held.pop(watcher, None)
        if isinstance(held, _Waiter):
            held.leave(watcher)
        elif held is not None:
            rank = held.rank
            for awaited in held.all if isinstance(held, _Several) else (held,):
                self._leave(awaited, watcher, rank)

    def wakes(self, tree: Tree) -> list[Watcher]:
        """The watchers of conditions that an element satisfies, each once, in the order they were added."""
        met = self._met(tree)
        if not met:
            return []
        woken: dict[int, Any] = {}
        alternatives: list[_Alternative] = []
        for leaf in met:
            if isinstance(leaf, _Waiter):
                woken[leaf.serial] = leaf.watcher
                if leaf.others:
                    for watcher, rank in leaf.others.items():
                        woken[rank] = watcher
            elif isinstance(leaf, _Alternative):
                alternatives.append(leaf)
        if alternatives:
            sure = {leaf.entry for leaf in alternatives if leaf.exact}
            for entry in {leaf.entry for leaf in alternatives if not leaf.exact} - sure:
                self.tried += 1
                if entry.bound is not None and entry.bound.test(tree):
                    sure.add(entry)
            for entry in sure:
                woken[entry.rank] = entry.watcher
                woken.update(entry.others)
        return [woken[rank] for rank in sorted(woken)] if len(woken) > 1 else list(woken.values())

    def interested(self, name: str) -> bool:
        """True if some condition could match an element of that root name."""
        return name in self._branches or None in self._branches

    # --- inside -----------------------------------------------------------------------------------------

    def _filed(self, rank: int, bound: Bound) -> _Waiter | _Entry:
        """File a condition that has no entry: as a waiter if its position alone decides, else as an entry."""
        keys = bound.alternatives() or [_NEVER]
        if len(keys) == 1 and keys[0].exact and decides(keys[0].tests):
            branch = self._branch(keys[0].tag)
            waiter = branch.alone(keys[0].tests)
            if not isinstance(waiter, _Waiter):
                waiter = _Waiter(rank)
                branch.add(waiter, keys[0].tests)
            return waiter
        entry = self._entries[bound.identity] = _Entry(bound, all(key.exact for key in keys))
        entry.leaves = tuple([_Alternative(next(self._serials), entry, key.exact) for key in keys])
        for leaf, key in zip(entry.leaves, keys, strict=True):
            self._branch(key.tag).add(leaf, key.tests)
        return entry

    def _branch(self, tag: str | None) -> Branch:
        branch = self._branches.get(tag)
        if branch is None:
            branch = self._branches[tag] = Branch(tag, self._branches)
        return branch

    def _leave(self, awaited: _Waiter | _Entry, watcher: Watcher, rank: int) -> None:
        if isinstance(awaited, _Waiter):
            awaited.leave(watcher)
        elif awaited.others:
            awaited.leave(rank)
        else:
            del self._entries[awaited.identity]
            for leaf in awaited.leaves:
                leaf.home.remove(leaf)
            awaited.leaves = ()  # else the cycle lasts until the next collection

    def _met(self, tree: Tree) -> list[Leaf]:
        """The leaves that an element leads to, and whose tests it passes."""
        named, any_name = self._branches.get(tree.name), self._branches.get(None)
        if named is None and any_name is None:
            return []
        facts = Facts(tree)
        met = named.met(facts) if named is not None else []
        return met if any_name is None else met + any_name.met(facts)


class _Waiter(Leaf):
    """A watcher at a position that decides alone, and those added later; its serial is its rank."""

    __slots__ = ("others", "watcher")

    def __init__(self, rank: int) -> None:
        self.serial = rank
        self.others: dict[Any, int] | None = None
        """The ranks of the watchers besides `watcher`."""
        self.watcher: Any = None

    def rank_of(self, watcher: Any) -> int:
        """The rank of one of its watchers."""
        return self.others.get(watcher, self.serial) if self.others else self.serial

    def join(self, rank: int, watcher: Any) -> bool:
        """Add a watcher; return True, since this object alone can hold it."""
        if self.serial == rank:
            self.watcher = watcher
        elif self.others is None:
            self.others = {watcher: rank}
        else:
            self.others[watcher] = rank
        return True

    def leave(self, watcher: Any) -> None:
        """Remove a watcher; remove the leaf with the last one."""
        if not self.others:
            self.home.remove(self)
        elif self.others.pop(watcher, None) is None:
            self.watcher, self.serial = self.others.popitem()


class _Alternative(Leaf):
    """One alternative of a condition with an entry."""

    __slots__ = ("entry", "exact")

    def __init__(self, serial: int, entry: _Entry, exact: bool) -> None:
        self.serial = serial
        self.entry = entry
        self.exact = exact
        """True if an element that leads here and passes the tests satisfies the condition."""


_NO_OTHERS: dict[int, Any] = {}


class _Entry:
    """A condition that needs testing, and its watchers: usually one, which is then held directly."""

    __slots__ = ("bound", "identity", "leaves", "others", "rank", "watcher")

    watcher: Any

    def __init__(self, bound: Bound, exact: bool) -> None:
        self.identity = bound.identity
        self.bound = None if exact else bound
        """The condition; None if its keys decide alone."""
        self.leaves: tuple[_Alternative, ...] = ()
        self.rank = -1
        self.others = _NO_OTHERS
        """The watchers besides `watcher`, by rank."""

    def join(self, rank: int, watcher: Any) -> bool:
        """Add a watcher; return True if it is the only one."""
        if self.rank < 0:
            self.rank, self.watcher = rank, watcher
            return True
        if self.others is _NO_OTHERS:
            self.others = {}
        self.others[rank] = watcher
        return False

    def rank_of(self, _: Any) -> int:
        """The rank of the only watcher."""
        return self.rank

    def leave(self, rank: int) -> None:
        """Remove one of several watchers."""
        if self.rank == rank:
            self.rank, self.watcher = self.others.popitem()
        else:
            del self.others[rank]


class _Several:
    """The conditions and the rank of a watcher that waits for several, or for one with other watchers."""

    __slots__ = ("all", "rank")

    def __init__(self, rank: int, awaited: tuple[_Waiter | _Entry, ...]) -> None:
        self.rank = rank
        self.all = awaited

    def rank_of(self, _: Any) -> int:
        """The rank of the watcher."""
        return self.rank
