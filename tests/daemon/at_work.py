"""A home on a disk that daemons work on, one after the other; each may be killed at any commit."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import pytest

from narval.agent import run as runs
from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.core.elements.element import Element, parse
from narval.core.engines.events import Returned
from narval.core.errors import NarvalError
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.store.batch import Batch
from narval.store.database import Database
from narval.system.clock import SimulatedClock

T = TypeVar("T")


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, run in an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **named: Any) -> None:
        asyncio.run(test(*args, **named))

    return run


class Killed(BaseException):
    """The daemon is no more: nothing it would do after this happens."""


class Scene:
    """A home, its clock, and the moment at which the daemon that works on it is killed."""

    def __init__(self, folder: Path, *, limit: int = 1000, settings: str = "") -> None:
        self.home = Home(folder)
        self.clock = SimulatedClock(1_000_000.0)
        for part in ("etc", "recipes", "modules", "data"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "etc/narval.toml").write_text(f"turn_limit = {limit}\n{settings}")
        self.commits = 0
        self.kill_at: tuple[int, bool] | None = None
        """The number of a commit, and whether it is written before the daemon is killed."""
        self.returned: set[str] = set()
        """The calls whose return is recorded."""
        self.alive: Daemon | None = None

    def write(self, path: str, text: str) -> None:
        """A file of the home."""
        file = self.home.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    async def open(self, *, record_only: bool = False) -> Daemon:
        """A daemon on the home."""
        self.alive = await Daemon.open(self.home, record_only=record_only, clock=self.clock)
        return self.alive

    async def end(self) -> None:
        """The daemon ends; if it was killed, its store was not closed well."""
        if self.alive is not None:
            daemon, self.alive = self.alive, None
            await daemon.close()

    async def passes(self, seconds: float, act: Callable[[Turn], object] | None = None) -> AgentState:
        """The agent of a new daemon that does what it is asked, and then has so much time pass."""
        daemon = await self.open()
        if act is not None:
            await daemon.host.submit(act)
        await daemon.main_loop.elapse(seconds)
        return daemon.agent

    async def passes_killed(
        self,
        kill_at: tuple[int, bool],
        first: Callable[[], Awaitable[AgentState]],
        then: Callable[[], Awaitable[AgentState]],
    ) -> AgentState:
        """What `first` gives, its daemon killed at that commit if it comes so far: then what `then` gives."""
        await self.end()
        self.commits, self.kill_at = 0, kill_at
        try:
            return await first()
        except Killed:
            await self.end()
            self.kill_at = None
            return await then()

    async def end_as_recorded(self) -> None:
        """The daemon ends, and the next one knows what it knew."""
        assert self.alive is not None
        known = portrait(self.alive.agent)
        await self.end()
        assert portrait((await self.open(record_only=True)).agent) == known
        await self.end()

    def kill(self, daemon: Daemon) -> None:
        """Nothing more is written."""
        daemon.store.refuse("killed")  # type: ignore[attr-defined]

    def commit(self, write: Any, store: Database, batches: tuple[Batch, ...]) -> None:
        """What stands in the place of `Database.commit`."""
        self.commits += 1
        if self.kill_at is None or self.commits != self.kill_at[0]:
            write(store, *batches)
            self._note(batches)
            return
        if self.kill_at[1]:
            write(store, *batches)
            self._note(batches)
        store.refuse("killed")
        raise Killed

    def _note(self, batches: tuple[Batch, ...]) -> None:
        for batch in batches:
            for advance in batch.journal:
                if isinstance(advance.event, Returned):
                    self.returned.add(advance.event.call)


@contextmanager
def watched_commits(scene: Scene) -> Iterator[None]:
    """Every commit of any daemon goes through the scene; snapshots are taken early."""
    write = Database.commit

    def commit(store: Database, *batches: Batch) -> None:
        scene.commit(write, store, batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "commit", commit)
        patch.setattr(runs, "SNAPSHOT_AFTER", 3)
        yield


async def told(story: Callable[[Scene], Awaitable[T]], scene: Scene, kill_at: tuple[int, bool] | None) -> T:
    """What a story comes to; where a kill ends it, it is told again from the beginning."""
    with watched_commits(scene):
        scene.kill_at = kill_at
        try:
            found = await story(scene)
        except (Killed, NarvalError):
            await scene.end()
            scene.kill_at = None
            found = await story(scene)
        await scene.end_as_recorded()
    return found


# --- what is compared -----------------------------------------------------------------------------------


def portrait(agent: AgentState, *, over: bool = True) -> dict[str, Any]:
    """All that an agent knows, to the number: what a restart must bring back.

    With `over`, runs that are over are rendered too, each from its journal.
    """
    memory = agent.memory
    elements = [eid for eid in memory if not memory.is_run(eid)]
    return {
        "elements": {eid: _of(memory.element(eid)) for eid in elements},
        "declared": dict(memory.declared),
        "outdated": set(memory.outdated),
        "withdrawn": dict(memory.withdrawn),
        "doubtful": set(memory.doubtful),
        "reserved": set(memory.reserved),
        "marks": {scope: dict(uses) for scope, uses in memory.marks.items() if uses},
        "labels": set(memory.labels.all()),
        "keys": set(memory.unique_values),
        "contexts": {run: held for run in memory.contexts.runs() if (held := set(memory.contexts.of(run)))},
        "next_eid": memory.next_eid,
        "runs": {
            run.eid: (run.name, run.status, run.phase, run.started, run.ended, run.attempt, run.error)
            for run in agent.runs.values()
        },
        "callers": {run.eid: _caller(agent, run) for run in agent.runs.active.values()},
        "states": {run.eid: run.state for run in agent.runs.active.values()},
        "calls": {run.eid: dict(run.calls) for run in agent.runs.active.values()},
        "watches": {run.eid: _plain(run.watches) for run in agent.runs.active.values()},
        "wakes": {run.eid: dict(run.wakes) for run in agent.runs.active.values()},
        "abandoned": {run.eid: set(run.abandoned) for run in agent.runs.active.values()},
        "kept": {run.eid: set(run.reserved) for run in agent.runs.active.values()},
        "waiting": len(agent.watches.index),
        "moments": sorted((at, key, repr(deed)) for at, key, deed in agent.clockwork.timers.waiting()),
        "queue": [(run, event) for _, run, event in agent.queue],
        "rendered": {eid: _of(memory.element(eid)) for eid in (agent.runs if over else agent.runs.active)},
        "children": {
            run: set(called) for run, called in agent.runs.children.items() if called and run in agent.runs
        },
        "by_call": dict(agent.runs.by_call),
    }


def outcome(agent: AgentState) -> dict[str, Counter[Any]]:
    """What it came to, whatever the numbers: elements by content, runs by state, marks, contexts."""
    memory = agent.memory
    text = {eid: _content(memory.element(eid)) for eid in memory if not memory.is_run(eid)}
    return {
        "elements": Counter(text.values()),
        "outdated": Counter(text[eid] for eid in memory.outdated),
        "withdrawn": Counter((text[eid], why) for eid, why in memory.withdrawn.items()),
        "doubtful": Counter(text[eid] for eid in memory.doubtful),
        "reserved": Counter(text[eid] for eid in memory.reserved),
        "marks": Counter(
            (scope, text[eid]) for scope, eids in memory.marks.items() for eid in eids if eid in text
        ),
        "labels": Counter((text[eid], label) for eid, label in memory.labels.all() if eid in text),
        "runs": Counter(
            (run.name, run.status, run.caller.step if run.caller else None) for run in agent.runs.values()
        ),
        "contexts": Counter(
            (run.name, text[eid])
            for run in agent.runs.values()
            for eid in memory.contexts.of(run.eid)
            if eid in text
        ),
    }


def _caller(agent: AgentState, run: Run) -> Any:
    """Who called; what was nearest there, too, while somebody waits for the answer."""
    caller = run.caller
    if caller is not None and caller.agent:  # the state has the rest
        return caller.agent, caller.call
    if caller is None or agent.runs.is_awaited(run):
        return caller
    return caller.run, caller.step, caller.call


def _of(element: Element | None) -> tuple[bytes, float, Any] | None:
    return None if element is None else (element.xml, element.added, element.origin)


def _plain(watches: Any) -> dict[str, Any]:
    return {
        name: ([bound.plain() for bound in watch.conditions], watch.scopes) for name, watch in watches.items()
    }


def _content(element: Element | None) -> str:
    assert element is not None
    root = parse(element.xml)
    for name in ("plan", "call", "start"):
        root.attrib.pop(name, None)
    text = "".join(str(part) for part in root.itertext())
    return f"{root.tag} {sorted(root.items())} {re.sub('[0-9]+', 'N', text)}"
