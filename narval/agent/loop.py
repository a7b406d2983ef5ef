"""The loop: decide, record, perform (§ "One turn"). It knows no kind and does no I/O.

`decide` makes a turn of everything that waits, a round commits its batch, and `perform` hands out the outer
commands and answers the waiting callers.

Over a volatile store, all calls are made and answered within the turn: nothing recorded could be read after a
crash. Over any other store, only calls of pure actions are: they touch nothing outside, so a call whose turn
is lost has not happened.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from typing import Any

import msgspec

from narval.agent.agent import AgentState
from narval.agent.forgetting import forget_idle
from narval.agent.run import Run
from narval.agent.timers import ForgetRun
from narval.agent.turn import Turn
from narval.agent.view import HostApi, TurnView
from narval.agent.waiting import DeliveredEvent
from narval.core.engines.commands import Outer
from narval.core.engines.events import Event
from narval.core.errors import InternalError, NarvalError, StoreError
from narval.store import codec
from narval.store.batch import QueuedRow
from narval.store.rows import SEQUENCE
from narval.system import stopwatch
from narval.system.clock import Jump

log = logging.getLogger("narval.loop")

SLICE = 0.005
"""Seconds that a turn spends on events once it has begun, so that requests do not wait long."""

WAVE = 20
"""Commands done side by side: the states of that many runs still fit into the processor's cache."""

Perform = Callable[[Run, Outer], Event | None]
"""Performs a command, and returns its immediate event, or None."""

DUE_SLICE = 0.02
"""Seconds that a turn spends on timers and jobs: these were promised for now; what follows from them was not.
"""

Answer = Callable[[BaseException | None], None]
"""A callback that receives None once a turn is recorded, or the reason why it was not."""


class Delivery(msgspec.Struct, frozen=True):
    """An event from outside for a run; `recorded` is called once it is committed.

    `also` adds to the turn's record if the run takes the event.
    """

    run: int
    event: Event
    recorded: Answer | None = None
    also: Callable[[Turn], None] | None = None


Settle = Callable[[Any, BaseException | None], None]
"""A callback that receives the result of a request once it is recorded, or the reason why it is not."""


def nobody_waits(value: Any, error: BaseException | None) -> None:
    """Ignore the answer: no caller waits for it."""


class Request(msgspec.Struct, frozen=True):
    """Work to do within a turn; `settle` receives the result, or the error, once it is committed.

    An error of `work` goes to the caller. But if a run has been told something by then, or the request is
    atomic (`is_whole`), the turn fails, so that no part of it is recorded.
    """

    work: Callable[[Turn], Any]
    settle: Settle = nobody_waits
    is_whole: bool = False


class Intake:
    """Deliveries and requests for the next turn, and answers due once the current turn is recorded.

    `gone` says why there will be no more turns. `has_work` is called when something was queued for the next.
    """

    def __init__(self, has_work: Callable[[], None]) -> None:
        self._has_work = has_work
        self.gone: NarvalError | None = None
        self.waiting: deque[Delivery | Request] = deque()
        self._answers: list[Answer] = []

    def post(self, item: Delivery | Request) -> None:
        """Queue something for the next turn."""
        if self.gone is not None:
            _refuse(item, self.gone)
        else:
            self.waiting.append(item)
            self._has_work()

    def handle(self, turn: Turn, room: TurnBudget) -> None:
        """Handle within a turn what has arrived, while there is room."""
        waiting = self.waiting
        while waiting and room.spend():
            item = waiting[0]  # stays queued until done, to be reported if the turn fails
            if type(item) is Delivery:
                if turn.tell(item.run, item.event) and item.also is not None:
                    item.also(turn)
                if item.recorded is not None:
                    self._answers.append(item.recorded)
            elif type(item) is Request:
                self._answers.append(_done(item, turn))
            waiting.popleft()

    def post_returns(self, turn: Turn, perform: Perform) -> None:
        """Perform what a turn asked for, and queue immediate results for the next turn."""
        for run, command in turn.transaction.outer:
            event = perform(run, command)
            if event is not None:
                self.waiting.append(Delivery(run.eid, event))

    def answer(self, failure: NarvalError | None) -> None:
        """Tell the waiting callers that the turn is recorded, or why it was not."""
        if not self._answers:
            return
        answers, self._answers = self._answers, []
        for answer in answers:
            answer(failure)

    def close(self, error: NarvalError) -> None:
        """End the turns: refuse everything that waits or is still to come."""
        if self.gone is None:
            self.gone = error
            self.answer(error)
            while self.waiting:
                _refuse(self.waiting.popleft(), error)


