"""Answers calls: each goes to the backend that its target declares (N30, N33, N36)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextvars import copy_context

from narval.calls.backend import Announce, Counts, Outcome, Produced, RunningCall
from narval.calls.backends import Backends
from narval.calls.context import CallContext
from narval.calls.conversion import answer_at_once, answer_within
from narval.calls.places import Places
from narval.calls.programs.backend import ProgramBackend
from narval.core.errors import InternalError
from narval.files.settings import CallLimits
from narval.system.clock import Clock, RunClock, SimulatedClock, SystemClock
from narval.system.simulated_sleep import SimulatedSleeps

Done = Callable[[Outcome], None]


class Executor:
    """Answers calls. It is made and used on the thread of a running loop, and so are its callbacks.

    `programs` is the backend of programs, if not one that keeps nothing of their output; `zone` is whose
    calendar actions are told.
    """

    def __init__(
        self,
        limits: CallLimits | None = None,
        clock: Clock | None = None,
        programs: ProgramBackend | None = None,
        zone: str = "UTC",
    ) -> None:
        limits = limits or CallLimits()
        self._backends = Backends(asyncio.get_running_loop(), limits, programs)
        self._allowed = (limits.fetch_allow, limits.services)
        self.programs, self.places = self._backends.programs, Places(self._backends)
        self.troubles = self._backends.coroutines.troubles
        self._on_caught_up: Callable[[str], None] = _ignore
        self.clock = RunClock(clock or SystemClock(), zone)
        self._sleeps = SimulatedSleeps(clock) if isinstance(clock, SimulatedClock) else None
        self._calls: dict[str, tuple[RunningCall, Done]] = {}
        self._is_closing = False
        self._ended = asyncio.Event()

    def notify(self, on_caught_up: Callable[[str], None]) -> None:
        """Call `on_caught_up` with the id of each call that from now on waits for the world, or is over.

        A source waits that says that it has caught up, or a call that sleeps on a simulated clock.
        """
        self._on_caught_up = on_caught_up

    def start(
        self, call: CallContext, done: Done, produced: Produced, announce: Announce | None = None
    ) -> None:
        """Answer a call: `done` is called once; for an inline action, before this returns, if not announced.

        With `announce`, the call waits for room as any other, announces then that it is about to begin, and
        goes on when that is recorded. The elements a source yields go to `produced`, which returns when they
        are recorded. Once `close` has been called nothing is started: the call is left to recovery.
        """
        if self._is_closing:
            return
        where = call.target.where
        if where == "inline":
            if announce is None:
                done(answer_at_once(call))
            else:
                announce(lambda: done(answer_at_once(call)))
            return
        if call.id in self._calls:
            raise InternalError(f"the call {call.id} is under way already")
        listener = self._report if where == "source" else None
        sleeper = self._sleep if self._sleeps is not None else None
        call.attach(listener, sleeper, self.programs.commands)
        call.allow(*self._allowed)
        running = RunningCall(call, self._done, produced, announce, since=self.clock.now())
        self._calls[call.id] = (running, done)
        self.places.start(running)

    def at_once(self, call: CallContext) -> Outcome | None:
        """Answer an inline call that need not be announced (hot path, counted by test_work_counted).

        None where it is not answered at once: then `start` decides.
        """
        return None if self._is_closing else copy_context().run(answer_within, call)

    def find(self, call: str) -> RunningCall | None:
        """A call that was asked for and has no answer yet."""
        found = self._calls.get(call)
        return found[0] if found is not None else None

    def abandon(self, call: str) -> bool:
        """Give a call up: its outcome will say so. False when no such call is under way (any more)."""
        running = self.find(call)
        if running is None:
            return False
        # not at once, so that `done` is never called while the caller is still asking
        self._backends.loop.call_soon(self._abandon, running)
        return True

    async def end_former(self) -> None:
        """End the programs that a daemon before this one has left running."""
        await asyncio.to_thread(self.programs.reaper.end_former)

    async def close(self, grace: float = 0.0) -> None:
        """End: sources at once, other calls when they are done or after `grace` seconds.

        `done` is not called for calls that have not ended by then, nor for sources: they are left to
        recovery. So are calls that still wait for room.
        """
        self._is_closing = True
        for running, _ in list(self._calls.values()):
            if running.call.is_source or not running.begun:
                del self._calls[running.call.id]
                self.places.give_up(running)
        if grace > 0:
            await self._idle(grace)
        for running, _ in self._calls.values():
            running.discard()  # what is still being announced is not begun any more
        self._calls.clear()
        await self._backends.close()

    def limit(self, limits: CallLimits) -> None:
        """Keep to other limits from now on: calls under way go on, but fetch only what is granted now."""
        self._backends.limit(limits)
        self._allowed = (limits.fetch_allow, limits.services)
        for running, _ in self._calls.values():
            running.call.allow(*self._allowed)

    def renew(self) -> None:
        """Renew the workers, which may have imported modules that have changed, as soon as they are free."""
        self._backends.workers.renew()

    @property
    def counts(self) -> Counts:
        """The numbers of calls under way."""
        queued = self._backends.queued + self.places.queued
        given_up, restarts = self._backends.given_up, self._backends.workers.restarts
        return Counts(len(self._calls) - queued, queued, given_up, restarts)

    @property
    def progress(self) -> dict[str, tuple[float, float | None]]:
        """The last progress of calls under way that reported any: (done, total) by call."""
        reports = ((id, running.call.progressed) for id, (running, _) in self._calls.items())
        return {id: progressed for id, progressed in reports if progressed is not None}

    def caught_up(self, call: str) -> bool:
        """True if a call waits for the world, or for others that may: it is a source's that has caught up,
        sleeps on a simulated clock, or has no place yet among the calls of its agent.
        """
        if self._sleeps is not None and call in self._sleeps:
            return True
        running = self.find(call)
        return running is not None and (running.call.has_caught_up or self.places.has(running))

    def is_busy(self) -> bool:
        """True if some call may yet go on by itself: one that has caught up waits for the world."""
        return not all(self.caught_up(call) for call in self._calls)

    # --- for the owner of a simulated clock -----------------------------------------------------------

    def next(self) -> float | None:
        """The moment at which the next call that sleeps on a simulated clock is to be woken; or None."""
        return self._sleeps.next() if self._sleeps is not None else None

    def release(self) -> None:
        """Wake the calls whose moment has come."""
        if self._sleeps is not None:
            self._sleeps.wake()

    # --- inside ---------------------------------------------------------------------------------------

    async def _sleep(self, call: CallContext, seconds: float) -> None:
        """Let a call sleep on the simulated clock; one whose time limit comes first is over then."""
        sleeps, running = self._sleeps, self.find(call.id)
        if sleeps is None or running is None:
            raise asyncio.CancelledError  # it is over, and was told so once
        until = self.clock.now() + seconds
        limit = math.inf if call.timeout is None else running.since + call.timeout
        woken = sleeps.begin(call.id, min(until, limit))
        self._on_caught_up(call.id)
        try:
            await woken
        finally:
            sleeps.end(call.id)
        if limit < until:
            self._backends.coroutines.expire(running)
            await asyncio.sleep(0)  # it ends here: it was cancelled

    async def _idle(self, grace: float) -> None:
        """Wait until nothing runs that could end by itself."""
        loop = self._backends.loop
        end = loop.time() + grace
        while self.counts.running > 0 and (left := end - loop.time()) > 0:
            self._ended.clear()
            try:
                await asyncio.wait_for(self._ended.wait(), left)
            except TimeoutError:
                return

    def _done(self, running: RunningCall, outcome: Outcome) -> None:
        found = self._calls.pop(running.call.id, None)
        self.places.over(running)
        self._ended.set()
        if found is not None:
            found[1](outcome)
        self._on_caught_up(running.call.id)  # nobody else may be told, if its agent is not at work

    def _abandon(self, running: RunningCall) -> None:
        if not running.over and running.call.id in self._calls:
            self.places.give_up(running)

    def _report(self, call: CallContext) -> None:
        if call.has_caught_up:
            self._on_caught_up(call.id)


def _ignore(call: str) -> None:
    """Do nothing: `notify` has not been called."""
