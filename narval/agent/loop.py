"""The loop: decide, record, perform (§ "One turn"). It knows no kind and does no I/O.

`decide` makes a turn of all that waits, a round commits its batch, and `perform` hands out what was asked for
and answers those who waited.

Over a store that is gone with the program, all calls are made and answered within the turn: nothing recorded
could be read after a crash. Over any other store, only calls of pure actions are: they touch nothing outside,
so a call whose turn is lost has not happened.
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
from narval.agent.jobs import ForgetRun
from narval.agent.run import Run
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
"""Seconds that a turn spends on events, once it has begun, so that requests are not kept waiting."""

WAVE = 20
"""Commands done side by side: the states of that many runs are still in the processor's cache."""

Perform = Callable[[Run, Outer], Event | None]
"""Performs a command, and returns its immediate event, or None."""

DUE_SLICE = 0.02
"""Seconds that a turn spends on timers and jobs: these were promised for now, what follows from them was not.
"""

Answer = Callable[[BaseException | None], None]
"""Told None once a turn is recorded, or the reason why it was not."""


class Delivery(msgspec.Struct, frozen=True):
    """An event from outside for a run; `recorded` is told once it is committed.

    `also` has the turn record more, if the run takes the event.
    """

    run: int
    event: Event
    recorded: Answer | None = None
    also: Callable[[Turn], None] | None = None


Settle = Callable[[Any, BaseException | None], None]
"""Told the result of a request once that is recorded, or the reason why it is not."""


def nobody_waits(value: Any, error: BaseException | None) -> None:
    """Settle nothing: no one waits for the answer."""


class Request(msgspec.Struct, frozen=True):
    """Something to do within a turn; `settle` is told the result, or the error, once it is committed.

    An error of `work` goes to the asker. But if a run had been told something by then, or the request is to
    be done as a whole, the turn breaks down, lest a part of it be recorded.
    """

    work: Callable[[Turn], Any]
    settle: Settle = nobody_waits
    is_whole: bool = False


class Intake:
    """Deliveries and requests for the next turn, and answers that are due once the present one is recorded.

    `gone` says why there will be no more turns. `has_work` is called when something was left for the next.
    """

    def __init__(self, has_work: Callable[[], None]) -> None:
        self._has_work = has_work
        self.gone: NarvalError | None = None
        self.waiting: deque[Delivery | Request] = deque()
        self._answers: list[Answer] = []

    def post(self, item: Delivery | Request) -> None:
        """Leave something for the next turn."""
        if self.gone is not None:
            _refuse(item, self.gone)
        else:
            self.waiting.append(item)
            self._has_work()

    def handle(self, turn: Turn, room: TurnBudget) -> None:
        """Do, within a turn, what has come, while there is room."""
        waiting = self.waiting
        while waiting and room.spend():
            item = waiting[0]  # until it is done, so that it is told if the turn breaks down
            if type(item) is Delivery:
                if turn.tell(item.run, item.event) and item.also is not None:
                    item.also(turn)
                if item.recorded is not None:
                    self._answers.append(item.recorded)
            elif type(item) is Request:
                self._answers.append(_done(item, turn))
            waiting.popleft()

    def post_returns(self, turn: Turn, perform: Perform) -> None:
        """Have performed what a turn asked for, and leave immediate results for the next."""
        for run, command in turn.transaction.outer:
            event = perform(run, command)
            if event is not None:
                self.waiting.append(Delivery(run.eid, event))

    def answer(self, failure: NarvalError | None) -> None:
        """Tell those who wait for the turn that it is recorded, or why it was not."""
        if not self._answers:
            return
        answers, self._answers = self._answers, []
        for answer in answers:
            answer(failure)

    def close(self, error: NarvalError) -> None:
        """End the turns: refuse all that waits and all that will come."""
        if self.gone is None:
            self.gone = error
            self.answer(error)
            while self.waiting:
                _refuse(self.waiting.popleft(), error)


