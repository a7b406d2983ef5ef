"""The loop: take, tell, record, perform (§ "One turn"). It knows no kind and does no I/O but the commit.

`decide` makes a turn of all that waits; its batch is committed; `perform` hands out what was asked for and
answers who waited. Over a store that is gone with the program, what was asked for is handed out within the
turn. `agent_host` says when.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

import msgspec

from narval.engines.commands import Outer
from narval.engines.events import Event, TimerFired
from narval.errors import InternalError, NarvalError, StoreError
from narval.memory.elements.changes import Forgotten
from narval.memory.retention import IdleTracker
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.effects import FORGOTTEN_AT_ONCE, do
from narval.runtime.agent.jobs import ForgetRun
from narval.runtime.agent.run import Run
from narval.runtime.agent.turn import Turn
from narval.runtime.home.schemas import Schemas
from narval.runtime.store import codec
from narval.runtime.store.batch import QueuedRow
from narval.runtime.store.store import Store
from narval.runtime.system.clock import Clock, Jump

log = logging.getLogger("narval.loop")

SEQUENCE_BLOCK = 4096
"""How many journal numbers are set aside at once; after a crash numbering goes on behind them."""

SLICE = 0.005
"""Seconds that a turn takes events for, once it has begun: those who ask something are not kept waiting."""

DUE_SLICE = 0.02
"""The same for moments that have come: they were promised for now, what follows from them was not."""

WAVE = 100
"""So many calls are made before their runs go on, where nothing has to be recorded in between: their states
are still in the processor's cache then.
"""

UNNOTICED = 0.25
"""Seconds the clock may have gone on since it was last asked whether it was set: no jump is that short."""

Answer = Callable[[BaseException | None], None]
"""Told None once a turn is recorded, and else why it was not."""


class Delivery(msgspec.Struct, frozen=True):
    """An event from outside for a run; `recorded` is told once it is committed."""

    run: int
    event: Event
    recorded: Answer | None = None


class Request(msgspec.Struct, frozen=True):
    """Something to do within a turn; `settle` is told the result, or the error, once it is committed."""

    work: Callable[[Turn], Any]
    settle: Callable[[Any, BaseException | None], None]


class Loop:
    """Makes the turns of one agent."""

    def __init__(
        self,
        agent: AgentState,
        store: Store,
        schemas: Schemas,
        clock: Clock,
        perform: Callable[[Run, Outer], Event | None],
        *,
        limit: int = 1000,
        record_only: bool = False,
    ) -> None:
        self.agent, self.store, self.schemas, self.clock = agent, store, schemas, clock
        self.limit = limit
        self.record_only = record_only
        """Asleep, a loop records what it is asked and tells no run: that is left to the next daemon."""
        self.turns = 0
        self._looked = float("-inf")
        self.gone: NarvalError | None = None
        """Why there will be no more turns."""
        self._perform = perform
        self._at_once = store.is_volatile and not record_only
        """Nothing is recorded that could be there after a crash: what is asked for need not wait for it."""
        self._inbox: deque[Delivery | Request] = deque()
        self._answers: list[Answer] = []
        self._set_aside = agent.sequence
        self._jumps: list[Jump] = []

    def set_limit(self, events: int) -> None:
        """Let a turn take so many events at most."""
        self.limit = events

    def use_schemas(self, schemas: Schemas) -> None:
        """Let elements fit these schemas from the next turn on."""
        self.schemas = schemas

    def post(self, item: Delivery | Request) -> None:
        """Something for the next turn."""
        if self.gone is not None:
            _refuse(item, self.gone)
        else:
            self._inbox.append(item)

    def has_work(self) -> bool:
        """Whether a turn would do anything now."""
        if self._inbox:
            return True
        if self.record_only:
            return False
        if self.agent.queue:
            return True
        due = self.agent.next_moment()
        if due is None:
            return False
        now = self.clock.now()
        return due <= now or self._has_jumped(now)

    def decide(self) -> Turn:
        """Tell the runs what waits, up to the limit. Raises StoreError.

        Nothing outside is touched before the commit, but where a commit is no promise: over a volatile store.
        """
        now = self.clock.now()
        jumped = not self.record_only and self._has_jumped(now)
        turn = Turn(self.agent, self.store, self.schemas, now, record_only=self.record_only)
        if jumped:
            self._reckon(turn)
        if self.record_only:
            self._take_in(turn, _Room(self.limit))
        else:
            if self.agent.queue:
                self._drain(turn, _Room(self.limit))
            if len(self.agent.timers) or self.agent.idle is not None:
                self._take_due(turn, _Room(self.limit, DUE_SLICE))
            room = _Room(self.limit)
            self._take_in(turn, room)
            if self.agent.queue:
                self._drain(turn, room)
        if self.agent.queue:
            self._keep_waiting(turn)
        self._number(turn)
        turn.close()
        self.turns += 1
        return turn

    def commit(self, turn: Turn) -> None:
        """Record the turn, whole or not at all. Raises StoreError: then nothing of it may be performed."""
        if turn.batch:
            self.store.commit(turn.batch)

    def perform(self, turn: Turn) -> None:
        """Hand out what the turn asked for, and answer who waited for it."""
        if not self.record_only:
            for run, command in turn.outer:
                event = self._perform(run, command)
                if event is not None:
                    self._inbox.append(Delivery(run.eid, event))
        answers, self._answers = self._answers, []
        for answer in answers:
            answer(None)

    def give_up(self, error: NarvalError) -> None:
        """There will be no more turns: all who wait for one are told why."""
        if self.gone is not None:
            return
        self.gone = error
        answers, self._answers = self._answers, []
        for answer in answers:
            answer(error)
        while self._inbox:
            _refuse(self._inbox.popleft(), error)

    # --- inside ---------------------------------------------------------------------------------------

    def _take_in(self, turn: Turn, room: _Room) -> None:
        """Do what has come from outside since the last turn."""
        while self._inbox and room.take():
            item = self._inbox[0]  # until it is done, so that it is told if the turn breaks down
            if isinstance(item, Request):
                self._answers.append(_done(item, turn))
            else:
                turn.tell(item.run, item.event)
                if item.recorded is not None:
                    self._answers.append(item.recorded)
            self._inbox.popleft()
        if self._at_once:
            self._go_on(turn, room)

    def _drain(self, turn: Turn, room: _Room) -> None:
        """Tell what is queued: what the last turn left, what this one has woken."""
        while self.agent.queue and room.take():
            turn.tell_next()
            if self._at_once and len(turn.outer) >= WAVE:
                self._go_on(turn, room)
        if self._at_once:
            self._go_on(turn, room)

    def _go_on(self, turn: Turn, room: _Room) -> None:
        """Let be performed what runs ask for, and tell them what comes of it at once, while there is room.

        They go on side by side, a wave of calls and a wave of their returns: to do the same for many in a row
        is a quarter quicker than to take each run to its end, for the processor has at hand what it needs.
        """
        asked = turn.outer
        while asked:
            came, turn.outer = [], deque()
            while asked and room.take():
                run, command = asked.popleft()
                event = self._perform(run, command)
                if event is not None:
                    came.append((run.eid, event))
            for eid, event in came:
                turn.tell(eid, event)
            if asked:  # there is no more room
                asked.extend(turn.outer)
                turn.outer = asked
                return
            asked = turn.outer

    def _keep_waiting(self, turn: Turn) -> None:
        """What is still queued is recorded with the turn, and taken first next time, after a crash too."""
        queue = self.agent.queue
        at = len(queue)
        while at and not queue[at - 1][0]:  # what was recorded before stands in front
            at -= 1
        for place in range(at, len(queue)):
            _, run, event = queue[place]
            self.agent.sequence += 1
            queue[place] = (self.agent.sequence, run, event)
            turn.batch.queued.append(QueuedRow(self.agent.sequence, run, codec.encode_event(event)))

    def _number(self, turn: Turn) -> None:
        """Set numbers aside in blocks, so that a turn need not record how far numbering has come."""
        if self.agent.sequence > self._set_aside:
            self._set_aside = self.agent.sequence + SEQUENCE_BLOCK
            turn.batch.meta.append(("sequence", str(self._set_aside)))

    def _has_jumped(self, now: float) -> bool:
        """Whether the clock was set, or the machine slept, and nobody has reckoned with it yet."""
        if not 0.0 <= now - self._looked < UNNOTICED:
            self._looked = now
            jump = self.clock.jump()
            if jump is not None:
                self._jumps.append(jump)
        return bool(self._jumps)

    def _reckon(self, turn: Turn) -> None:
        """The clock was set, or the machine slept: what was due meanwhile is missed (N25)."""
        by = sum(jump.by for jump in self._jumps)
        slept = sum(jump.slept for jump in self._jumps)
        self._jumps.clear()
        self.agent.since = turn.at
        log.warning("the clock was set by %+.0f seconds, or the machine slept (%.0f)", by, slept)
        if by:
            self.agent.clock_was_set(by)

    def _take_due(self, turn: Turn, room: _Room) -> None:
        """Do what its moment has come for; forgetting has less room, for nobody waits for it."""
        moments, forgetting = self.agent.timers, _Room(self.limit)
        while len(moments) and room.take() and (due := moments.take(turn.at)) is not None:
            _, (run, identifier), deed = due
            if deed is None:
                turn.wake(run, TimerFired(0, 0.0, identifier))
            else:
                turn.batch.moments_done.append(identifier)
                do(turn, deed)
                if isinstance(deed, ForgetRun) and not forgetting.take():
                    return
        idle = self.agent.idle
        while idle is not None and idle.is_due(turn.at) and forgetting.take():
            self._forget_idle(turn, idle)

    def _forget_idle(self, turn: Turn, idle: IdleTracker) -> None:
        """Forget some of what nobody used for long enough, but for what a call still uses (N5)."""
        agent, gone = self.agent, []
        for eid in list(idle.due(agent.memory, turn.at, agent.active.__contains__, FORGOTTEN_AT_ONCE)):
            run = agent.runs.get(eid)
            if run is not None:
                if run.caller is not None and run.caller.run in agent.active:
                    idle.put_off(eid, turn.at)
                elif not run.decays:
                    do(turn, ForgetRun(eid))
            elif eid in turn.lent():
                idle.put_off(eid, turn.at)
            else:
                gone.append(eid)
        if gone:
            turn.forget(Forgotten(eids=tuple(gone)))


class _Room:
    """How much a turn still takes: so many events, and none once its time is over; but always one."""

    def __init__(self, events: int, seconds: float = SLICE) -> None:
        self._left, self._seconds, self._until = events, seconds, 0.0

    def take(self) -> bool:
        """Whether there is room for one more."""
        now = perf_counter()
        if not self._until:
            self._until = now + self._seconds
        elif now > self._until:
            return False
        self._left -= 1
        return self._left >= 0


def _done(request: Request, turn: Turn) -> Answer:
    """Do what was asked within the turn; the answer is for after the commit."""
    result, refusal = None, None
    try:
        result = request.work(turn)
    except StoreError:
        raise
    except NarvalError as error:
        refusal = error
    except Exception as error:
        log.exception("what was asked for broke down")
        refusal = InternalError(f"narval failed while it did what was asked: {error!r}")
    return lambda failure: request.settle(result, failure if refusal is None else refusal)


def _refuse(item: Delivery | Request, error: NarvalError) -> None:
    if isinstance(item, Request):
        item.settle(None, error)
    elif item.recorded is not None:
        item.recorded(error)