class Loop:
    """The maker of an agent's turns.

    `perform` performs a command once its turn is recorded. `answer` makes a call that may be made earlier,
    and returns None for any other command. `intake` has the work for the next turn. With `record_only` the
    loop records requests and advances nothing: that is left to the next daemon. If time `is_simulated`, only
    the number of events ends a turn: the outcome may not depend on the speed of the machine.
    """

    def __init__(
        self,
        agent: AgentState,
        intake: Intake,
        host_api: HostApi,
        perform: Perform,
        answer: Perform,
        *,
        record_only: bool = False,
        is_volatile: bool = False,
        is_simulated: bool = False,
    ) -> None:
        self.agent, self.intake, self.record_only = agent, intake, record_only
        self._is_simulated = is_simulated
        self._limit: int | None = None
        self.turns = 0
        self._turn = Turn(agent, host_api, record_only=record_only)
        self._perform = perform
        self._is_volatile = is_volatile
        self._within = None if record_only else _within(perform, answer, is_volatile)
        """Make the calls that need not wait for the commit."""
        self._jumps: list[Jump] = []
        """Clock jumps that no turn has handled yet."""

    @property
    def view(self) -> TurnView:
        """The view of engines, for read-only callers; it belongs to no run."""
        return self._turn.view

    @property
    def limit(self) -> int:
        """The most events that a turn delivers."""
        return self.agent.home.now.turn_limit if self._limit is None else self._limit

    def set_limit(self, limit: int | None) -> None:
        """Let a turn deliver at most `limit` events from now on; None: as many as the home's settings say."""
        self._limit = limit

    def clock_jumped(self, jump: Jump) -> None:
        """Have the next turn handle a changed clock, or a machine that slept."""
        if not self.record_only:
            self._jumps.append(jump)

    def has_work(self) -> bool:
        """True if a turn would do something at any time."""
        return bool(self.intake.waiting or (self.agent.queue and not self.record_only) or self._jumps)

    def next_moment(self) -> float | None:
        """The moment from which a turn has something to do, if nothing arrives before; None if none."""
        return None if self.record_only else self.agent.clockwork.next_moment()

    def decide(self, now: float, share: float | None = None) -> Turn:
        """Deliver queued events to the runs, up to the limit. Raises StoreError.

        `share` is the seconds that the turn may take if other agents wait: half of them for events queued
        before, half of the rest for due moments. At least one event of each is delivered. If no other work
        waits, consequences are delivered at once, for as long as in a turn without `share`: recording them
        and starting another turn for each takes longer.

        Nothing outside is touched before the commit, except over a volatile store, where a commit promises
        nothing.
        """
        agent, turn = self.agent, self._turn
        turn.begin(now)
        if self._jumps:
            self._adjust_deadlines(now)
        end = None if share is None or self._is_simulated else stopwatch.seconds() + share
        if self.record_only:
            self._handle_intake(turn, self._room())
        else:
            if agent.queue:
                self._drain(turn, self._room() if end is None else self._budget(end, half=True))
            if len(agent.clockwork.timers) or agent.clockwork.idle is not None:
                self._do_what_is_due(turn, end)
            room = self._room() if end is None else self._budget(end)
            keeps_up = end is not None and not agent.queue
            self._handle_intake(turn, room)
            if agent.queue:
                self._drain(turn, self._room() if keeps_up else room)
        if turn.transaction.remote or turn.transaction.taken_back:
            turn.host_api.correspond(turn)
        batch = turn.transaction.rows()
        if agent.queue:
            self._keep_queue(turn)
        last = agent.numbers.set_aside()
        if last is not None:  # so that a turn need not record the last number it used
            batch.meta.append((SEQUENCE, str(last)))
        self.turns += 1
        return turn

    def suspected(self) -> list[DeliveredEvent]:
        """The events that may have made the current turn fail: the one being delivered, else all of them."""
        return self._turn.transaction.suspected()

    def mark_poisonous(self, pieces: Iterable[DeliveredEvent]) -> None:
        """Stop delivering these events: they made the agent fail twice (G18)."""
        self._turn.transaction.telling.mark_poisonous(pieces)

    def perform(self, turn: Turn) -> None:
        """Hand out the outer commands of a recorded turn, and answer its waiting callers."""
        if (facts := vars(turn.transaction.batch).get("meta")) is not None:
            self.agent.facts.update(facts)
        if not self.record_only:
            self.intake.post_returns(turn, self._perform)
        self.intake.answer(None)

    # --- inside -----------------------------------------------------------------------------------------

    def _adjust_deadlines(self, now: float) -> None:
        """Adjust the awaited moments after clock jumps: what came due in between is missed."""
        by = sum(jump.by for jump in self._jumps)
        self._jumps.clear()
        self.agent.clockwork.interrupted(now)
        if by:
            self.agent.clock_was_set(by)

    def _room(self, seconds: float = SLICE) -> TurnBudget:
        """The budget for a part of a turn that no other agent waits for."""
        return TurnBudget(self.limit, math.inf if self._is_simulated else seconds)

    def _budget(self, end: float, *, half: bool = False) -> TurnBudget:
        """The budget for a part of a turn that ends at `end`: the rest of its time, or half of that."""
        left = end - stopwatch.seconds()
        return TurnBudget(self.limit, left / 2 if half else left)

    def _handle_intake(self, turn: Turn, room: TurnBudget) -> None:
        """Handle what has arrived from outside since the last turn."""
        self.intake.handle(turn, room)
        if self._within is not None:
            self._within(turn, room)

    def _drain(self, turn: Turn, room: TurnBudget) -> None:
        """Deliver queued events: left by the last turn or caused by this one."""
        queue, within = self.agent.queue, self._within
        while queue and not room.is_over:
            while queue and room.spend():
                turn.deliver_next()
                if self._is_volatile and len(turn.transaction.outer) >= WAVE:
                    break
            if within is not None:
                within(turn, room)

    def _keep_queue(self, turn: Turn) -> None:
        """Record what is still queued: it comes first in the next turn, also after a crash."""
        queue = self.agent.queue
        place = len(queue)
        while place and not queue[place - 1][0]:  # recorded ones stand in front
            place -= 1
        for at in range(place, len(queue)):
            _, run, event = queue[at]
            row = self.agent.numbers.draw()
            queue[at] = (row, run, event)
            if not self._is_volatile:
                turn.transaction.batch.queued.append(QueuedRow(row, run, codec.encode_queued(event)))

    def _do_what_is_due(self, turn: Turn, end: float | None) -> None:
        """Fire timers and do jobs; forgetting has less room, since no request depends on it."""
        if end is None:
            room, forgetting = self._room(DUE_SLICE), self._room()
        else:
            room, forgetting = self._budget(end, half=True), self._budget(end, half=True)
        clockwork = self.agent.clockwork
        timers, idle = clockwork.timers, clockwork.idle
        now = turn.at
        while room.spend() and (due := timers.pop_due(now)) is not None:
            at, (run, identifier), job = due
            if job is None:
                turn.fire(run, identifier, at)
            else:
                turn.transaction.batch.moments_done.append(identifier)
                clockwork.starts.pop(identifier, None)
                turn.do(job)
                if isinstance(job, ForgetRun) and not forgetting.spend():
                    break
        if clockwork.fresh:
            turn.transaction.batch.meta.append(("late", clockwork.late_to_record()))
        while idle is not None and idle.is_due(turn.at) and forgetting.spend():
            forget_idle(turn.transaction, idle)


