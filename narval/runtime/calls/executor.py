"""Calls of actions are answered here: each goes to the place its action declares (N30, N33, N36)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from narval.errors import InternalError
from narval.runtime.calls.backend import (
    Announce,
    Backend,
    Counts,
    Inputs,
    Outcome,
    Produced,
    RunningCall,
    Task,
)
from narval.runtime.calls.context import CurrentCall
from narval.runtime.calls.coroutines import Coroutines
from narval.runtime.calls.inline import answer_at_once
from narval.runtime.calls.programs.backend import ProgramBackend
from narval.runtime.calls.simulated_sleep import SimulatedSleeps
from narval.runtime.calls.threads import Threads
from narval.runtime.calls.workers.pool import Workers
from narval.runtime.home.settings import CallLimits
from narval.runtime.system.clock import Clock, SimulatedClock, SystemClock

__all__ = ["CallLimits", "Counts", "Executor", "Outcome", "Task"]

Done = Callable[[Outcome], None]


class Executor:
    """Answers calls. It is made and used on the thread of a running loop, and so is whatever it calls back.

    With `programs`, the backend of programs is made by the caller.
    """

    def __init__(
        self,
        limits: CallLimits | None = None,
        clock: Clock | None = None,
        programs: ProgramBackend | None = None,
    ) -> None:
        limits = limits or CallLimits()
        loop = asyncio.get_running_loop()
        self._threads = Threads(loop, limits.threads)
        self._workers = Workers(loop, limits)
        self._coroutines = Coroutines(loop, limits.patience)
        self.programs = programs or ProgramBackend(loop)
        self._places: dict[str, Backend] = {
            "thread": self._threads,
            "worker": self._workers,
            "transform": self._workers,
            "script": self._workers,
            "async": self._coroutines,
            "source": self._coroutines,
            "program": self.programs,
        }
        self._all: tuple[Backend, ...] = (self._threads, self._workers, self._coroutines, self.programs)
        self._loop = loop
        self._on_caught_up: Callable[[str], None] = _ignore
        self._clock = clock or SystemClock()
        self._naps = SimulatedSleeps(self._clock) if isinstance(clock, SimulatedClock) else None
        self._calls: dict[str, tuple[RunningCall, Done]] = {}
        self._is_closing = False
        self._ended = asyncio.Event()

    def notify(self, on_caught_up: Callable[[str], None]) -> None:
        """Call `on_caught_up` with the id of each call that from now on waits for the world.

        That is a source that says that it has caught up, or a call that sleeps on a simulated clock.
        """
        self._on_caught_up = on_caught_up

    def start(self, task: Task, done: Done, produced: Produced, announce: Announce | None = None) -> None:
        """Answer a call: `done` is called once; for an inline action, before this returns, if not announced.

        With `announce`, the call waits for its turn as any other, says then that it is about to be begun, and
        goes on when that is recorded. What a source yields goes to `produced`, which returns when it is
        recorded. Once `close` has been called nothing is started: the call is left to recovery.
        """
        if self._is_closing:
            return
        if task.where == "inline":
            current = CurrentCall(task.call, task.run, task.step, task.home, attempt=task.attempt)
            if announce is None:
                done(answer_at_once(task, task.inputs, current))
            else:
                announce(lambda: done(answer_at_once(task, task.inputs, current)))
            return
        if task.call in self._calls:
            raise InternalError(f"the call {task.call} is under way already")
        current = CurrentCall(
            task.call,
            task.run,
            task.step,
            task.home,
            attempt=task.attempt,
            is_source=task.where == "source",
            listener=self._heard if task.where == "source" else None,
            nap=self._nap if self._naps is not None else None,
        )
        work = RunningCall(task, current, self._done, produced, announce, since=self._clock.now())
        self._calls[task.call] = (work, done)
        self._places[task.where].start(work)

    def at_once(self, task: Task, inputs: Inputs, current: CurrentCall) -> Outcome | None:
        """Answer an inline call that need not be announced, without more ado: `task` is what all calls of its
        action have in common. None where it is not answered at once: then `start` decides.
        """
        return None if self._is_closing else answer_at_once(task, inputs, current)

    def abandon(self, call: str) -> bool:
        """Give a call up: its outcome will say so. False when no such call is under way (any more)."""
        found = self._calls.get(call)
        if found is None:
            return False
        work, _ = found
        # not at once, so that `done` is never called while the caller is still asking
        self._loop.call_soon(self._abandon, work)
        return True

    async def end_former(self) -> None:
        """End the programs that a daemon before this one has left running."""
        await asyncio.to_thread(self.programs.keeping.end_former)

    async def close(self, grace: float = 0.0) -> None:
        """End: sources at once, other calls when they are done or after `grace` seconds.

        `done` is not called for what has not ended by then, nor for sources: that is left to recovery. So are
        calls that still wait for a place.
        """
        self._is_closing = True
        for work, _ in list(self._calls.values()):
            if work.task.where == "source" or not work.begun:
                del self._calls[work.task.call]
                self._places[work.task.where].abandon(work)
        if grace > 0:
            await self._idle(grace)
        for work, _ in self._calls.values():
            work.over = work.over or not work.under_way  # what is still being announced is not begun any more
        self._calls.clear()
        for place in self._all:
            await place.close()

    def limit(self, limits: CallLimits) -> None:
        """Keep to other limits from now on: what is under way goes on."""
        self._threads.limit(limits.threads)
        self._workers.limit(limits)

    def renew(self) -> None:
        """Modules have changed: what has imported them is renewed as soon as it is free."""
        self._workers.renew()

    @property
    def counts(self) -> Counts:
        """How much is under way."""
        places = self._all
        queued = sum(place.queued for place in places)
        return Counts(
            running=len(self._calls) - queued,
            queued=queued,
            given_up=sum(place.given_up for place in places),
            worker_restarts=self._workers.restarts,
        )

    @property
    def progress(self) -> dict[str, tuple[float, float | None]]:
        """How far the calls under way are, of those that said so: (done, total) by call."""
        said = ((id, work.call.progressed) for id, (work, _) in self._calls.items())
        return {id: progressed for id, progressed in said if progressed is not None}

    @property
    def since(self) -> dict[str, float]:
        """When the calls under way were asked for, by call (seconds since 1970, UTC)."""
        return {id: work.since for id, (work, _) in self._calls.items()}

    def is_up_to_date(self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...]) -> bool:
        """Whether files that a program would create are there, and none that it needs is newer (A9)."""
        return self.programs.is_up_to_date(directory, creates, needs)

    def caught_up(self, call: str) -> bool:
        """Whether a call waits for the world: it is a source's that has caught up, or sleeps until somebody
        moves the clock.
        """
        if self._naps is not None and call in self._naps:
            return True
        found = self._calls.get(call)
        return found is not None and found[0].call.has_caught_up

    # --- what whoever moves the clock asks ------------------------------------------------------------

    def next(self) -> float | None:
        """When the next call wants to be woken, of those that sleep on a clock that somebody moves."""
        return self._naps.next() if self._naps is not None else None

    def release(self) -> None:
        """Wake the calls whose moment has come."""
        if self._naps is not None:
            self._naps.wake()

    # --- inside ---------------------------------------------------------------------------------------

    async def _nap(self, current: CurrentCall, seconds: float) -> None:
        """A call sleeps; one whose time limit comes first is over then."""
        naps, found = self._naps, self._calls.get(current.id)
        if naps is None or found is None:
            raise asyncio.CancelledError  # it is over, and was told so once
        work, _ = found
        until = self._clock.now() + seconds
        limit = math.inf if work.task.timeout is None else work.since + work.task.timeout
        nap = naps.begin(current.id, min(until, limit))
        self._on_caught_up(current.id)
        try:
            await nap
        finally:
            naps.end(current.id)
        if limit < until:
            self._coroutines.expire(work)
            await asyncio.sleep(0)  # it ends here: it was cancelled

    async def _idle(self, grace: float) -> None:
        """Wait until nothing runs that could end by itself."""
        end = self._loop.time() + grace
        while self.counts.running > 0 and (left := end - self._loop.time()) > 0:
            self._ended.clear()
            try:
                await asyncio.wait_for(self._ended.wait(), left)
            except TimeoutError:
                return

    def _done(self, work: RunningCall, outcome: Outcome) -> None:
        found = self._calls.pop(work.task.call, None)
        self._ended.set()
        if found is not None:
            found[1](outcome)

    def _abandon(self, work: RunningCall) -> None:
        if not work.over and work.task.call in self._calls:
            self._places[work.task.where].abandon(work)

    def _heard(self, current: CurrentCall) -> None:
        if current.has_caught_up:
            self._on_caught_up(current.id)


def _ignore(call: str) -> None:
    """Do nothing: `notify` has not been called."""
