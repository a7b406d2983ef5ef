"""The moments of an agent: its timers, jobs (work deferred to a moment without an active run), and what came
late; and the queues that find the next moment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from itertools import chain, count, islice
from typing import Any, Generic, TypeVar

import msgspec

from narval.core.memory.retention import IdleTracker
from narval.store.codec import read


class ForgetRun(msgspec.Struct, frozen=True, tag=True):
    """Forget an ended run, with what only it holds."""

    run: int


class StartRun(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Start a top-level run, after its back-off, on behalf of whoever started the first of them."""

    name: str
    """The full name of its definition."""
    elements: tuple[int, ...] = ()
    """The elements that it is given."""
    attempt: int = 0
    """The number of failures in a row before it."""
    by: str = ""
    """The person or program that started the first of them."""
    actor: str = ""
    """The program that did so in that person's name."""
    ancestors: dict[str, int] = {}
    """The runs it descends from by start-plan: the first for each definition."""
    hearsay: bool = False
    """The flag recorded before there were labels."""
    labels: tuple[str, ...] = ()
    """The labels of its cause."""
    laps: int = 0
    """The earlier starts of the definition in a row, each caused only by the one before."""
    slowed: str = ""
    """The version of its definition, if it starts late because of its `laps`; else ""."""
    circle: tuple[str, ...] = ()
    """The definitions that wake one another, if it is slowed because of what its runs use; () if they use
    nothing.
    """
    after: int = 0
    """The run that caused it; 0 if none did, or an older release recorded it."""


class GiveUpCall(msgspec.Struct, frozen=True, tag=True):
    """Stop waiting for another agent to confirm that it has given up a call."""

    run: int
    call: str


Job = ForgetRun | StartRun | GiveUpCall

_decode = msgspec.msgpack.Decoder(Job).decode


def encode_job(job: Job) -> bytes:
    """Encode a job for the store."""
    return msgspec.msgpack.encode(job)


