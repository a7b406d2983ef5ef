"""The engine of work: items that people are offered, and answer (P1–P43).

`table` says what each act does in each state, and `acts` does them. `claims` decides who has an item, `votes`
counts the answers of several people, `deadlines` does what is due, and `ending` ends items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from narval.core.engines.decision import Inputs
from narval.core.engines.events import Cancelled, Event, Failure, Returned, Signalled, Started, TimerFired
from narval.kinds.work.engine import acts, ending, notices
from narval.kinds.work.engine.changes import GivenUp, Notified, WorkChange
from narval.kinds.work.engine.deadlines import _do_what_is_due, _set_timer, _woken, offering
from narval.kinds.work.engine.decision import NO_ACT, NotSoError, WorkDecision
from narval.kinds.work.engine.explain import conceal as conceal
from narval.kinds.work.engine.explain import explain as explain
from narval.kinds.work.engine.explain import part_word as part_word
from narval.kinds.work.engine.explain import parts as parts
from narval.kinds.work.engine.explain import render as render
from narval.kinds.work.engine.explain import story as story
from narval.kinds.work.engine.explain import waiting_for as waiting_for
from narval.kinds.work.engine.graph import graph as graph
from narval.kinds.work.engine.state import WorkState
from narval.kinds.work.engine.table import ACTS_ON_ITEMS
from narval.kinds.work.language.definition import WorkDefinition

kind = "work"
definition_kind = "work"
changes = WorkChange.union()
state_type = WorkState
decision_type = WorkDecision
instead_of_retry = "retry the run that asked, from the step that did: it asks again"


def heeds_people(state: WorkState) -> str:
    """The signal that tells a claimed item of a changed directory; "" for any other item."""
    return "review" if state.claim is not None and not state.over else ""


def begun_anew(_: WorkDefinition, state: WorkState, newest: WorkDefinition) -> tuple[tuple[int, ...], Inputs]:
    """The elements that an item shows, and its inputs, unless the newest version has other inputs."""
    slots, there = newest.prototype.inputs, {name for name, _ in state.inputs}
    is_same = {slot.id for slot in slots if not slot.optional} <= there <= {slot.id for slot in slots}
    return tuple(eid for _, eids in state.inputs for eid in eids), state.inputs if is_same else ()


def advance(decision: WorkDecision, event: Event) -> None:
    """Decide the changes and commands that follow from one event."""
    state = decision.state
    was_over = state.over
    match event:
        case Signalled():
            _signalled(decision, event)
        case Started() if state.status == "ready":
            _started(decision, event)
        case TimerFired() if not state.over:
            _woken(decision, event.wake)
        case Cancelled() if not state.over:
            ending.withdraw(decision, event)
        case Returned() if not state.over:
            notices.returned(decision, event)
    if not state.over:
        if not isinstance(event, Returned):
            notices.settle(decision)
        _set_timer(decision)
    elif not was_over and state.notices:
        notices.tell_end(decision, ending.over(state, decision.view.zone))


def fail(decision: WorkDecision, error: int) -> None:
    """End an item whose advance raised."""
    decision.change(GivenUp(decision.event.at, "failed", error))
    ending.report(decision, ())


def _started(decision: WorkDecision, event: Started) -> None:
    try:
        offering.offer(decision, event)
    except NotSoError as error:
        ending.give_up(decision, error.failure.kind, error.failure.message)
        return
    _do_what_is_due(decision)


def _signalled(decision: WorkDecision, event: Signalled) -> None:
    """Do what a person asks, within the rules; a refused act changes nothing."""
    state = decision.state
    if event.act is None:
        why = "people answer work by `narval work`, which knows who they are"
        decision.refuse(event, "not-listening", why)
    elif _note(decision, event):
        return
    elif event.name not in ACTS_ON_ITEMS:
        decision.refuse(event, "no-act", f"expected {', '.join(ACTS_ON_ITEMS)}, got {event.name!r:.80}")
    elif state.over:
        decision.turn_away(event, Failure("over", ending.over(state, decision.view.zone)))
    elif state.status == "ready":
        decision.refuse(event, "no-item", "it is not offered yet; ask again")
    else:
        failure = notices.refusal(decision, event)
        if failure is None:
            try:
                acts.act(decision, event)
            except NotSoError as error:
                failure = error.failure
        if failure is None:
            notices.spend(decision, event)
        else:
            decision.turn_away(event, failure)
            notices.refused(decision, event, failure)


# --- signals of narval itself ----------------------------------------------------------------------------


def _note(decision: WorkDecision, event: Signalled) -> bool:
    """Handle a signal of narval itself; False if it is an act of a person."""
    if event.name not in _NOTES:
        return False
    if decision.state.status != "ready":
        _NOTES[event.name](decision, event)
    return True


def _notified(decision: WorkDecision, event: Signalled) -> None:
    way = event.act.way if event.act is not None else ""
    to, message, why = (event.text(name) for name in ("to", "message", "why"))
    decision.change(Notified(event.at, to, way, message, why))
    decision.answer(event, state=decision.state.status)


def _turned_away(decision: WorkDecision, event: Signalled) -> None:
    """Record what a surface refused before it became an act, such as a mail that is not authentic."""
    failure = Failure(event.text("kind"), event.text("message"))
    decision.turn_away(event, failure)
    if not decision.state.over:
        notices.no_act(decision, event, failure)


def _review(decision: WorkDecision, event: Signalled) -> None:
    """Check again that the claimant may still have the item, because the directory has changed."""
    if not decision.state.over:
        decision.check_claim()
    decision.answer(event, state=decision.state.status)


_NOTES: Mapping[str, Callable[[WorkDecision, Signalled], None]] = {
    "notified": _notified,
    NO_ACT: _turned_away,
    "review": _review,
}
