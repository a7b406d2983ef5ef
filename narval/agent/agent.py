"""An agent: a memory, its runs, and what they wait for.

It is the unit of consistency: one memory, one writer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from narval.agent.lookup import Lookup
from narval.agent.pacing import Pacing
from narval.agent.request_keys import RequestKeys
from narval.agent.run import Run
from narval.agent.run_table import RunTable
from narval.agent.timers import Clockwork, Job
from narval.agent.waiting import EventQueue, Signals, Watches, WatchKey
from narval.core.definitions.library import Library
from narval.core.elements.canonical import MAX_BYTES
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Tree
from narval.core.engines.events import Matched, TimerFired
from narval.core.errors import InternalError
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound
from narval.files.agents.settings import AgentSettings, usable
from narval.files.settings import CurrentSettings
from narval.store.batch import Offer
from narval.store.memory import VolatileStore
from narval.store.rows import Damage
from narval.store.store import AgentStore

SEQUENCE_BLOCK = 4096
"""Numbers reserved at a time; after a crash, numbering continues behind them."""


class Numbers:
    """The numbers of journal lines, queued events and jobs: one sequence for the whole agent."""

    def __init__(self) -> None:
        self.last = self._set_aside = 0

    def resume(self, last: int) -> None:
        """Continue after a number."""
        self.last = self._set_aside = last

    def draw(self, count: int = 1) -> int:
        """Use `count` numbers, and return the last of them."""
        self.last += count
        return self.last

    def set_aside(self) -> int | None:
        """The end of a new block, to be recorded, if the last block is used up; else None."""
        if self.last <= self._set_aside:
            return None
        self._set_aside = self.last + SEQUENCE_BLOCK
        return self._set_aside


ONE_CALL = 10_000
"""The most elements that one call is assumed to give. A call that gives more can exceed a limit by them once.
"""

OVER_LIMIT = "over-limit"
"""The type of the error for an exceeded limit."""

_LIMITED = {
    "elements": "elements",
    "bytes": "bytes of elements",
    "runs": "active runs",
    "moments": "moments that are waited for",
}
"""The words for each limit, by its setting."""


class Free(NamedTuple):
    """The eids and bytes of memory below which no call can exceed a limit, so that nothing needs counting."""

    eids: int
    bytes: int

    @classmethod
    def within(cls, limits: AgentSettings) -> Free:
        """The eids and bytes of an agent with these limits."""
        is_usual = limits.element_bytes >= MAX_BYTES
        return cls(
            usable(limits.elements) - ONE_CALL, usable(limits.bytes) - 4 * MAX_BYTES if is_usual else -1
        )


class AgentState:
    """One memory, its runs, what they wait for, and their queued events.

    `store` is its part of the store (None: one in memory). `render` gives the XML of a run. `home` has the
    home's settings; `folder` is the home's folder (None: in memory). `zone` is the time zone of its calendar,
    `since` the moment from which it has run without a break. After `forget_after` seconds, idle elements are
    forgotten.
    """

    settings = AgentSettings()
    """Its settings, with the limits in force."""
    free = Free.within(settings)
    samples: Callable[[str], bool] | None = None
    """Return whether the trace of an id is exported; None if there are no traces."""

    def __init__(
        self,
        library: Library | None = None,
        render: Callable[[AgentState, Run], bytes] | None = None,
        *,
        store: AgentStore | None = None,
        home: CurrentSettings | None = None,
        folder: Path | None = None,
        zone: str = "UTC",
        since: float = 0.0,
        forget_after: float | None = None,
    ) -> None:
        self.store = store if store is not None else VolatileStore().of()
        self.memory = Memory()
        self.facts: dict[str, str] = {}
        """The small facts that the store keeps about it, by key."""
        self.request_keys = RequestKeys(self.facts)
        self.home = home = home or CurrentSettings()
        self.folder = "" if folder is None else str(folder)
        self.real_folder = os.path.realpath(self.folder)
        """The same with links followed; that of the program for a home in memory."""
        self.lookup = Lookup(library if library is not None else Library(), home)
        render_run = partial(render, self) if render is not None else _unseen
        self.runs = RunTable(self.memory, render_run, home)
        self.watches = Watches()
        self.clockwork = Clockwork(zone, since, forget_after)
        self.queue = EventQueue()
        self.signals = Signals()
        self.pacing = Pacing(self.memory, self.runs, self.clockwork, home)
        self.damage: list[Damage] = []
        """Damage of the store that concerns no single run, to be reported."""
        self.numbers = Numbers()

    @property
    def library(self) -> Library:
        """The current definitions."""
        return self.lookup.library

    def use_settings(self, settings: AgentSettings) -> None:
        """Apply other limits from now on."""
        self.settings, self.free = settings, Free.within(settings)

    def trace_by(self, samples: Callable[[str], bool]) -> None:
        """Record traces from now on, and export those that `samples` selects."""
        self.samples = samples

    def excess_of_elements(self, elements: Iterable[bytes]) -> str:
        """The limit of memory that elements would exceed, for people; "" if there is room for them."""
        sizes, limits, table = [len(xml) for xml in elements], self.settings, self.memory.elements
        if not sizes:
            return ""
        if (largest := max(sizes)) > limits.element_bytes:
            what = f"expected an element of at most {limits.element_bytes:,} bytes, got one of {largest:,}"
            return f"{what}; divide it, or set element_bytes higher in {self._where()}"
        if len(table) + len(sizes) > usable(limits.elements):
            return self._over("elements", len(table), limits.elements, len(sizes))
        if table.bytes + sum(sizes) > usable(limits.bytes):
            return self._over("bytes", table.bytes, limits.bytes, sum(sizes))
        return ""

    def excess_of_runs(self, more: int = 1) -> str:
        """The limit that `more` active runs would exceed, for people; "" if there is room for them."""
        used, most = len(self.runs.active), self.settings.runs
        return self._over("runs", used, most, more) if used + more > most else ""

    def excess_of_timers(self) -> str:
        """The limit that one more moment would exceed, for people; "" if there is room for it."""
        used, most = len(self.clockwork.timers), self.settings.moments
        return self._over("moments", used, most, 1) if used >= most else ""

    def _over(self, what: str, used: int, most: int, more: int) -> str:
        there = f"{used:,} of {most:,} {_LIMITED[what]} are there, and {more:,} more would be too many"
        return f"{there}; have some forgotten or ended, or set {what} higher in {self._where()}"

    @cached_property
    def _name(self) -> str:
        """Its name in the store; cached, since a turn may need it a thousand times and the store reads it."""
        return self.store.identity().name

    def _where(self) -> str:
        return "etc/narval.toml, [agent]" if self.store.is_own else f"agents/{self._name}/agent.toml"

    @property
    def option(self) -> str:
        """The option of commands that names this agent; "" for the home's own."""
        return "" if self.store.is_own else f" --agent {self._name}"

    def end_run(self, run: Run) -> None:
        """Drop everything that an ended run waits for."""
        self.runs.end(run)
        self._unregister(run)
        run.rest()

    def unwait(self, run: Run) -> None:
        """Drop everything that the run waits for."""
        self._unregister(run)
        run.wait_for_nothing()

    def _unregister(self, run: Run) -> None:
        for watch in run.watches:
            self.watches.remove(run.eid, watch)
        for wake in run.wakes:
            self.clockwork.timers.discard((run.eid, wake))

    def wait(self, run: Run) -> None:
        """Register everything that a restored run waits for."""
        memory = self.memory
        for watch in run.watches.values():
            self.watches.add(run.eid, watch)
        for timer in run.wakes.values():
            self.clockwork.timers.push(timer.at, (run.eid, timer.wake), None)
        memory.reserved.update(eid for eid in run.reserved if eid in memory and eid not in memory.outdated)

    def may_take(self, run: Run, event: Matched) -> bool:
        """False if the watch has been given up, or another run has taken the element."""
        watch = run.watches.get(event.watch)
        if watch is None:
            return False
        memory = self.memory
        if (watch.or_outdated or watch.elements) and (
            event.eid in memory.outdated or event.eid in memory.doubtful or event.eid not in memory
        ):
            return True
        if event.eid in memory.doubtful:
            asking = zip(watch.conditions, watch.scopes, strict=False)
            return any(bound.asks_doubtful and memory.is_available(event.eid, of) for bound, of in asking)
        return any(map(memory.is_available, repeat(event.eid), watch.scopes))

    def clock_was_set(self, by: float) -> None:
        """Shift the ends of durations; recompute dates if the clock was set back."""
        for run in self.runs.active.values():
            for wake, command in run.wakes.items():
                if not command.calendar:
                    run.wakes[wake] = replace(command, at=command.at + by)
        self.clockwork.shift(by, self._lasts)
        if by < 0:
            self.work_dates_out_anew()

    def work_dates_out_anew(self) -> None:
        """Fire the timers of dates early: the clock was set back, or the time zone has changed."""
        for run in self.runs.active.values():
            for wake in [wake for wake, command in run.wakes.items() if command.calendar]:
                del run.wakes[wake]
                self.clockwork.timers.discard((run.eid, wake))
                self.queue.append((0, run.eid, TimerFired(0, 0.0, wake)))

    def _lasts(self, key: tuple[int, str], job: Job | None) -> bool:
        """True if a moment ends a duration; False for a date."""
        run = self.runs.active.get(key[0])
        command = run.wakes.get(key[1]) if run is not None else None
        return command is None or not command.calendar


