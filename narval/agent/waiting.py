"""Watches, by the elements that would satisfy them; signals of runs to runs; the queue of events still to be
told; events that are no longer told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import NamedTuple

from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Tree
from narval.core.engines.commands import Call, Watch
from narval.core.engines.events import Event, Failure
from narval.core.index.index import Index
from narval.core.patterns.pattern import Bound
from narval.store.batch import Offer

WatchKey = tuple[int, str]
"""A run, and a watch it has set."""


class Wish(NamedTuple):
    """The conditions of watches that are also told when a fitting element is replaced or forgotten."""

    conditions: tuple[Bound, ...]
    scopes: tuple[MarkScope | None, ...]
    unless_reserved: bool


MOST_ALTERED = 10_000
"""The most changed runs of a kind that are kept for who lists them next; beyond that all are listed anew."""


class Watches:
    """The watches that runs have set."""

    def __init__(self) -> None:
        self.index: Index[WatchKey] = Index()
        self._of_gone: Index[Wish] = Index()
        self._wishes: dict[WatchKey, tuple[Wish, ...]] = {}
        self._sharing: dict[Wish, dict[WatchKey, int]] = {}
        """The watches of each wish, numbered in the order they were set. Many plans take turns at one
        element; whether they are told of it is decided once for all.
        """
        self._numbers = count()
        self._of_elements: dict[int, dict[WatchKey, None]] = {}
        """By element, the watches that are told when that one is replaced or forgotten."""
        self._elements: dict[WatchKey, tuple[int, ...]] = {}
        self.altered: dict[str, dict[int, None]] = {}
        """By kind that is being followed, the runs that have changed since they were last listed; a kind of
        which more have than are kept is not followed any more.
        """

    def add(self, run: int, command: Watch) -> None:
        """Wake a run for an element."""
        key = (run, command.watch)
        for bound in command.conditions:
            self.index.add(key, bound)
        if command.or_outdated:
            self._miss(key, Wish(command.conditions, command.scopes, command.unless_reserved))
        if command.elements:
            self._elements[key] = command.elements
            for eid in command.elements:
                self._of_elements.setdefault(eid, {})[key] = None

    def remove(self, run: int, watch: str) -> None:
        """Stop waking it; a watch that is not there is ignored."""
        key = (run, watch)
        self.index.discard(key)
        for wish in self._wishes.pop(key, ()):
            sharing = self._sharing[wish]
            del sharing[key]
            if not sharing:
                del self._sharing[wish]
                self._of_gone.discard(wish)
        for eid in self._elements.pop(key, ()):
            watches = self._of_elements[eid]
            del watches[key]
            if not watches:
                del self._of_elements[eid]

    def _miss(self, key: WatchKey, wish: Wish) -> None:
        before = self._wishes.get(key, ())
        if wish in before:
            return
        self._wishes[key] = (*before, wish)
        sharing = self._sharing.get(wish)
        if sharing is None:
            sharing = self._sharing[wish] = {}
            for bound in wish.conditions:
                self._of_gone.add(wish, bound)
        sharing[key] = next(self._numbers)

    def alter(self, kind: str, run: int) -> None:
        """Record that a run of a kind that is followed has changed."""
        altered = self.altered[kind]
        altered[run] = None
        if len(altered) > MOST_ALTERED:
            del self.altered[kind]

    def follow(self, kind: str) -> dict[int, None]:
        """Record from now on which runs of a kind change; the caller removes those that it has listed."""
        return self.altered.setdefault(kind, {})

    @property
    def any_of_gone(self) -> bool:
        """True if some watch is told of elements that are gone."""
        return bool(self._of_elements or len(self._of_gone))

    def misses(self, name: str) -> bool:
        """True if some watch may have to be told that an element of this name is gone."""
        return self._of_gone.interested(name)

    def watchers_of_gone(
        self, tree: Tree, is_told: Callable[[Wish], bool] = lambda _: True
    ) -> Iterable[WatchKey]:
        """The watches to tell that this element was replaced or forgotten, in the order they were set,
        without those of wishes for which `is_told` is false.
        """
        told = [self._sharing[wish] for wish in self._of_gone.wakes(tree) if is_told(wish)]
        if len(told) == 1:
            return tuple(told[0])
        numbers = {key: number for sharing in told for key, number in sharing.items()}
        return sorted(numbers, key=numbers.__getitem__)

    def watchers_of(self, eid: int) -> Iterable[WatchKey]:
        """The watches that count on this very element, to be told when it is replaced or forgotten."""
        return tuple(self._of_elements.get(eid, ()))


class Signals:
    """The calls by which runs tell one another something, while they are not answered.

    `standing` are the standing runs, by the full names of their definitions, and `gone` those that have been
    told that their definition is no longer loaded.
    """

    def __init__(self) -> None:
        self.standing: dict[str, int] = {}
        self.gone: frozenset[str] = frozenset()
        self.heard: dict[int, dict[str, int]] = {}
        """The calls by the run that is to answer, each with the run that made it."""

    def hearer(self, call: Call) -> int:
        """The run that a call tells; 0 if there is none."""
        target = (call.payload or {}).get("run") or self.standing.get(call.name, 0)
        return target if isinstance(target, int) else 0

    def lack(self, names: frozenset[str]) -> None:
        """Set the standing runs whose definitions are gone."""
        self.gone = names

    def add(self, hearer: int, call: str, caller: int) -> None:
        """Wait for an answer."""
        self.heard.setdefault(hearer, {})[call] = caller

    def settle(self, hearer: int, call: str) -> int:
        """Stop waiting for an answer; return the run that waited, or 0 if none did."""
        waiting = self.heard.get(hearer, {})
        caller = waiting.pop(call, 0)
        if not waiting:
            self.heard.pop(hearer, None)
        return caller

    def ended(self, hearer: int) -> Mapping[str, int]:
        """Stop waiting for a run that has ended; return the calls it has not answered, each with the run that
        made it.
        """
        return self.heard.pop(hearer, {})


def unanswered(hearer: int) -> Failure:
    """The failure of what was told a run that has ended without an answer."""
    return Failure("over", f"run {hearer} is over and has not answered")


DeliveredEvent = tuple[int, str]
"""A run (0: none), and words that identify what it is told when that comes again."""


_ABOUT = ("call", "watch", "wake", "name", "run", "eid", "sender", "number")
"""The fields that say what an event, a job or a message is about, and are the same when it comes again."""


def event_key(run: int, event: object) -> DeliveredEvent:
    """The words that identify what a run is told: the kind of event, and the call, watch or element it is
    about.
    """
    about = (getattr(event, field, None) for field in _ABOUT)
    return run, " ".join([type(event).__name__, *(str(part) for part in about if part is not None)])


class PoisonGuard:
    """The event that brought a turn down, and those that are no longer told because they did so twice."""

    def __init__(self) -> None:
        self.blamed: DeliveredEvent | None = None
        self.poisonous: frozenset[DeliveredEvent] = frozenset()

    def blame(self, run: int, event: object) -> None:
        """Record that a turn broke down while a run was told this."""
        self.blamed = event_key(run, event)

    def mark_poisonous(self, pieces: Iterable[DeliveredEvent]) -> None:
        """Stop telling these: their runs fail instead."""
        self.poisonous = frozenset(pieces)

    def reason(self, run: int, event: object) -> str:
        """The reason why this is no longer told, for people; empty if it still is."""
        if not self.poisonous or (key := event_key(run, event)) not in self.poisonous:
            return ""
        return f"narval broke down twice on delivering this event, so it is no longer delivered: {key[1]}"


class EventQueue(deque[tuple[int, int, Event | Offer]]):
    """Events still to be told: the row they are stored under (0: none), the run (0: an offer), the event."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        super().__init__()
        self.waiters: deque[WatchKey] | None = None
        """The watches that have yet to be told of the offer in front; None before it is their turn."""

    def put_first(self, run: int, event: Event) -> None:
        """Tell a run an event before what this turn has queued: runs that count on an element hear of its
        successor before others may take it (N45).
        """
        place = int(self.waiters is not None)
        while place < len(self) and self[place][0]:  # what was recorded before stands in front
            place += 1
        self.insert(place, (0, run, event))

    def wait_in_line(self, watches: deque[WatchKey] | None) -> None:
        """Set the watches that have yet to be told of the offer in front."""
        self.waiters = watches