def decode_job(data: bytes) -> Job:
    """Decode a job from the store. Raises UnreadableError."""
    job: Job = read("what is to be done at a moment", _decode, data)
    return job


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TimerQueue(Generic[Key, Value]):
    """Timers by key: the nearest moment is known at once, and any timer can be cancelled.

    The heap has each moment once, with all its keys: ten thousand runs that wait for seven o'clock are one
    entry. A moment without keys stays in the heap until it reaches the top, or until such leftovers are the
    majority. So every operation takes microseconds, however many timers there are.
    """

    def __init__(self) -> None:
        self._heap: list[float] = []
        self._groups: dict[float, dict[Key, None]] = {}
        self._live: dict[Key, tuple[float, Value]] = {}
        self._acts: dict[float, dict[Key, None]] = {}
        """By moment, the timers that do more than forget: few, in a home that forgets much."""
        self._come: list[tuple[float, Key]] = []
        """The keys of the moment now due that are not handed out yet, in reverse order."""

    def __len__(self) -> int:
        return len(self._live)

    @property
    def moments(self) -> int:
        """The number of moments in the heap, including those without keys."""
        return len(self._heap)

    def push(self, at: float, key: Key, value: Value) -> None:
        """Set a timer, replacing an earlier one under this key."""
        if key in self._live:
            self.discard(key)
        self._live[key] = (at, value)
        group = self._groups.get(at)
        if group is None:
            self._groups[at] = {key: None}
            heapq.heappush(self._heap, at)
        else:
            group[key] = None
        if value.__class__ is not ForgetRun:
            if at in self._acts:
                self._acts[at][key] = None
            else:
                self._acts[at] = {key: None}

    def discard(self, key: Key) -> None:
        """Cancel the timer under this key, if there is one."""
        live = self._live.pop(key, None)
        group = self._groups.get(live[0]) if live is not None else None
        if live is not None and group is not None:
            group.pop(key, None)
            if live[0] in self._acts and key in self._acts[live[0]]:
                del self._acts[live[0]][key]
                if not self._acts[live[0]]:
                    del self._acts[live[0]]
            if not group:
                del self._groups[live[0]]
                self._sweep()

    def next(self) -> float | None:
        """The nearest moment, or None."""
        come, heap = self._come, self._heap
        while come and not self._is_live(come[-1]):
            come.pop()
        if come:
            return come[-1][0]
        while heap and heap[0] not in self._groups:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def pop_due(self, now: float) -> tuple[float, Key, Value] | None:
        """Remove and return the next timer due by `now`, by time, then arrival; None if there is none."""
        at = self.next()
        if at is None or at > now:
            return None
        if not self._come:
            heapq.heappop(self._heap)
            self._come.extend((at, key) for key in reversed(self._groups.pop(at)))
            if at in self._acts:
                del self._acts[at]
        _, key = self._come.pop()
        return at, key, self._live.pop(key)[1]

    def due(self, key: Key) -> float | None:
        """The moment of the timer under a key; None if there is none."""
        live = self._live.get(key)
        return live[0] if live is not None else None

    def waiting(self) -> list[tuple[float, Key, Value]]:
        """All timers as (at, key, value), unordered."""
        return [(at, key, value) for key, (at, value) in self._live.items()]

    def soonest(self, most: int) -> list[tuple[float, Key, Value]]:
        """The nearest timers that do more than forget, in order, at most `most`."""
        near = (key for at in heapq.nsmallest(most, self._acts) for key in self._acts[at])
        come = (key for at, key in reversed(self._come) if self._is_live((at, key)))
        acts = (key for key in come if self._live[key][1].__class__ is not ForgetRun)
        keys = islice(acts, most), near
        return [(self._live[key][0], key, self._live[key][1]) for key in islice(chain(*keys), most)]

    def before(self, end: float, most: int) -> Iterator[tuple[float, Key, Value]]:
        """The timers before a moment in order, of at most `most` moments; they may change meanwhile."""
        for at in heapq.nsmallest(most, (at for at in self._groups if at < end)):
            for key in tuple(self._groups.get(at, ())):
                if (live := self._live.get(key)) is not None and live[0] == at:
                    yield at, key, live[1]

    def shift(self, by: float, moves: Callable[[Key, Value], bool]) -> None:
        """Move the timers for which `moves` is true by `by` seconds."""
        entries = self.waiting()
        self._heap, self._groups, self._live, self._acts = [], {}, {}, {}
        self._come.clear()
        for at, key, value in entries:
            self.push(at + by if moves(key, value) else at, key, value)

    def _is_live(self, come: tuple[float, Key]) -> bool:
        live = self._live.get(come[1])
        return live is not None and live[0] == come[0]

    def _sweep(self) -> None:
        if len(self._heap) > 2 * len(self._groups) + 64:
            self._heap = list(self._groups)
            heapq.heapify(self._heap)


class _Deadline(msgspec.Struct, order=True):
    """An entry of a heap of deadlines; its key is None once it is obsolete."""

    at: float
    number: int
    key: Any


class Deadlines(Generic[Key]):
    """Deadlines by key: one moment each, in seconds since 1970.

    The heap may hold obsolete entries: they are dropped when they reach the top, or are the majority. They
    have lost their key, so that no heap keeps a passive agent alive.
    """

    def __init__(self) -> None:
        self._heap: list[_Deadline] = []
        self._of: dict[Key, _Deadline] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._of)

    def at(self, key: Key) -> float | None:
        """The moment of a key, or None."""
        entry = self._of.get(key)
        return entry.at if entry is not None else None

    def put(self, key: Key, at: float | None) -> None:
        """Set the moment of a key, replacing an earlier one; None removes it."""
        before = self._of.pop(key, None)
        if before is not None:
            before.key = None
        if at is not None:
            entry = self._of[key] = _Deadline(at, next(self._order), key)
            heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._of) + 64:
            self._heap = list(self._of.values())
            heapq.heapify(self._heap)

    def next(self) -> float | None:
        """The nearest moment, or None."""
        heap = self._heap
        while heap:
            if heap[0].key is not None:
                return heap[0].at
            heapq.heappop(heap)
        return None

    def pop_due(self, now: float) -> Key | None:
        """Remove and return the next key due by `now`; None if there is none."""
        at = self.next()
        if at is None or at > now:
            return None
        key: Key = heapq.heappop(self._heap).key
        del self._of[key]
        return key


