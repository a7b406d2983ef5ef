"""An agent: a memory, its runs, and who waits for what.

It is the unit of consistency (§ "Growing past one machine").
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from msgspec.structs import replace

from narval.definitions.library import Library
from narval.definitions.process.code import Code
from narval.engines.commands import Watch
from narval.engines.events import Event, Plain, TimerFired
from narval.errors import InternalError
from narval.memory.elements.element import Element
from narval.memory.index.index import Index
from narval.memory.memory import Memory
from narval.memory.retention import IdleTracker
from narval.runtime.agent.jobs import Job
from narval.runtime.agent.run import Run
from narval.runtime.agent.timers import TimerQueue
from narval.runtime.store.damage import Damage

PROCESS = "process"
"""The kind of runs, and of definitions, that may nest others of them (section 9)."""

MOST_FAILURES = 100
"""So many of the runs that failed are known by when they did."""

MOST_DRAWN = 1000
"""Elements of runs that are over which are kept rendered."""


Ask = Callable[["Run", str, Mapping[str, Plain], float], Plain]

WatchKey = tuple[int, str]
"""A run, and a watch it has set."""


class AgentState:
    """One memory, its runs, what they wait for, and the events that are queued for them."""

    def __init__(self, library: Library | None = None) -> None:
        self.memory = Memory()
        self.library = library if library is not None else Library()
        self.runs: dict[int, Run] = {}
        self.active: dict[int, Run] = {}
        self.by_call: dict[str, int] = {}
        """The run that answers a call: call id to eid, while it is active."""
        self.children: dict[int, dict[int, None]] = {}
        self.unreadable: dict[int, str] = {}
        """Active runs that the store could not give back, and why: they fail in the next turn."""
        self.damage: list[Damage] = []
        """What else the store could not give back."""
        self.index: Index[WatchKey] = Index()
        self.timers: TimerQueue[tuple[int, str], Job | None] = TimerQueue()
        """By run and wake; those of no run (0) have a deed."""
        self.queue: deque[tuple[int, int, Event]] = deque()
        """Events still to be told: the row they are stored under (0: none), the run, the event.

        For run 0 it is an offer: the element of a `Matched` is for all who wait for such a one by then.
        """
        self.waiters: deque[WatchKey] | None = None
        """Those who have yet to be told of the first offer in the queue; None before it is their turn."""
        self.outdated_watchers: dict[WatchKey, None] = {}
        """Watches that are told, too, when an element that fits is replaced."""
        self.render: Callable[[int], Element] = _unseen
        """Makes the element of a run."""
        self.asking: Ask | None = None
        """Who answers what an engine asks the user's code while it decides."""
        self._listeners: tuple[Library, Mapping[str, int]] | None = None
        self.rendered: OrderedDict[int, None] = OrderedDict()
        """Runs that are over and whose element is kept rendered, the one looked at last at the end."""
        self.idle: IdleTracker | None = None
        """Since when elements are idle, where the home forgets such."""
        self.zone = "UTC"
        """The zone of its calendar."""
        self.since = 0.0
        """Since when it has been at work without a break."""
        self.latest = 0.0
        """The latest moment that was recorded of a run before this agent was at work."""
        self.history_entries = 10_000
        """So many entries a long run keeps of its history."""
        self.counts: Counter[tuple[str, str]] = Counter()
        """How many runs there are, by kind and phase."""
        self._failures: deque[int] = deque(maxlen=MOST_FAILURES)
        self.is_up_to_date: Callable[[str, tuple[str, ...], tuple[str, ...]], bool] = _never
        """Whether files, which programs of its home would create in a folder, are there and new enough."""
        self.sequence = 0
        """The number of the last thing in the journal."""

    def use(self, library: Library) -> None:
        """Let the definitions of `library` be the current ones."""
        self.library = library

    def keep_history(self, entries: int) -> None:
        """Let a long run keep so many entries of its history."""
        self.history_entries = entries

    def next_moment(self) -> float | None:
        """When something is due, or None."""
        idle = self.idle.next() if self.idle is not None else None
        due = self.timers.next()
        return due if idle is None else idle if due is None else min(due, idle)

    def clock_was_set(self, by: float) -> None:
        """What lasts is over when it would have been; dates may be others, if the clock was set back."""
        for run in self.active.values():
            for wake, command in run.wakes.items():
                if not command.calendar:
                    run.wakes[wake] = replace(command, at=command.at + by)
        self.timers.shift(by, self._lasts)
        if self.idle is not None:
            self.idle.shift(by)
        if by < 0:
            self.work_dates_out_anew()

    def work_dates_out_anew(self) -> None:
        """Whoever waits for a date is told early: the clock was set back, or the zone is another."""
        for run in self.active.values():
            for wake in [wake for wake, command in run.wakes.items() if command.calendar]:
                del run.wakes[wake]
                self.timers.discard((run.eid, wake))
                self.queue.append((0, run.eid, TimerFired(0, 0.0, wake)))

    def _lasts(self, key: tuple[int, str], deed: Job | None) -> bool:
        """Whether a moment is the end of a length of time, and not a date."""
        run = self.active.get(key[0])
        command = run.wakes.get(key[1]) if run is not None else None
        return command is None or not command.calendar

    def definition(self, run: Run | None, kind: str, name: str) -> Any:
        """The version that counts for a run: that of its library, else the current one.

        A process may be named without its group, and one that is nested in another is always current.
        """
        if kind == PROCESS:
            return self._process(run, name)
        if run is not None and run.library is not None:
            known = run.library.get(kind, name)
            if known is not None:
                return known
        return self.library.get(kind, name)

    def _process(self, run: Run | None, name: str) -> Any:
        """The process of a name, if it can be but one (section 9)."""
        kept = run.library if run is not None and run.kind != PROCESS else None
        group = run.definition.group if run is not None and run.kind == PROCESS else ""
        for library in (kept, self.library):
            called = library.called(PROCESS, name, group) if library is not None else ()
            if len(called) == 1:
                return called[0]
        return None

    def add_run(self, run: Run) -> None:
        """A run begins to be known, and to be seen in memory (N2)."""
        self.runs[run.eid] = run
        self.counts[run.kind, run.phase] += 1
        if run.phase == "failed":
            self._failures.append(run.eid)
        if run.active:
            self.active[run.eid] = run
        if run.caller is not None:
            self.children.setdefault(run.caller.run, {})[run.eid] = None
            if run.active:
                self.by_call[run.caller.call] = run.eid
        self.memory.show_run(run.eid, run.kind, self.render)

    def listeners(self, run: Run | None) -> Mapping[str, int]:
        """Who hears of every process, in the versions that count for a run: the bits of events by name."""
        library = (run.library if run is not None else None) or self.library
        if self._listeners is None or self._listeners[0] is not library:
            masks = {
                each.name: each.mask
                for each in library.of("listener").values()
                if isinstance(each, Code) and each.everywhere
            }
            self._listeners = library, masks
        return self._listeners[1]

    def end_run(self, run: Run) -> None:
        """A run is over: it waits for nothing any more."""
        if self.active.pop(run.eid, None) is not None:
            self.counts[run.kind, "active"] -= 1
            self.counts[run.kind, run.phase] += 1
            if run.phase == "failed":
                self._failures.append(run.eid)
        run.library = None
        self.unreadable.pop(run.eid, None)
        if run.caller is not None:
            self.by_call.pop(run.caller.call, None)
        self.unwait(run)

    def watch(self, run: Run, command: Watch) -> None:
        """A run waits for an element."""
        run.watches[command.watch] = command
        key = (run.eid, command.watch)
        for bound in command.conditions:
            self.index.add(key, bound)
        if command.or_outdated:
            self.outdated_watchers[key] = None

    def unwatch(self, run: Run, watch: str) -> None:
        """A run waits for it no more."""
        if run.watches.pop(watch, None) is not None:
            self.index.discard((run.eid, watch))
            self.outdated_watchers.pop((run.eid, watch), None)

    def unwait(self, run: Run) -> None:
        """Drop all that the run waits for."""
        for watch in list(run.watches):
            self.unwatch(run, watch)
        for wake in run.wakes:
            self.timers.discard((run.eid, wake))
        run.wakes.clear()
        run.calls.clear()
        run.abandoned.clear()

    def cache_rendered(self, run: Run) -> None:
        """The element of a run that is over was rendered: keep so many, for who looks at them again."""
        self.rendered[run.eid] = None
        self.rendered.move_to_end(run.eid)
        if len(self.rendered) > MOST_DRAWN:
            oldest, _ = self.rendered.popitem(last=False)
            if oldest in self.runs:
                self.runs[oldest].shown = None

    def remove_run(self, eid: int) -> None:
        """A run is forgotten."""
        run = self.runs.pop(eid, None)
        if run is None:
            return
        self.memory.hide_run(eid, run.kind)
        self.counts[run.kind, run.phase] -= 1
        self.children.pop(eid, None)
        if run.caller is not None:
            siblings = self.children.get(run.caller.run, {})
            siblings.pop(eid, None)
            if not siblings:
                self.children.pop(run.caller.run, None)

    def innermost(self, eid: int) -> int:
        """Of those a run called, directly or not, one that is over and called none that is; or itself."""
        while True:
            called = (child for child in self.children.get(eid, ()) if not self.runs[child].active)
            child = next(called, None)
            if child is None:
                return eid
            eid = child

    def is_over_within(self, top: int, eid: int) -> bool:
        """Whether a run is over, and is this one or was called by it, directly or not."""
        run = self.runs.get(eid)
        if run is None or run.active:
            return False
        while run is not None and run.eid != top:
            run = self.runs.get(run.caller.run) if run.caller is not None else None
        return run is not None

    def top(self, run: Run) -> int:
        """The top-level run that a run belongs to, or the farthest caller that is still known."""
        while run.caller is not None and (caller := self.runs.get(run.caller.run)) is not None:
            run = caller
        return run.eid

    def lately_failed(self, most: int) -> list[Run]:
        """Runs that failed and are not forgotten, the latest first."""
        found = (self.runs[eid] for eid in reversed(self._failures) if eid in self.runs)
        return list(islice(found, most))

    def lent(self) -> set[int]:
        """The elements that calls not back were given: a call that is tried again needs them (N5)."""
        lent = {
            eid
            for run in self.active.values()
            for call in run.calls.values()
            for _, eids in call.inputs
            for eid in eids
        }
        return lent.union(*(wake.keeps for run in self.active.values() for wake in run.wakes.values()))

    def awaited(self, run: Run) -> bool:
        """Whether somebody waits for the run: a top-level run belongs to itself."""
        if run.caller is None:
            return True
        caller = self.active.get(run.caller.run)
        return caller is not None and run.caller.call in caller.calls


def _unseen(run: int) -> Element:
    """Nobody has said yet how runs are seen."""
    raise InternalError(f"expected run {run} to be seen after its agent has been restored, got it before")


def _never(directory: str, creates: tuple[str, ...], needs: tuple[str, ...]) -> bool:
    """Nobody has programs here."""
    return False