def _within(perform: Perform, answer: Perform, is_volatile: bool) -> Callable[[Turn, TurnBudget], None]:
    """The function that makes the calls of a turn that need not wait for its commit."""
    if is_volatile:
        return partial(perform_in_waves, perform=perform)
    return partial(answer_in_waves, answer=answer)


def _done(request: Request, turn: Turn) -> Answer:
    """Do the request within the turn, and return its answer, which is given after the commit."""
    result, refusal = None, None
    try:
        result = request.work(turn)
    except StoreError:
        raise
    except Exception as error:
        if request.is_whole or turn.transaction.telling.blamed is not None:
            raise
        if isinstance(error, NarvalError):
            refusal = error
        else:
            log.exception("what was asked for broke down")
            refusal = InternalError(f"narval failed while it did what was asked: {error!r}")
    return lambda failure: request.settle(result, failure if refusal is None else refusal)


def _refuse(item: Delivery | Request, error: NarvalError) -> None:
    if isinstance(item, Request):
        item.settle(None, error)
    elif item.recorded is not None:
        item.recorded(error)


# --- the budget of a turn ----------------------------------------------------------------------------------


class TurnBudget:
    """The room for events in a turn: none once its time is up, but always at least one.

    `is_over` is True once room has been refused.
    """

    def __init__(self, events: int, seconds: float) -> None:
        self._left, self._seconds, self._until = events, seconds, 0.0
        self.is_over = False

    def spend(self) -> bool:
        """Use the room of one event; False if there is none."""
        now = stopwatch.seconds()
        if not self._until:
            self._until = now + self._seconds
        elif now > self._until or self._left <= 0:
            self.is_over = True
            return False
        self._left -= 1
        return True


