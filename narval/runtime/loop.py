"""The loop: take, tell, record, perform (§ "One turn"). It knows no kind and does no I/O but the commit.

`decide` makes a turn of all that waits; its batch is committed; `perform` hands out what was asked for and
answers who waited. `daemon.py` says when.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from narval.engines.commands import Outer
from narval.engines.events import Event, Woken
from narval.errors import NarvalError
from narval.memory.decay import forget_runs
from narval.runtime import codec
from narval.runtime.agents import Agent, Run
from narval.runtime.clock import Clock
from narval.runtime.deeds import Deed, Forgetting, Starting
from narval.runtime.schemas import Schemas
from narval.runtime.store import QueuedRow, Store
from narval.runtime.turn import Turn

log = logging.getLogger("narval.loop")

SEQUENCE_BLOCK = 4096
"""How many journal numbers are set aside at once; after a crash numbering goes on behind them."""

Settle = Callable[[Any, BaseException | None], None]


class Delivery(NamedTuple):
    """An event from outside for a run; `recorded` is called once it is committed."""

    run: int
    event: Event
    recorded: Callable[[], None] | None = None


class Request(NamedTuple):
    """Something to do within a turn; `settle` is told the result, or the error, once it is committed."""

    work: Callable[[Turn], Any]
    settle: Settle


class Decided(NamedTuple):
    """A turn to be committed, and whom to tell then."""

    turn: Turn
    answers: list[Callable[[], None]]


class Loop:
    """Makes the turns of one agent."""

    def __init__(
        self,
        agent: Agent,
        store: Store,
        schemas: Schemas,
        clock: Clock,
        perform: Callable[[Run, Outer], None],
        *,
        limit: int = 1000,
        asleep: bool = False,
    ) -> None:
        self.agent, self.store, self.schemas, self.clock = agent, store, schemas, clock
        self.limit = limit
        self.asleep = asleep
        """Asleep, a loop records what it is asked and tells no run: that is left to the next daemon."""
        self.turns = 0
        self._perform = perform
        self._inbox: deque[Delivery | Request] = deque()
        self._set_aside = agent.sequence

    def post(self, item: Delivery | Request) -> None:
        """Something for the next turn."""
        self._inbox.append(item)

    def has_work(self) -> bool:
        """Whether a turn would do anything now."""
        if self._inbox:
            return True
        if self.asleep:
            return False
        if self.agent.queue:
            return True
        due = self.agent.next_moment()
        return due is not None and due <= self.clock.now()

    def decide(self) -> Decided:
        """Tell the runs all that waits, up to the limit; nothing outside is touched."""
        turn = Turn(self.agent, self.store, self.schemas, self.clock.now())
        answers: list[Callable[[], None]] = []
        if not self.asleep:
            self._take_due(turn)
        room = self.limit
        while room and self._inbox:
            room -= 1
            item = self._inbox.popleft()
            if isinstance(item, Request):
                answers.append(_done(item, turn))
            else:
                turn.tell(item.run, item.event)
                if item.recorded is not None:
                    answers.append(item.recorded)
        if not self.asleep:
            self._drain(turn, self.limit)
        self._keep_waiting(turn)
        self._number(turn)
        self.turns += 1
        return Decided(turn, answers)

    def commit(self, decided: Decided) -> None:
        """Record the turn, whole or not at all. Raises StoreError: then nothing of it may be performed."""
        if decided.turn.batch:
            self.store.commit(decided.turn.batch)

    def perform(self, decided: Decided) -> None:
        """Hand out what the turn asked for, and answer who waited for it."""
        if not self.asleep:
            for run, command in decided.turn.outer:
                self._perform(run, command)
        for answer in decided.answers:
            answer()

    # --- inside ---------------------------------------------------------------------------------------

    def _drain(self, turn: Turn, room: int) -> None:
        queue = self.agent.queue
        while queue and room:
            room -= 1
            row, run, event = queue.popleft()
            if row:
                turn.batch.dequeued.append(row)
            turn.tell(run, event)

    def _keep_waiting(self, turn: Turn) -> None:
        """What is still queued is recorded with the turn, and taken first next time, after a crash too."""
        queue = self.agent.queue
        if not queue or all(row for row, _, _ in queue):
            return
        for at, (row, run, event) in enumerate(queue):
            if not row:
                self.agent.sequence += 1
                number = self.agent.sequence
                queue[at] = (number, run, event)
                turn.batch.queued.append(QueuedRow(number, run, codec.encode_event(event)))

    def _number(self, turn: Turn) -> None:
        """Set numbers aside in blocks, so that a turn need not record how far numbering has come."""
        if self.agent.sequence > self._set_aside:
            self._set_aside = self.agent.sequence + SEQUENCE_BLOCK
            turn.batch.meta.append(("sequence", str(self._set_aside)))

    def _take_due(self, turn: Turn) -> None:
        for _, (run, identifier), deed in self.agent.moments.due(turn.at):
            if run:
                turn.wake(run, Woken(0, 0.0, identifier))
            else:
                turn.batch.moments_done.append(identifier)
                _DO[type(deed)](turn, deed)
        if self.agent.idle is not None:
            gone = self.agent.idle.due(self.agent.memory, turn.at, self.agent.active.__contains__)
            if gone.eids:
                turn.forget(gone)


def _done(request: Request, turn: Turn) -> Callable[[], None]:
    """Do what was asked within the turn; the answer is for after the commit."""
    try:
        result = request.work(turn)
    except NarvalError as error:
        refusal: BaseException = error
        return lambda: request.settle(None, refusal)
    return lambda: request.settle(result, None)


def _forget(turn: Turn, deed: Deed) -> None:
    assert isinstance(deed, Forgetting)
    run = turn.agent.runs.get(deed.run)
    if run is None or run.active:
        return
    family = tuple(eid for eid in turn.agent.family(deed.run) if not turn.agent.runs[eid].active)
    turn.forget(forget_runs(turn.memory, family))


def _start(turn: Turn, deed: Deed) -> None:
    assert isinstance(deed, Starting)
    there = tuple(eid for eid in deed.elements if eid in turn.memory)
    if turn.start(deed.name, there, attempt=deed.attempt) is None:
        log.warning("%s was to start again, but no such definition is loaded", deed.name)


_DO: dict[type, Callable[[Turn, Deed], None]] = {Forgetting: _forget, Starting: _start}
