"""The events of a scenario as work of a turn: starts, arrivals, outdatings and signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    Scheduled,
    ScheduledElement,
    ScheduledOutdating,
    ScheduledRaise,
    ScheduledSignal,
    ScheduledStart,
)


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
