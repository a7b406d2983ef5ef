"""Watches, indexed by the elements that would satisfy them; signals between runs; the queue of events to
deliver; events that are no longer delivered.
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
    """The conditions of watches that are also told when a matching element is replaced or forgotten."""

    conditions: tuple[Bound, ...]
    scopes: tuple[MarkScope | None, ...]
    unless_reserved: bool


MOST_ALTERED = 10_000
"""The most changed runs of a kind kept for the next listing; beyond that, all runs are listed again."""


class Watches:
    """The watches that runs have set."""

    def __init__(self) -> None:
        self.index: Index[WatchKey] = Index()
        self._of_gone: Index[Wish] = Index()
        self._wishes: dict[WatchKey, tuple[Wish, ...]] = {}
        self._sharing: dict[Wish, dict[WatchKey, int]] = {}
        """The watches of each wish, numbered in the order they were set. Many plans take turns at one
        element; whether to tell them is decided once for all.
        """
        self._numbers = count()
        self._of_elements: dict[int, dict[WatchKey, None]] = {}
        """By element, the watches to tell when it is replaced or forgotten."""
        self._elements: dict[WatchKey, tuple[int, ...]] = {}
        self.altered: dict[str, dict[int, None]] = {}
        """By followed kind, the runs that have changed since they were last listed. A kind with too many of
        them is no longer followed.
        """

    def add(self, run: int, command: Watch) -> None:
        """Wake a run for a matching element."""
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
        """Stop waking a run by a watch; ignore an unknown watch."""
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
        """Record that a run of a followed kind has changed."""
        altered = self.altered[kind]
        altered[run] = None
        if len(altered) > MOST_ALTERED:
            del self.altered[kind]

    def follow(self, kind: str) -> dict[int, None]:
        """Record from now on which runs of a kind change; the caller removes those that it has listed."""
        return self.altered.setdefault(kind, {})

    @property
    def any_of_gone(self) -> bool:
        """True if some watch is told when elements are gone."""
        return bool(self._of_elements or len(self._of_gone))

    def misses(self, name: str) -> bool:
        """True if some watch may need to be told that an element of this name is gone."""
        return self._of_gone.interested(name)

    def watchers_of_gone(
        self, tree: Tree, is_told: Callable[[Wish], bool] = lambda _: True
    ) -> Iterable[WatchKey]:
        """The watches to tell that this element was replaced or forgotten, in the order they were set,
        without those of wishes for which `is_told` is false.
        """
        watchers = [self._sharing[wish] for wish in self._of_gone.wakes(tree) if is_told(wish)]
        if len(watchers) == 1:
            return tuple(watchers[0])
        numbers = {key: number for sharing in watchers for key, number in sharing.items()}
        return sorted(numbers, key=numbers.__getitem__)

    def watchers_of(self, eid: int) -> Iterable[WatchKey]:
        """The watches for this very element, to be told when it is replaced or forgotten."""
        return tuple(self._of_elements.get(eid, ()))


class Signals:
    """The unanswered calls by which runs signal one another.

    `standing` are the service runs, by the full names of their definitions; `gone` those that have been told
    that their definition is no longer loaded.
    """

    def __init__(self) -> None:
        self.standing: dict[str, int] = {}
        self.gone: frozenset[str] = frozenset()
        self.heard: dict[int, dict[str, int]] = {}
        """The calls by the run that should answer, each with the run that made it."""

    def hearer(self, call: Call) -> int:
        """The run that a call signals; 0 if there is none."""
        target = (call.payload or {}).get("run") or self.standing.get(call.name, 0)
        return target if isinstance(target, int) else 0

    def lack(self, names: frozenset[str]) -> None:
        """Set the service runs whose definitions are gone."""
        self.gone = names

    def add(self, hearer: int, call: str, caller: int) -> None:
        """Wait for an answer."""
        self.heard.setdefault(hearer, {})[call] = caller

    def settle(self, hearer: int, call: str) -> int:
        """Stop waiting for an answer; return the run that waited, or 0."""
        waiting = self.heard.get(hearer, {})
        caller = waiting.pop(call, 0)
        if not waiting:
            self.heard.pop(hearer, None)
        return caller

    def ended(self, hearer: int) -> Mapping[str, int]:
        """Stop waiting for an ended run; return its unanswered calls, each with the run that made it."""
        return self.heard.pop(hearer, {})


def unanswered(hearer: int) -> Failure:
    """The failure of a signal whose hearer ended without an answer."""
    return Failure("over", f"run {hearer} is over and has not answered")


DeliveredEvent = tuple[int, str]
"""A run (0: none), and the words that identify an event when it comes again."""

_ABOUT = ("call", "watch", "wake", "name", "run", "eid", "sender", "number")
"""The fields that say what an event, a job or a message is about; they are the same when it comes again."""


def event_key(run: int, event: object) -> DeliveredEvent:
    """The words that identify an event for a run: its type, and the call, watch or element it is about."""
    about = (getattr(event, field, None) for field in _ABOUT)
    return run, " ".join([type(event).__name__, *(str(part) for part in about if part is not None)])


class PoisonGuard:
    """The event that made a turn fail, and those no longer delivered because they did so twice."""

    def __init__(self) -> None:
        self.blamed: DeliveredEvent | None = None
        self.poisonous: frozenset[DeliveredEvent] = frozenset()

    def blame(self, run: int, event: object) -> None:
        """Record that a turn failed while this was delivered to a run."""
        self.blamed = event_key(run, event)

    def mark_poisonous(self, pieces: Iterable[DeliveredEvent]) -> None:
        """Stop delivering these events: their runs fail instead."""
        self.poisonous = frozenset(pieces)

    def reason(self, run: int, event: object) -> str:
        """The reason why an event is no longer delivered, as text; "" if it still is."""
        if not self.poisonous or (key := event_key(run, event)) not in self.poisonous:
            return ""
        return f"narval broke down twice on delivering this event, so it is no longer delivered: {key[1]}"


class EventQueue(deque[tuple[int, int, Event | Offer]]):
    """Events to deliver: the row they are stored under (0: none), the run (0: an offer), the event."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        super().__init__()
        self.waiters: deque[WatchKey] | None = None
        """The watches still to be told of the offer in front; None before its turn."""

    def put_first(self, run: int, event: Event) -> None:
        """Queue an event before those of this turn: runs that count on an element hear of its successor
        before others may take it (N45).
        """
        place = int(self.waiters is not None)
        while place < len(self) and self[place][0]:  # recorded events stand in front
            place += 1
        self.insert(place, (0, run, event))

    def wait_in_line(self, watches: deque[WatchKey] | None) -> None:
        """Set the watches still to be told of the offer in front."""
        self.waiters = watches
