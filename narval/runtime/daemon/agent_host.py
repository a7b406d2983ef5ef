"""Agent host: one agent at work, turn after turn; it sleeps while there is nothing to do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from narval.errors import DaemonGoneError, InternalError, NarvalError, RequestError, StoreError
from narval.memory.elements.error_element import read_error
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.jobs import ForgetRun, Job
from narval.runtime.agent.loop import Delivery, Loop, Request
from narval.runtime.agent.run import Run
from narval.runtime.agent.turn import Turn
from narval.runtime.calls.dispatcher import Dispatcher
from narval.runtime.calls.executor import Executor
from narval.runtime.daemon.bell import Bell
from narval.runtime.daemon.committer import Committer
from narval.runtime.daemon.stop import Stop
from narval.runtime.daemon.waiters import Waiters, future, settle
from narval.runtime.system.clock import SimulatedClock

log = logging.getLogger("narval.daemon")

MOST_LOGGED = 1_000
"""So many characters of an error's message are in the log."""

SLICE = 0.005
"""Seconds the loop works at most before it looks at sockets and finished calls."""

ROUNDS = 3
"""Rounds of the event loop in which a request is read, handled and answered."""

FAILED_KEPT = 1000
"""So many failed runs are remembered for the summary of a time of work."""


class Summary(NamedTuple):
    """A time of work: the runs that failed in it, and when what will begin again or be resumed (`later`)."""

    idle: bool
    timed_out: bool
    failed: list[Run]
    later: list[tuple[float, tuple[int, str], Job | None]]


