"""The events of a scenario, in the order of simulated time.

The agenda has the work of a scenario and its expectations by due moment. Work is done in a turn: starts,
arrivals, outdatings and signals.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from itertools import count

from narval.agent.declared import outdate_elements, replace_element
from narval.agent.runs import cannot_start, cannot_take
from narval.agent.turn import Turn
from narval.ask.documents import add_all, raise_if_refused
from narval.core.elements.element import Origin
from narval.core.engines.events import OutputElement, PersonsAct, Plain, Signalled
from narval.core.engines.registry import runnable, taking
from narval.core.errors import RequestError, TokenError
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Condition
from narval.trials.simulate.scenario import (
    Expectation,
    Scheduled,
    ScheduledElement,
    ScheduledOutdating,
    ScheduledRaise,
    ScheduledSignal,
    ScheduledStart,
)

Work = Callable[[], None]

TOGETHER = 50
"""The most entries of a stream that are done at once."""


class Agenda:
    """Two queues by moment (seconds since 1970, UTC); entries of one moment keep the order of the file."""

    __slots__ = ("_expectations", "_order", "_stream", "_streamed", "_work")

    def __init__(self) -> None:
        self._stream: Iterator[tuple[float, Work]] = iter(())
        self._streamed: tuple[float, Work] | None = None
        """The first pending entry of the stream."""
        self._work: list[tuple[float, int, Work]] = []
        self._expectations: list[tuple[float, int, Expectation]] = []
        self._order = count()

    def add(self, at: float, work: Work) -> None:
        """Do something at a moment."""
        heapq.heappush(self._work, (at, next(self._order), work))

    def stream(self, works: Iterator[tuple[float, Work]]) -> None:
        """Do the entries of a stream in order of time, each requested after the one before it is done."""
        self._stream = works
        self._streamed = next(works, None)

    def repeat(self, at: float, work: Work, every: float | None, times: float) -> None:
        """Do something at a moment, and again after each `every` seconds, `times` times in all."""

        def again() -> None:
            work()
            if every is not None and times > 1:
                self.repeat(at + every, work, every, times - 1)

        self.add(at, again)

    def expect(self, at: float, expectation: Expectation) -> None:
        """Judge an expectation at a moment, after all events of that moment."""
        heapq.heappush(self._expectations, (at, next(self._order), expectation))

    def next(self) -> float:
        """The next moment; infinite when nothing is left."""
        streamed = math.inf if self._streamed is None else self._streamed[0]
        return min([streamed, *(queue[0][0] for queue in (self._work, self._expectations) if queue)])

    def last(self, start: float) -> float:
        """The last moment known so far, at least `start`."""
        return max([start, *(entry[0] for entry in (*self._work, *self._expectations))])

    def do_work(self, now: float) -> None:
        """Do all due work, but not so much of a stream at once that it looks like an endless start."""
        while self._work and self._work[0][0] <= now:
            heapq.heappop(self._work)[2]()
        for _ in range(TOGETHER):
            if self._streamed is None or self._streamed[0] > now:
                break
            self._streamed[1]()
            self._streamed = next(self._stream, None)

    def due_expectations(self, now: float) -> Iterator[Expectation]:
        """Remove and yield the expectations that are due, in order."""
        while self._expectations and self._expectations[0][0] <= now:
            yield heapq.heappop(self._expectations)[2]


class _UnmetError(Exception):
    """The object of an event does not exist, or the event is refused."""


def happen(scheduled: Scheduled, path: str, turn: Turn) -> None:
    """Carry out a due event. Raises ElementError; RequestError, with its place in the file of that path, if
    its object does not exist.
    """
    try:
        _WAYS[type(scheduled)](scheduled, turn)
    except _UnmetError as unmet:
        place = f"{scheduled.line}:{scheduled.column}"
        raise RequestError(f"{path}:{place}: {unmet}" if path else f"{place}: {unmet}") from None


def _start(start: ScheduledStart, turn: Turn) -> None:
    found = taking(turn.agent.library, start.recipe) if start.elements else None
    if found is not None:
        task, run_kind = found
        if (refused := cannot_take(turn.agent, task)) is not None:
            raise TokenError(*refused)
        for eid in add_all(turn, start.elements):
            turn.start(start.recipe, (eid,), definition=task, run_kind=run_kind)
        return
    definition = runnable(turn.agent.library, start.recipe)
    if definition is not None and (refused := cannot_start(turn.agent, definition)) is not None:
        raise TokenError(*refused)
    turn.start(start.recipe, tuple(add_all(turn, start.elements)))


def _arrive(arrival: ScheduledElement, turn: Turn) -> None:
    with turn.transaction.coming_with(turn.agent.memory.labels.number(arrival.labels)):
        _add(arrival, turn)


def _add(arrival: ScheduledElement, turn: Turn) -> None:
    if arrival.replaces is None:
        add_all(turn, arrival.elements)
        return
    old = max(_current(turn.agent.memory, arrival.replaces), default=None)
    if old is None:
        raise _nothing("an element", arrival.replaces)
    raise_if_refused(turn, arrival.elements)
    replace_element(turn, old, arrival.elements[0], Origin(inputs=(old,)))


def _outdate(outdating: ScheduledOutdating, turn: Turn) -> None:
    eids = tuple(_current(turn.agent.memory, outdating.condition))
    if not eids:
        raise _nothing("an element", outdating.condition)
    outdate_elements(turn, eids, outdating.reason)


def _signal(signal: ScheduledSignal, turn: Turn) -> None:
    event = Signalled(0, 0.0, "", signal.name, tuple(map(OutputElement, signal.elements)))
    runs = list(_runs(signal, turn))
    if not runs:
        raise _nothing(f"a run of {signal.recipe} under way", signal.condition)
    for run in runs:
        for answer in turn.signal(run, event):
            if answer.problem is not None:
                raise _UnmetError(f"run {run} did not take it: {answer.problem.message}")


def _raise(raised: ScheduledRaise, turn: Turn) -> None:
    server = turn.agent.signals.standing.get(raised.recipe, 0)
    arguments: dict[str, Plain] = {"event": raised.event, "parameters": [*raised.parameters], "mode": "async"}
    by = raised.by or next((person.name for person in turn.agent.lookup.people.people), "")
    event = Signalled(0, 0.0, "", "raise", (), arguments, by, act=PersonsAct("scenario"))
    answers = turn.signal(server, event)
    if not answers:
        raise _UnmetError(f"expected the standing run of {raised.recipe}, which has events, found none")
    if (problem := answers[0].problem) is not None:
        raise _UnmetError(f"{raised.recipe} did not take {raised.event}: {problem.message}")


def _runs(signal: ScheduledSignal, turn: Turn) -> Iterator[int]:
    """The active runs that a signal is for."""
    memory = turn.agent.memory
    fits = None if signal.condition is None else set(memory.select(signal.condition.bind()))
    for eid, run in turn.agent.runs.items():
        meant = run.active and run.name == signal.recipe
        if meant and (fits is None or not fits.isdisjoint(memory.contexts.of(eid))):
            yield eid


def _current(memory: Memory, condition: Condition) -> Iterator[int]:
    """The elements that satisfy the condition and are not replaced."""
    return (eid for eid in memory.select(condition.bind()) if eid not in memory.outdated)


def _nothing(what: str, condition: Condition | None) -> _UnmetError:
    suffix = f" that fits {condition.text}" if condition is not None else ""
    return _UnmetError(f"expected {what}{suffix}, found none at that moment")


_WAYS: dict[type, Callable[..., None]] = {
    ScheduledStart: _start,
    ScheduledElement: _arrive,
    ScheduledOutdating: _outdate,
    ScheduledRaise: _raise,
    ScheduledSignal: _signal,
}