def _unseen(run: Run) -> bytes:
    raise InternalError(f"expected an agent that can render run {run.eid}, got one made without `render`")


# --- the watches to which elements are offered --------------------------------------------------------------


def is_open(agent: AgentState, offer: Offer) -> bool:
    """False for an element that no run may take now. A reserved element is offered again when it is released;
    a replaced one has its own offer.
    """
    return offer.gone or agent.memory.is_available(offer.eid, None)


def watching(agent: AgentState, offer: Offer, tree: Tree) -> Iterable[WatchKey]:
    """The watches to which an element is offered."""
    return _missing(agent, tree) if offer.gone else agent.watches.index.wakes(tree)


def _missing(agent: AgentState, tree: Tree) -> Iterable[WatchKey]:
    """The watches to notify that an element was replaced."""
    return agent.watches.watchers_of_gone(
        tree,
        lambda wish: not (wish.unless_reserved and _will_come(agent.memory, wish.conditions, wish.scopes)),
    )


def _will_come(memory: Memory, conditions: tuple[Bound, ...], scopes: tuple[MarkScope | None, ...]) -> bool:
    """True if each condition has a reserved element, which is offered when it is released; or if there is one
    condition, and an element about to be offered fits it.
    """
    if len(conditions) == 1 and any(True for _ in memory.matching(conditions[0], scopes[0])):
        return True
    return all(map(memory.reserved_for, conditions, scopes))
