"""The main loop: makes rounds while there is work, and sleeps while there is none."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.timers import ForgetRun, Job
from narval.calls.book import CallBook
from narval.calls.context import CallContext
from narval.core.errors import FencedError, RequestError, StoreAwayError
from narval.daemon.rounds import Bell, Rounds
from narval.daemon.start_and_stop import Stop
from narval.system.clock import SimulatedClock

log = logging.getLogger("narval.daemon")

SLICE = 0.005
"""Seconds for which rounds may keep the event loop from sockets and ended calls."""

STUCK = 5.0
"""Seconds from which a round counts as slow: in that time nothing was answered, or nothing recorded."""

LONG = 10.0
"""Seconds after which a wait until idle reports the calls that it waits for."""

_MOST_TOLD = 5

YIELDS = 3
"""Turns of the event loop in which a request is read, handled and answered."""


class Later(NamedTuple):
    """A moment (seconds since 1970) at which a run begins again or is resumed, and the agent of the run."""

    at: float
    agent: AgentState
    key: tuple[int, str]
    job: Job | None


class Summary(NamedTuple):
    """The result of a period of work, and the runs that will begin again or be resumed."""

    idle: bool
    timed_out: bool
    later: list[Later]


class Numbers:
    """Counters of a daemon's work since its start, kept where it is done: each costs an assignment."""

    __slots__ = ("busy", "ended", "refused", "slow")

    def __init__(self) -> None:
        self.busy = 0.0
        """The seconds spent deciding, recording and performing turns."""
        self.ended: Counter[tuple[str, str]] = Counter()
        """The runs that ended, by definition and phase."""
        self.refused: Counter[tuple[str, int]] = Counter()
        """The refused calls of webhooks, by webhook and status of the answer."""
        self.slow: tuple[float, float] | None = None
        """The last round of `STUCK` seconds or longer: its end (seconds since 1970), and its duration in
        seconds.
        """

    def add(self, seconds: float, now: float) -> None:
        """Count a period of work that has ended."""
        self.busy += seconds
        if seconds >= STUCK:
            self.slow = now, seconds