class Loop:
    """Makes the turns of one agent.

    `perform` performs a command once its turn is recorded; `answer` makes a call that may be made before, and
    returns None for any other command. `intake` has what is for the next turn. With `record_only` it records
    what it is asked and advances nothing: that is left to the next daemon. Where time `is_simulated`, a turn
    ends by its number of events alone: what happens may not depend on how fast the machine is.
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
        """Makes the calls that need not wait for the commit."""
        self._jumps: list[Jump] = []
        """Jumps of the clock that no turn has handled yet."""

    @property
    def view(self) -> TurnView:
        """The view of engines, for read-only callers; it is of no run."""
        return self._turn.view

    @property
    def limit(self) -> int:
        """The most events that a turn tells."""
        return self.agent.home.now.turn_limit if self._limit is None else self._limit

    def set_limit(self, limit: int | None) -> None:
        """Let a turn tell at most `limit` events from now on; None: as the settings of the home say."""
        self._limit = limit

    def clock_jumped(self, jump: Jump) -> None:
        """Have the next turn handle a clock that was set, or a machine that slept."""
        if not self.record_only:
            self._jumps.append(jump)

    def has_work(self) -> bool:
        """True if a turn would do something, whatever the time is."""
        return bool(self.intake.waiting or (self.agent.queue and not self.record_only) or self._jumps)

    def next_moment(self) -> float | None:
        """The moment from which a turn would do something, if nothing comes before; None if there is none."""
        return None if self.record_only else self.agent.clockwork.next_moment()

    def decide(self, now: float, share: float | None = None) -> Turn:
        """Tell the runs what waits, up to the limit. Raises StoreError.

        `share` is the seconds that the turn may take if other agents wait: half of them for what was queued
        before, half of the rest for moments that have come. One event of each is always told. If nothing else
        waits, consequences are told at once, for as long as in a turn without `share`: to record them and
        begin another turn for each takes longer.

        Nothing outside is touched before the commit, except over a volatile store, where a commit is no
        promise.
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
        if last is not None:  # so that a turn need not record how far numbering has come
            batch.meta.append((SEQUENCE, str(last)))
        self.turns += 1
        return turn

    def suspected(self) -> list[DeliveredEvent]:
        """The events that may have brought the present turn down: the one being told, else all of them."""
        return self._turn.transaction.suspected()

    def mark_poisonous(self, pieces: Iterable[DeliveredEvent]) -> None:
        """Stop telling these events: they brought the agent down twice (G18)."""
        self._turn.transaction.telling.mark_poisonous(pieces)

    def perform(self, turn: Turn) -> None:
        """Hand out what a recorded turn asked for, and answer those who waited for it."""
        if (facts := vars(turn.transaction.batch).get("meta")) is not None:
            self.agent.facts.update(facts)
        if not self.record_only:
            self.intake.post_returns(turn, self._perform)
        self.intake.answer(None)

    # --- inside -----------------------------------------------------------------------------------------

    def _adjust_deadlines(self, now: float) -> None:
        """Adjust the awaited moments after jumps of the clock: what was due meanwhile is missed (N25)."""
        by = sum(jump.by for jump in self._jumps)
        self._jumps.clear()
        self.agent.clockwork.interrupted(now)
        if by:
            self.agent.clock_was_set(by)

    def _room(self, seconds: float = SLICE) -> TurnBudget:
        """Room in a part of a turn that no other agent waits for."""
        return TurnBudget(self.limit, math.inf if self._is_simulated else seconds)

    def _budget(self, end: float, *, half: bool = False) -> TurnBudget:
        """Room in a part of a turn that ends at `end`: what is left of its time, or half of that."""
        left = end - stopwatch.seconds()
        return TurnBudget(self.limit, left / 2 if half else left)

    def _handle_intake(self, turn: Turn, room: TurnBudget) -> None:
        """Do what has come from outside since the last turn."""
        self.intake.handle(turn, room)
        if self._within is not None:
            self._within(turn, room)

    def _drain(self, turn: Turn, room: TurnBudget) -> None:
        """Tell what is queued: left by the last turn or caused by this one."""
        queue, within = self.agent.queue, self._within
        while queue and not room.is_over:
            while queue and room.spend():
                turn.deliver_next()
                if self._is_volatile and len(turn.transaction.outer) >= WAVE:
                    break
            if within is not None:
                within(turn, room)

    def _keep_queue(self, turn: Turn) -> None:
        """Record what is still queued: it comes first in the next turn, after a crash too."""
        queue = self.agent.queue
        place = len(queue)
        while place and not queue[place - 1][0]:  # what was recorded before stands in front
            place -= 1
        for at in range(place, len(queue)):
            _, run, event = queue[at]
            row = self.agent.numbers.draw()
            queue[at] = (row, run, event)
            if not self._is_volatile:
                turn.transaction.batch.queued.append(QueuedRow(row, run, codec.encode_queued(event)))

    def _do_what_is_due(self, turn: Turn, end: float | None) -> None:
        """Fire timers and do jobs; forgetting has less room, for no request depends on it."""
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
    """The way to make the calls of a turn that need not wait for its commit."""
    if is_volatile:
        return partial(perform_in_waves, perform=perform)
    return partial(answer_in_waves, answer=answer)


def _done(request: Request, turn: Turn) -> Answer:
    """Do what was asked within the turn, and return its answer, which is given after the commit."""
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
    """The room for events in a turn: none once its time has ended, but always one.

    `is_over` is True once room was refused.
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
    """Have performed what runs ask for, and tell them the immediate results, while there is room.

    A few runs advance side by side, a wave of calls and then a wave of their returns; others follow when
    these have ended. Doing the same thing for a few runs in a row is quicker than bringing each to its end,
    for the code stays in the processor's cache. Doing it for all is slower, for their states do not.
    """
    outer = turn.transaction.outer
    of_runs: defaultdict[int, list[tuple[Run, Outer]]] = defaultdict(list)
    for asked in outer:
        of_runs[asked[0].eid].append(asked)
    outer.clear()
    others = iter(of_runs.values())
    while not room.is_over:
        if not outer:  # else it has what these runs asked for next, behind what they asked for before
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
    """Tell runs the immediate results of calls that need not wait for the commit, while there is room.

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