def perform_in_waves(turn: Turn, room: TurnBudget, perform: Perform) -> None:
    """Perform what runs ask for, and deliver the immediate results, while there is room.

    A few runs advance side by side, a wave of calls and then a wave of their returns; others follow when
    these have ended. Doing the same step for a few runs in a row is faster than finishing each in turn: the
    code stays in the processor's cache. Doing it for all is slower: their states do not fit.
    """
    outer = turn.transaction.outer
    of_runs: defaultdict[int, list[tuple[Run, Outer]]] = defaultdict(list)
    for asked in outer:
        of_runs[asked[0].eid].append(asked)
    outer.clear()
    others = iter(of_runs.values())
    while not room.is_over:
        if not outer:  # else it has these runs' next commands, behind their earlier ones
            outer += chain.from_iterable(islice(others, WAVE))
            if not outer:
                break
        came: list[tuple[int, Event]] = []
        performed = 0
        for run, command in outer[:WAVE]:
            if not room.spend():
                break
            performed += 1
            event = perform(run, command)
            if event is not None:
                came.append((run.eid, event))
        del outer[:performed]
        for eid, event in came:
            turn.tell(eid, event)
    outer += chain.from_iterable(others)


def answer_in_waves(turn: Turn, room: TurnBudget, answer: Perform) -> None:
    """Deliver the immediate results of calls that need not wait for the commit, while there is room.

    `answer` returns None for any other command, which is performed once the turn is recorded.
    """
    outer = turn.transaction.outer
    later: list[tuple[Run, Outer]] = []
    while outer and not room.is_over:
        came: list[tuple[int, Event]] = []
        for run, command in outer:
            event = answer(run, command) if room.spend() else None
            if event is None:
                later.append((run, command))
            else:
                came.append((run.eid, event))
        outer.clear()
        for eid, event in came:
            turn.tell(eid, event)
    outer[:0] = later
