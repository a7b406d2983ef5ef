"""Rounds: each agent with work decides a turn; all turns are recorded in one commit, then performed (G11).

A round ends when no agent is ready any longer, or its time for deciding has passed; the next begins with the
remaining agents. An agent is ready when something was posted for it, when its last turn left something, or
when a moment comes that it waits for. The others are not searched. If several are ready, `shares` decides how
long a turn may take (G12).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from narval.agent.timers import Deadlines
from narval.agent.turn import Turn
from narval.core.errors import (
    CutOffError,
    FencedError,
    InternalError,
    NarvalError,
    RefusedRowsError,
    StoreAwayError,
    StoreError,
    UnansweredError,
)
from narval.daemon.shares import Participant, Shares
from narval.daemon.start_and_stop import in_words
from narval.store.batch import Batch
from narval.store.store import Store
from narval.system import stopwatch
from narval.system.clock import Clock, Jump
from narval.system.wall_timer import wall_timer

if TYPE_CHECKING:  # most homes have none
    from narval.daemon.traces import Traces

log = logging.getLogger("narval.daemon")
clock_log = logging.getLogger("narval.loop")


class Alarm(NamedTuple):
    """An action for a moment within a round. `ring` gets the present moment. `clock_was_set` gets the seconds
    by which the clock was set, before the alarms that are due by then ring.
    """

    ring: Callable[[float], None]
    clock_was_set: Callable[[float], None]


Turns: TypeAlias = list[tuple[Participant, Turn]]


UNNOTICED = 0.25
"""Seconds after a check in which the clock is not checked again for a jump."""


class ClockWatch:
    """Detects that a clock was set."""

    __slots__ = ("_looked", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._looked = float("-inf")

    def jump(self, now: float) -> Jump | None:
        """The jump since the last check; None if the clock has not been set."""
        if 0.0 <= now - self._looked < UNNOTICED:
            return None
        self._looked = now
        jump = self.clock.jump()
        if jump is not None:
            set_by, slept = f"{jump.by:+.0f}", f"{jump.slept:.0f}"
            clock_log.warning("the clock was set by %s seconds, or the machine slept (%s)", set_by, slept)
        return jump


class Rounds:
    """The active agents of a daemon, and those of them that wait for a turn.

    `bell` is rung when there is something to do. Nothing begins or is performed unless `is_open`: then a
    daemon that shares its store is sure of the agents that it holds (G48).
    """

    def __init__(
        self, clock: Clock, committer: Committer, bell: Bell, is_open: Callable[[], bool] | None = None
    ) -> None:
        self.participants: dict[Participant, None] = {}
        """The active agents."""
        self.turns = 0
        """The number of turns that were recorded and performed since the start."""
        self.gone: NarvalError | None = None
        """The reason why there will be no more rounds; None if there will be."""
        self._clock_watch, self._committer, self._bell = ClockWatch(clock), committer, bell
        self._shares, self._deadlines = Shares(), Deadlines[Participant | Alarm]()
        self._is_open, self._performs = is_open, True
        self._traces: Traces | None = None
        self._held_back: Turns = []
        """The recorded turns that are performed when `is_open` is true again."""

    @property
    def clock(self) -> Clock:
        """The clock by which turns are made."""
        return self._clock_watch.clock

    def add(self, participant: Participant) -> None:
        """Let an agent take part from now on."""
        self.participants[participant] = None
        if self._traces is not None:
            self._traces.begin(participant.loop.agent, participant.dispatcher.identity, self.clock.now())
        if not self._performs:
            participant.dispatcher.stop()
        self.has_work(participant)

    def trace(self, traces: Traces) -> None:
        """Trace all turns that are recorded from now on."""
        self._traces, now = traces, self.clock.now()
        for one in self.participants:
            traces.begin(one.loop.agent, one.dispatcher.identity, now)

    def remove(self, participant: Participant) -> None:
        """Remove an agent; a turn of it that is being recorded is not performed."""
        self.participants.pop(participant, None)
        if self._traces is not None:
            self._traces.end(participant.loop.agent, participant.dispatcher.identity)
        self._shares.remove(participant)
        self._deadlines.put(participant, None)

    def call_at(self, moment: float | None, alarm: Alarm) -> None:
        """Ring an alarm in the round of a moment (seconds since 1970), instead of at its earlier moment."""
        if moment != self._deadlines.at(alarm):
            self._deadlines.put(alarm, moment)
            self._bell.ring()

    def has_work(self, participant: Participant) -> None:
        """Give an agent a turn in the next round."""
        self._shares.ready[participant] = None
        self._bell.ring()

    def is_due(self) -> bool:
        """True if a round would do anything now."""
        if self._is_open is not None and not self._is_open():
            return False
        if self._shares.ready or self._held_back:
            return True
        due = self._deadlines.next()
        if due is None:
            return False
        now = self.clock.now()
        if due > now and (jump := self._clock_watch.jump(now)) is not None:
            self._adjust_clocks(jump)
        return due <= now or bool(self._shares.ready)

    def next_moment(self) -> float | None:
        """The moment at which the next round is due without a request, or None."""
        return self._deadlines.next() if self._is_open is None or self._is_open() else None

    async def recorded(self) -> None:
        """Wait until the state of memory is recorded. Raises the StoreError of a commit that failed."""
        await self._committer.finished()
        if isinstance(self.gone, StoreError):
            raise self.gone

    def give_up(self, error: NarvalError) -> None:
        """Stop making rounds, and answer everyone who waits for one with `error`."""
        if self.gone is None:
            self.gone = error
        for participant in self.participants:
            participant.give_up(error)

    def perform_no_more(self) -> None:
        """Make agents perform nothing more of what they decide: the daemon is stopping."""
        self._performs = False
        for participant in self.participants:
            participant.dispatcher.stop()

    async def round(self) -> str:
        """Make one round; return a description of the element that asks to stop, or "". A round that breaks
        down is the last one: memory may be ahead of the store.
        """
        try:
            made, self._held_back = self._held_back, []
            if not made:
                made = self._decide()
                batches = [turn.transaction.batch for _, turn in made if turn.transaction.batch]
                under_way = self._committer.commit(batches)
                if under_way is not None:
                    await under_way
                if self._committer.refused:
                    made = self._recorded_of(made, self._committer.refused)
            if self._is_open is not None and not self._is_open():
                self._held_back = made
                return ""
            quit_by, is_shared = "", len(made) > 1 or bool(self._shares.ready)
            for participant, turn in made:
                if self._traces is not None:
                    self._traces.note(turn.transaction.batch)
                began = stopwatch.seconds() if is_shared else 0.0
                try:
                    participant.perform(turn)
                except Exception as error:
                    _contain(participant, error)
                self.turns += 1
                if is_shared:
                    self._shares.charge(participant, stopwatch.seconds() - began)
                if (asks := turn.transaction.quit) is not None:
                    quit_by = in_words(asks, participant.loop.agent)
                if participant not in self.participants:
                    continue
                if participant.loop.has_work():
                    self._shares.ready[participant] = None
                    continue
                if is_shared:
                    self._shares.rests(participant)
                self._await_moment(participant)
        except StoreError as error:
            self._break_down(error)
            raise
        except Exception as error:
            log.exception("a turn broke down")
            broken = InternalError(f"the daemon broke down: {error!r}; its log says where")
            self._break_down(broken)
            raise broken from error
        except BaseException:
            self._break_down(UnansweredError("the daemon was stopped at once"))
            raise
        return quit_by

    # --- inside ---------------------------------------------------------------------------------------

    def _decide(self) -> Turns:
        """Make a turn for each ready agent, while there is time."""
        now = self._clock_watch.clock.now()
        if (jump := self._clock_watch.jump(now)) is not None:
            self._adjust_clocks(jump)
        if self._deadlines:
            while (due := self._deadlines.pop_due(now)) is not None:
                if isinstance(due, Alarm):
                    _ring(due, now)
                else:
                    self._shares.ready[due] = None
        made: Turns = []
        alone = self._shares.alone()
        for participant, share in self._shares.turns() if alone is None else ((alone, None),):
            try:
                made.append((participant, participant.loop.decide(now, share)))
            except Exception as error:
                _contain(participant, error)
        return made

    def _recorded_of(self, made: Turns, refused: Mapping[int, StoreError]) -> Turns:
        """The recorded turns; those of refused agents have broken down."""
        for participant, turn in made:
            refusal = refused.get(turn.transaction.batch.agent)
            if refusal is not None and not participant.broke_down(refusal):
                raise refusal
        return [one for one in made if one[1].transaction.batch.agent not in refused]

    def _adjust_clocks(self, jump: Jump) -> None:
        """Adjust all agents to a clock that was set."""
        for participant in self.participants:
            participant.loop.clock_jumped(jump)
            if participant.loop.has_work():
                self._shares.ready[participant] = None
        for alarm in [due for due in self._deadlines if isinstance(due, Alarm)]:
            alarm.clock_was_set(jump.by)

    def _await_moment(self, participant: Participant) -> None:
        """Schedule the next moment of an agent that has come to rest."""
        at = participant.loop.next_moment()
        if at != self._deadlines.at(participant):
            self._deadlines.put(participant, at)

    def _break_down(self, error: NarvalError) -> None:
        """Perform nothing of the round, and answer all waiting requests with `error`."""
        log.critical("%s", error)
        self.give_up(error)


def _ring(due: Alarm, now: float) -> None:
    """Ring an alarm. Raises CutOffError if it could not read from the store."""
    try:
        due.ring(now)
    except StoreAwayError as error:
        raise CutOffError(f"agents could not be looked after: {error}") from error


def _contain(participant: Participant, error: Exception) -> None:
    """Contain the breakdown of a turn within its agent. For the home's own agent, raises the error, or
    CutOffError if it could not read from the store.
    """
    if participant.broke_down(error):
        return
    if isinstance(error, StoreAwayError):
        raise CutOffError(f"the home's own agent could not continue: {error}") from error
    raise error


# --- waking the loop, and the commit of a round ------------------------------------------------------------


class Bell:
    """Ends a sleep: when it is rung, at a moment of the wall clock, or at a deadline."""

    __slots__ = ("_rung", "_timer")

    def __init__(self, *, follows_wall_clock: bool) -> None:
        """Make a bell. One that `follows_wall_clock` rings by itself at the moment given to `wait`, and when
        the clock is set.
        """
        self._rung = asyncio.Event()
        self._timer = wall_timer(asyncio.get_running_loop(), self.ring) if follows_wall_clock else None

    def ring(self) -> None:
        """End the present sleep, or the next one if none is under way."""
        self._rung.set()

    async def wait(self, moment: float | None, deadline: float | None) -> None:
        """Sleep until the bell rings, `moment` (seconds since 1970) or `deadline` (monotonic seconds)."""
        self._rung.clear()
        if self._timer is not None:
            self._timer.set(moment)
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), timeout)

    def close(self) -> None:
        """Release the timer."""
        if self._timer is not None:
            self._timer.close()


WORTH_A_THREAD = 0.001
"""Seconds of a commit from which it is handed to a thread: the handover alone costs half of that, and a lone
run waits for both.
"""

COMMITS_REMEMBERED = 8
"""The approximate number of recent commits that determine the expected duration of one."""


class Committer:
    """Commits the decisions of a round of turns, in the loop or beside it.

    With `syncs` a writer thread commits while the disk is slow (`power`), and always if daemons share the
    store: a commit may wait long for the server. If the store refuses rows of one agent, the batches are
    committed one by one, so that only those are refused. The same applies to an agent that another daemon has
    by now.
    """

    __slots__ = ("_is_busy", "_seconds", "_store", "_under_way", "_writer", "refused")

    def __init__(self, store: Store, *, syncs: bool) -> None:
        self.refused: dict[int, RefusedRowsError | FencedError] = {}
        """The reasons why batches of the last commit were not recorded, by agent; the other batches were."""
        self._store = store
        has_writer = syncs or store.leases is not None
        self._writer = ThreadPoolExecutor(1, "narval-writer") if has_writer else None
        self._is_busy = False
        self._seconds = 2 * WORTH_A_THREAD
        """The recent duration of a commit."""
        self._under_way: asyncio.Future[None] | None = None

    def commit(self, batches: Sequence[Batch]) -> Awaitable[None] | None:
        """Record batches, all or nothing except for those `refused`: now, or when the result is awaited.

        Raises StoreError, also if rows of the home's own agent are refused: then nothing is recorded.
        """
        if self.refused:
            self.refused = {}
        if not batches:
            return None
        if self._writer is None:
            self._commit(batches)
            return None
        if self._seconds < WORTH_A_THREAD and self._store.leases is None:
            self._timed_commit(batches)
            return None
        return self._commit_beside(batches, self._writer)

    async def _commit_beside(self, batches: Sequence[Batch], writer: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        self._under_way = loop.run_in_executor(writer, self._timed_commit, batches)
        try:
            await self._under_way
        finally:
            self._under_way = None

    async def finished(self) -> None:
        """Wait until no commit is under way; it may have failed."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way])

    def give_up(self) -> None:
        """Stop waiting for a server that does not answer: closing the store ends the commit."""
        if self._is_busy and self._store.leases is not None:
            self._store.close()

    def close(self) -> None:
        """End the writer thread."""
        self.give_up()
        if self._writer is not None:
            self._writer.shutdown()

    def _timed_commit(self, batches: Sequence[Batch]) -> None:
        began, self._is_busy = time.perf_counter(), True
        try:
            self._commit(batches)
        finally:
            self._is_busy = False
        self._seconds += (time.perf_counter() - began - self._seconds) / COMMITS_REMEMBERED

    def _commit(self, batches: Sequence[Batch]) -> None:
        while batches:
            try:
                self._store.commit(*batches)
            except FencedError as fenced:
                batches = self._without_lost(batches, fenced)
            except RefusedRowsError:
                self._commit_one_by_one(batches)
                return
            else:
                return

    def _without_lost(self, batches: Sequence[Batch], fenced: FencedError) -> list[Batch]:
        """The batches of agents that this daemon still has. Raises `fenced` if it lost the home's own."""
        left = [batch for batch in batches if batch.agent not in fenced.agents]
        if self._store.own in fenced.agents or len(left) == len(batches):
            raise fenced
        self.refused.update((batch.agent, fenced) for batch in batches if batch.agent in fenced.agents)
        return left

    def _commit_one_by_one(self, batches: Sequence[Batch]) -> None:
        """Record all batches that the store accepts. Raises the error if it refuses the home's own agent."""
        own = self._store.own
        for batch in sorted(batches, key=lambda batch: batch.agent != own):
            try:
                self._store.commit(batch)
            except (FencedError, RefusedRowsError) as refusal:
                if batch.agent == own:
                    raise
                self.refused[batch.agent] = refusal