# --- what came late, and all moments of an agent --------------------------------------------------------

LATE_AFTER = 60.0
"""Seconds after its moment from which a timer counts as late."""

LATE_KEPT = 200
"""The most late moments that are kept, the newest."""


class LateMoment(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A moment of a part of a run that came late (M48): when it was due, when it came, and why.

    It is `dropped` if the run waits for the next date instead.
    """

    at: float
    came: float
    run: int
    name: str
    part: str = ""
    why: str = ""
    dropped: bool = False


_LATE = msgspec.json.Decoder(list[LateMoment])


class Clockwork:
    """The moments of an agent: timers and jobs by key, its calendar, and idle elements.

    The key of a timer is its run and name; that of a job is 0 and its identifier. `idle` is None if idle
    elements are not forgotten. `late` are the newest moments that came late; `fresh` is how many of them are
    not recorded yet.
    """

    def __init__(self, zone: str, since: float, forget_after: float | None) -> None:
        self.zone, self.since = zone, since
        self.timers: TimerQueue[tuple[int, str], Job | None] = TimerQueue()
        self.starts: dict[str, StartRun] = {}
        """The scheduled runs, by the identifier of their job: few among very many timers."""
        self.held: dict[str, StartRun] = {}
        """The scheduled runs that wait for no moment, but for their definition, a grant, or room."""
        self.idle = IdleTracker(forget_after) if forget_after is not None else None
        self.late: list[LateMoment] = []
        self.fresh = 0
        self._slept = False

    def plan(self, at: float | None, identifier: str, job: Job) -> None:
        """Schedule a job for a moment; None: a run that starts once `release` is called."""
        if at is not None:
            self.timers.push(at, (0, identifier), job)
        if isinstance(job, StartRun):
            self.starts[identifier] = job
            if at is None:
                self.held[identifier] = job

    def release(self, at: float, identifier: str) -> None:
        """Schedule a held run for a moment."""
        self.timers.push(at, (0, identifier), self.held.pop(identifier))

    def drop_start(self, identifier: str) -> None:
        """Drop a scheduled run."""
        self.starts.pop(identifier, None)
        self.held.pop(identifier, None)
        self.timers.discard((0, identifier))

    def next_moment(self) -> float | None:
        """The next moment at which something is due, or None."""
        idle = self.idle.next() if self.idle is not None else None
        due = self.timers.next()
        return due if idle is None else idle if due is None else min(due, idle)

    def interrupted(self, at: float) -> None:
        """Record that the agent has been running only since `at`: what was due before is missed."""
        self.since, self._slept = at, True

    def note_late(
        self, at: float, came: float, run: int, name: str, part: str = "", *, dropped: bool = False
    ) -> None:
        """Record a moment that came late."""
        if at >= self.since:
            why = "the daemon was busy"
        elif self._slept:
            why = "the machine slept, or the clock was set"
        else:
            why = "no daemon was running"
        self.late.append(LateMoment(at, came, run, name, part, why, dropped))
        del self.late[:-LATE_KEPT]
        self.fresh += 1

    def late_to_record(self) -> str:
        """The late moments, encoded for the store; they now count as recorded."""
        self.fresh = 0
        return msgspec.json.encode(self.late).decode()

    def recall_late(self, text: str) -> None:
        """Restore the late moments from the store; unreadable ones are dropped."""
        with suppress(msgspec.DecodeError):
            self.late.extend(_LATE.decode(text))

    def shift(self, by: float, lasts: Callable[[tuple[int, str], Job | None], bool]) -> None:
        """Move the ends of durations by a number of seconds: the clock was set."""
        self.timers.shift(by, lasts)
        if self.idle is not None:
            self.idle.shift(by)