class MainLoop:
    """The work of a daemon. It proceeds only while one of `work_until`, `run`, `until_idle`, `elapse` is
    awaited; no two of them at once.
    """

    def __init__(self, rounds: Rounds, calls: CallBook, stop: Stop, bell: Bell) -> None:
        self.rounds, self.calls, self.stop = rounds, calls, stop
        self.is_at_work = False
        self.since = rounds.clock.now()
        self.numbers = Numbers()
        self.on_end: list[Callable[[Any, Run], None]] = []
        """The functions that are called for each run that has failed, and each ended item that asked for a
        grant, with the host of its agent.
        """
        self._bell = bell
        self.wake = bell.ring
        """Check again whether there is something to do, or whether the work has ended."""
        self._expecting: list[Callable[[], bool]] = []
        self._tell: Callable[[str], None] = log.warning
        self._waits_since: float | None = None
        self._look: asyncio.TimerHandle | None = None
        """The next look at how long a wait lasts: one timer for many short waits, which each cost none."""

    def expect(self, is_expecting: Callable[[], bool]) -> None:
        """Do not count as idle while `is_expecting()`: something new may come without a request."""
        self._expecting.append(is_expecting)

    def tell_long_waits(self, tell: Callable[[str], None]) -> None:
        """Call `tell` instead of logging the calls that a wait until idle of `LONG` seconds waits for."""
        self._tell = tell

    def is_idle(self) -> bool:
        """True if nothing can proceed without an event from outside."""
        if self.rounds.is_due() or any(is_expecting() for is_expecting in self._expecting):
            return False
        if self.stop.requested:
            return self.stop.calls_are_over
        return next(self.calls.busy(), None) is None

    def is_stopped(self) -> bool:
        """True once calls have had their time, and their outcomes are recorded."""
        return self.stop.calls_are_over and (not self.rounds.is_due() or self.stop.is_overdue)

    def _is_at_rest(self) -> bool:
        """True if nothing can proceed by itself, or the daemon is stopped."""
        if not self.stop.requested and self.rounds.is_due():
            return False
        return self.is_stopped() or self.is_idle()

    async def run(self, *, until_idle: bool = False, timeout: float | None = None) -> Summary:
        """Work until stopped, or idle, or out of time (seconds). Raises StoreError."""
        deadline = time.monotonic() + timeout if timeout is not None else None

        def is_over() -> bool:
            return self.is_stopped() or (until_idle and self.is_idle())

        work = self._work_until_idle if until_idle else self.work_until
        await work(is_over, deadline=deadline)
        timed_out = _is_past(deadline) and not is_over()
        return Summary(self.is_idle(), timed_out, self._later())

    async def until_idle(self) -> None:
        """Work until nothing can proceed by itself, or the daemon is stopped."""
        await self._work_until_idle(self._is_at_rest)

    async def _work_until_idle(self, is_over: Callable[[], bool], *, deadline: float | None = None) -> None:
        """Work as `work_until` does, and tell once what a wait of `LONG` seconds waits for."""
        self._waits_since = time.monotonic()
        if self._look is None:
            self._look_in(LONG)
        try:
            await self.work_until(is_over, deadline=deadline)
        finally:
            self._waits_since = None

    def _look_in(self, seconds: float) -> None:
        self._look = asyncio.get_running_loop().call_later(seconds, self._look_at_wait)

    def _look_at_wait(self) -> None:
        self._look = None
        if self._waits_since is None:
            return
        if (left := self._waits_since + LONG - time.monotonic()) > 0:
            self._look_in(left)
        else:
            self._tell_long_wait()

    def _tell_long_wait(self) -> None:
        is_simulated = self.rounds.clock.is_simulated
        calls = [_waited_for(record.call, is_simulated=is_simulated) for record in self.calls.busy()]
        if calls:
            more = f", and {len(calls) - _MOST_TOLD} calls more" if len(calls) > _MOST_TOLD else ""
            what = "until nothing can go on by itself"
            self._tell(f"waiting {what}: for {'; '.join(calls[:_MOST_TOLD])}{more}")

    async def elapse(self, seconds: float) -> None:
        """Let simulated time pass: each moment on the way comes in order."""
        clock = self.rounds.clock
        if not isinstance(clock, SimulatedClock):
            how = 'narval.open(clock=narval.SimulatedClock("2026-03-01T07:00:00Z"))'
            raise RequestError(f"time is real here: open the home by {how}; a test has a mark `clock`")
        target = clock.now() + seconds
        await self.until_idle()
        while (due := self._next_moment()) is not None and due <= target:
            clock.set(max(due, clock.now()))
            await self.until_idle()
        clock.set(target)
        await self.until_idle()

    async def wait_for(self, waiting: asyncio.Future[Any], timeout: float | None = None) -> None:
        """Wait until a future is done, at most `timeout` seconds; make rounds if nothing else does."""
        if self.is_at_work:
            await asyncio.wait([waiting], timeout=timeout)
            return
        deadline = time.monotonic() + timeout if timeout is not None else None
        await self.work_until(lambda: waiting.done() or self.is_stopped(), deadline=deadline)

    async def work_until(self, is_over: Callable[[], bool], *, deadline: float | None = None) -> None:
        """Make rounds while there is work, sleep while there is none, until `is_over` or the deadline.

        `is_over` is called between rounds and whenever the bell rings; `deadline` is in monotonic seconds.
        """
        rounds = self.rounds
        if self.is_at_work:
            raise RequestError("the home is already running; ask it from within its own event loop")
        if rounds.gone is not None:
            raise rounds.gone
        self.is_at_work = True
        since = time.monotonic()
        try:
            while True:
                self.calls.executor.release()
                if isinstance(rounds.gone, (FencedError, StoreAwayError)):
                    raise rounds.gone
                if is_over() or (deadline is not None and _is_past(deadline)):
                    break
                if rounds.is_due():
                    if by := await rounds.round():
                        self.stop.request(by=by)
                    if (took := time.monotonic() - since) < SLICE:
                        continue
                    self.numbers.add(took, rounds.clock.now())
                    for _ in range(YIELDS):
                        await asyncio.sleep(0)
                else:
                    self.numbers.busy += time.monotonic() - since
                    await self._bell.wait(rounds.next_moment(), deadline)
                since = time.monotonic()
        finally:
            self.numbers.busy += time.monotonic() - since
            self.is_at_work = False

    def _later(self) -> list[Later]:
        """The moments that agents wait for, in order, except those at which a run is only forgotten."""
        waiting = (
            Later(at, participant.loop.agent, key, job)
            for participant in self.rounds.participants
            for at, key, job in participant.loop.agent.clockwork.timers.waiting()
            if not isinstance(job, ForgetRun)
        )
        return sorted(waiting, key=lambda later: (later.at, later.key))

    def _next_moment(self) -> float | None:
        """The next moment at which something is due: for a run, or for a call asleep on a simulated clock."""
        due = (self.rounds.next_moment(), self.calls.executor.next())
        return min((moment for moment in due if moment is not None), default=None)


def _waited_for(call: CallContext, *, is_simulated: bool) -> str:
    """A call under way, and why it may take long."""
    what = f"{call.target.action or 'the call'} of run {call.run}, step {call.step}"
    if call.is_source:
        return f"{what}, a source that has not called narval.call().caught_up()"
    if is_simulated and call.target.where == "async":
        return f"{what}, which waits in real time: await narval.sleep() follows the simulated clock"
    return f"{what}, which is still running"


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
