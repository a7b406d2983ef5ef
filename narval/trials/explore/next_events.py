"""The events that may come next to a run: everything the contract allows."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from narval.core.engines import events
from narval.core.engines.commands import SEND, SIGNAL, Call, Watch
from narval.core.engines.registry import is_runnable
from narval.core.patterns.contradictions import contradictory, demands
from narval.trials.explore.state import FIRST_EVENT, LAST_MOMENT, ErrorSeen, ExplorationState
from narval.trials.explore.unknown_memory import MANY, MISFIT, Targets

WELL, ERRS, LATE, WRONG, GIVEN_UP = "well", "error", "timeout", "wrong", "given up"
"""The outcomes of a call: its outputs, an error, a timeout, a wrong output, or given up."""

_MESSAGES = {ERRS: "the call ended in an error", LATE: "the call was not back in time"}


class NextEvent(msgspec.Struct, frozen=True):
    """An event, the outcome of the call if it is a return, and the error it brings, by its eid."""

    event: events.Event
    outcome: str = ""
    errors: dict[int, ErrorSeen] = {}
    next_eid: int = 0


def first_event() -> NextEvent:
    """The beginning of a run."""
    return NextEvent(events.Started(FIRST_EVENT, ExplorationState(b"").now))


def next_events(reached: ExplorationState, targets: Targets) -> Iterator[NextEvent]:
    """The events that may come next; good outcomes first."""
    identifier, now = FIRST_EVENT + reached.depth, reached.now
    for call in reached.in_force.calls.values():
        yield from _returns(call, reached, identifier, targets)
    for watch in reached.in_force.watches.values():
        if not (watch.standing or in_vain(watch)):
            event = events.Matched(identifier, now, watch.watch, reached.next_eid)
            yield NextEvent(event, next_eid=reached.next_eid + 1)
    for wake in sorted(reached.in_force.wakes.values(), key=lambda wake: wake.at):
        if wake.standing and reached.rounds + 1 >= MANY:  # together with the first call these are many
            continue
        yield NextEvent(events.TimerFired(identifier, max(now, wake.at), wake.wake))
        if wake.calendar and wake.at > now:
            yield NextEvent(events.TimerFired(identifier, now, wake.wake))


def at_any_time(reached: ExplorationState) -> Iterator[NextEvent]:
    """The events that may come at any moment: a signal, a cancellation."""
    identifier, now = FIRST_EVENT + reached.depth, reached.now
    yield NextEvent(events.Signalled(identifier, now, f"{identifier}.0", "any"))
    yield NextEvent(events.Cancelled(identifier, now, "someone asked"))


def much_later(coming: NextEvent) -> NextEvent:
    """The same event after all dates that will ever come."""
    return msgspec.structs.replace(coming, event=msgspec.structs.replace(coming.event, at=LAST_MOMENT))


def in_vain(watch: Watch) -> bool:
    """True if no element can ever satisfy a watch, and the watch has no other trigger."""
    return not watch.elements and all(contradictory(demands(bound)) for bound in watch.conditions)


def _returns(call: Call, reached: ExplorationState, identifier: int, targets: Targets) -> Iterator[NextEvent]:
    """The possible returns of a call."""
    now, eid = reached.now, reached.next_eid
    if is_runnable(call.kind):
        yield NextEvent(events.Returned(identifier, now, call.call, eids=(eid,)), WELL, next_eid=eid + 1)
    else:
        outputs = targets.outputs(call.kind, call.name)
        yield NextEvent(events.Returned(identifier, now, call.call, outputs), WELL)
        if targets.is_source(call.kind, call.name):
            yield from _yields(call, identifier, now, outputs)
        if call.kind not in (SEND, SIGNAL):  # it has no output
            yield NextEvent(events.Returned(identifier, now, call.call, (MISFIT,)), WRONG)
    yield _erring(call, reached, identifier, ERRS)
    yield _erring(call, reached, identifier, ERRS, final=True)
    if call.timeout is not None:
        yield _erring(call, reached, identifier, LATE)
    if call.call in reached.in_force.abandoned:
        yield NextEvent(events.Returned(identifier, now, call.call, abandoned=True), GIVEN_UP)


def _yields(
    call: Call, identifier: int, now: float, outputs: tuple[events.OutputElement, ...]
) -> Iterator[NextEvent]:
    """The elements that a source may yield before its end (N36)."""
    if outputs:
        yield NextEvent(events.Produced(identifier, now, call.call, outputs), WELL)
    yield NextEvent(events.Produced(identifier, now, call.call, (MISFIT,)), WRONG)


def _erring(
    call: Call, reached: ExplorationState, identifier: int, outcome: str, *, final: bool = False
) -> NextEvent:
    """The events in which a call ends in error; a final one cannot be retried; a run leaves its errors."""
    problem, eid = events.Failure(outcome, _MESSAGES[outcome], final=final), reached.next_eid
    if not is_runnable(call.kind):
        return NextEvent(events.Returned(identifier, reached.now, call.call, problem=problem), outcome)
    event = events.Returned(identifier, reached.now, call.call, eids=(eid,), problem=problem)
    return NextEvent(event, outcome, {eid: ErrorSeen(problem.kind, problem.message, call.step)}, eid + 1)