class AgentHost:
    """One agent at work: its loop decides turns, the committer records them, the dispatcher performs them.

    Work goes on only while one of `work_until`, `run`, `until_idle`, `elapse` is awaited, or `submit` and
    `ended` while none of them is; no two of the former at once.
    """

    def __init__(
        self,
        loop: Loop,
        executor: Executor,
        dispatcher: Dispatcher,
        committer: Committer,
        stop: Stop,
        bell: Bell,
    ) -> None:
        self.loop, self.executor, self.dispatcher, self.stop = loop, executor, dispatcher, stop
        self._committer, self._bell = committer, bell
        self._waiters = Waiters()
        self._failed: deque[Run] = deque(maxlen=FAILED_KEPT)
        self._is_at_work = False
        self._is_expecting: Callable[[], bool] = lambda: False

    @property
    def agent(self) -> AgentState:
        """The agent that is at work."""
        return self.loop.agent

    def expect(self, is_expecting: Callable[[], bool]) -> None:
        """Do not count as idle while `is_expecting` says that something new may come by itself."""
        self._is_expecting = is_expecting

    def post(self, item: Delivery | Request) -> None:
        """Leave something for the next turn."""
        self.loop.intake.post(item)
        self._bell.ring()

    def wake(self) -> None:
        """Look again whether there is something to do, or whether it is over."""
        self._bell.ring()

    async def submit(self, work: Callable[[Turn], Any]) -> Any:
        """Do something within a turn; its result once the turn is recorded. Raises what `work` raises."""
        answer = future()
        self.post(Request(work, partial(settle, answer)))
        if not self._is_at_work:
            await self.work_until(answer.done)
        return await answer

    async def recorded(self) -> None:
        """Wait until what memory shows is recorded. Raises the StoreError of a commit that failed."""
        await self._committer.recorded()

    async def ended(self, run: Run, timeout: float | None = None) -> None:
        """Wait until a run is over, or for so many seconds."""
        if not run.active:
            return
        end = self._waiters.end_of(run.eid)
        if self._is_at_work:
            await asyncio.wait([end], timeout=timeout)
        else:
            deadline = time.monotonic() + timeout if timeout is not None else None
            await self.work_until(lambda: end.done() or self.is_stopped(), deadline=deadline)
        self._waiters.no_longer(run.eid, end)
        if end.done():
            end.result()

    async def turned(self, wait: float) -> float:
        """Wait for the next turn; the seconds that are left of `wait`."""
        began = time.monotonic()
        await self._waiters.turn(wait)
        return max(0.0, wait - (time.monotonic() - began))

    def is_idle(self) -> bool:
        """True if nothing can go on without something from outside."""
        if self.loop.has_work() or self._is_expecting():
            return False
        return self.stop.calls_are_over if self.stop.requested else not self.dispatcher.busy()

    def is_stopped(self) -> bool:
        """True once calls have had their time, and what came of them is recorded."""
        return self.stop.calls_are_over and (not self.loop.has_work() or self.stop.is_overdue)

    # --- working --------------------------------------------------------------------------------------

    async def run(self, *, until_idle: bool = False, timeout: float | None = None) -> Summary:
        """Work until stopped, or idle, or out of time (seconds). Raises StoreError."""
        deadline = time.monotonic() + timeout if timeout is not None else None
        self._failed.clear()

        def is_over() -> bool:
            return self.is_stopped() or (until_idle and self.is_idle())

        await self.work_until(is_over, deadline=deadline)
        moments = self.agent.clockwork.timers.waiting()
        waiting = (moment for moment in moments if not isinstance(moment[2], ForgetRun))
        later = sorted(waiting, key=lambda moment: moment[:2])
        timed_out = _is_past(deadline) and not is_over()
        return Summary(self.is_idle(), timed_out, list(self._failed), later)

    async def until_idle(self) -> None:
        """Work until nothing can go on by itself, or the agent is stopped."""
        await self.work_until(lambda: self.is_stopped() or self.is_idle())

    async def elapse(self, seconds: float) -> None:
        """Let simulated time pass: each moment on the way comes in order."""
        clock = self.loop.clock
        if not isinstance(clock, SimulatedClock):
            raise RequestError("expected a home opened with a SimulatedClock, got one on real time")
        target = clock.now() + seconds
        await self.until_idle()
        while (due := self._next_moment()) is not None and due <= target:
            clock.set(max(due, clock.now()))
            await self.until_idle()
        clock.set(target)
        await self.until_idle()

    async def work_until(self, is_over: Callable[[], bool], *, deadline: float | None = None) -> None:
        """Make turns while there is work, sleep while there is none, until `is_over` or the deadline.

        `is_over` is asked between turns and whenever the bell rings; `deadline` is in monotonic seconds.
        """
        if self._is_at_work:
            raise RequestError("the home is at work already; ask it from within its own event loop")
        if self.loop.intake.gone is not None:
            raise self.loop.intake.gone
        self._is_at_work = True
        since = time.monotonic()
        try:
            while True:
                self.executor.release()
                if is_over() or _is_past(deadline):
                    break
                if self.loop.has_work():
                    await self._turn()
                    if time.monotonic() - since < SLICE:
                        continue
                    for _ in range(ROUNDS):
                        await asyncio.sleep(0)
                else:
                    await self._bell.wait(self.agent.clockwork.next_moment(), deadline)
                since = time.monotonic()
        finally:
            self._is_at_work = False

    def give_up(self, error: NarvalError) -> None:
        """Make no more turns, and answer all who wait for one with `error`."""
        self.loop.intake.close(error)
        self._waiters.give_up(error)

    async def _turn(self) -> None:
        """Make one turn; when it breaks down there is none after it, for memory may be ahead of the store."""
        try:
            turn = self.loop.decide()
            under_way = self._committer.commit(turn)
            if under_way is not None:
                await under_way
            self.loop.perform(turn)
        except StoreError as error:
            self._break_down(error)
            raise
        except Exception as error:
            log.exception("a turn broke down")
            broken = InternalError(f"the daemon broke down: {error!r}; its log says where")
            self._break_down(broken)
            raise broken from error
        except BaseException:
            self._break_down(DaemonGoneError("the daemon was stopped at once"))
            raise
        for run in turn.transaction.ended:
            run.release_state()
            if run.phase == "failed":
                self._failed.append(run)
                self._log_failure(run)
            self._waiters.over(run.eid)
        self._waiters.turned()
        if turn.transaction.quit:
            self.stop.request()

    def _log_failure(self, run: Run) -> None:
        element = self.agent.memory.element(run.error) if run.error is not None else None
        kind, message, step = read_error(element) if element is not None else ("failed", "", "")
        where = f" in step {step}" if step else ""
        said = f"run {run.eid} of {run.name} failed{where}: {kind}: {message[:MOST_LOGGED]}"
        if run.caller is None:
            log.warning("%s; `narval why %d` tells more", said, run.eid)
        else:
            log.info("%s", said)

    def _break_down(self, error: NarvalError) -> None:
        """Perform nothing of the turn, and answer all that wait with `error`."""
        self.dispatcher.stop()
        log.critical("%s", error)
        self.give_up(error)

    def _next_moment(self) -> float | None:
        """The next moment at which something is due: to a run, or to a call asleep on a simulated clock."""
        due = (self.agent.clockwork.next_moment(), self.executor.next())
        return min((moment for moment in due if moment is not None), default=None)


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
