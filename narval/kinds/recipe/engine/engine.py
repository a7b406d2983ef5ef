"""The recipe engine: its runs are plans (N21–N28).

`changes.py` has the facts and their effects, `state.py` the state that they alter, with the tables of moves.
In `steps/`, `running.py` makes the calls of a step, with the inputs that `inputs.py` finds, and `returns.py`
handles their returns and ends the step. In `transitions/`, `firing.py` decides how the plan continues, by
what `conditions.py` says that transitions wait for. `_settle`, below, alternates between the two.
`decision.py` has what they share in one advance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narval.core.definitions.action.definition import Action
from narval.core.definitions.schedule import Time
from narval.core.engines import commands, events
from narval.core.engines.decision import Inputs, element_of
from narval.core.engines.engine import Find
from narval.core.errors import ElementError, RequestError
from narval.kinds.recipe.engine import migrating, resume
from narval.kinds.recipe.engine.changes import PlanChange, PlanMoved, PlanRedefined, PlanStarted
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.explain import explain as explain
from narval.kinds.recipe.engine.explain import part_word as part_word
from narval.kinds.recipe.engine.explain import story as story
from narval.kinds.recipe.engine.graph import graph as graph
from narval.kinds.recipe.engine.graph import parts as parts
from narval.kinds.recipe.engine.graph import render as render
from narval.kinds.recipe.engine.migrating import migrated as migrated
from narval.kinds.recipe.engine.resume import plan_resume as plan_resume
from narval.kinds.recipe.engine.state import PlanState
from narval.kinds.recipe.engine.steps import repeats, retries, returns, running
from narval.kinds.recipe.engine.structure import exits as exits
from narval.kinds.recipe.engine.structure import structure as structure
from narval.kinds.recipe.engine.transitions import combinations, conditions, firing
from narval.kinds.recipe.engine.waits import diagnose as diagnose
from narval.kinds.recipe.engine.waits import waiting_for as waiting_for
from narval.kinds.recipe.language.definition import Recipe, Step

kind = "plan"
definition_kind = "recipe"
changes = PlanChange.union()
state_type = PlanState
decision_type = RecipeDecision


def resumed_from(state: PlanState) -> tuple[int, str] | None:
    """The plan and step that this plan was retried from; None for a plan that is not a retry."""
    return state.resumed


def dates_of(definition: Recipe, part: str) -> tuple[Time, ...]:
    """The dates of a transition."""
    transition = definition.transition_of(part)
    return transition.times if transition is not None else ()


def is_untouched(recipe: Recipe, state: PlanState, find: Find) -> bool:
    """True while a plan waits at its beginning: no transition has fired, no date has come, and its first step
    has done only what can be repeated.

    A plan with an appointment set is not untouched: appointments count from the beginning of the plan.
    """
    start = state.step(recipe.start.id)
    return (
        state.status == "running"
        and state.resumed is None
        and not state.calls
        and start.state in ("ready", "done")
        and not start.produced
        and all(run.state == "todo" for id, run in state.steps.items() if id != recipe.start.id)
        and not any(_has_moved(recipe, state, transition) for transition in state.transitions)
        and (start.state == "ready" or _does_nothing(recipe.start, find))
    )


def begun_anew(recipe: Recipe, state: PlanState, _: Recipe) -> tuple[tuple[int, ...], Inputs]:
    """The first context of a plan that begins again. Raises RequestError if another plan waits in its
    place.
    """
    if recipe.restart == "parallel" and not state.is_first:
        again = f"narval retry {state.eid} --from {recipe.start.id}"
        raise RequestError(
            f"run {state.eid} is not restarted, for another plan of {recipe.full_name} waits in its place: "
            f"`narval cancel {state.eid}` and then `{again}` does it again with what it took"
        )
    return state.first, ()


def _has_moved(recipe: Recipe, state: PlanState, transition: str) -> bool:
    run = state.transition(transition)
    is_set = transition in state.awaiting_date and bool(recipe.transitions[transition].appointments)
    return run.state == "fired" or run.come or run.given_up or is_set


def _does_nothing(step: Step, find: Find) -> bool:
    """True for a step whose call can be repeated unnoticed: it takes nothing, and has no effect outside."""
    target = find(step.kind, step.target) if step.kind == Action.kind and not step.agent else None
    return isinstance(target, Action) and not target.outside and not target.prototype.inputs


def fail(decision: RecipeDecision, error: int) -> None:
    """Fail a plan whose advance raised, and start the next one if the recipe restarts."""
    decision.change(PlanMoved("failed", decision.event.at, error))
    _finish(decision)


def advance(decision: RecipeDecision, event: events.Event) -> None:
    """Record the changes and commands that follow from one event."""
    decide = _ON.get(type(event))
    if decide is not None and decision.state.ended is None:
        decide(decision, event)
        _settle(decision)


def _started(decision: RecipeDecision, event: events.Started) -> None:
    if decision.state.status != "ready":
        return
    decision.change(PlanStarted(event.at, event.elements, event.caller, event.attempt))
    decision.add_to_context(event.elements)
    if event.resume is None:
        running.make_ready(decision, decision.definition.start)
    else:
        resume.resumed(decision, event.resume)


def _redefined(decision: RecipeDecision, event: events.Redefined) -> None:
    """Start the plan again with the present version, and drop its waits."""
    decision.stop_waiting()
    decision.change(PlanRedefined(event.version))
    running.make_ready(decision, decision.definition.start)


def _matched(decision: RecipeDecision, event: events.Matched) -> None:
    for step in decision.state.blocked:
        if decision.state.step(step).watch == event.watch:
            decision.command(commands.Unwatch(event.watch))
            decision.to_run.append(decision.definition.steps[step])
            return
    for step in decision.state.following:
        if decision.state.step(step).watch == event.watch:
            retries.follow_selection(decision, decision.definition.steps[step], event.eid)
            return
    if not repeats.matched(decision, event.watch):
        firing.matched(decision, event.watch, event.eid)


def _timer_fired(decision: RecipeDecision, event: events.TimerFired) -> None:
    if not (retries.timer_fired(decision, event.wake) or repeats.timer_fired(decision, event.wake)):
        firing.timer_fired(decision, event.wake)


_LISTENING = frozenset({"ready", "running"})
"""The states in which a plan may still wait for something."""


def _signalled(decision: RecipeDecision, event: events.Signalled) -> None:
    """Add a signal to memory, let it trigger a transition, and answer it.

    `<signal name="approve" run="12">` contains the elements that came with it. It is addressed: the plan, and
    the plans it calls, find it in their contexts. The search through all of memory skips it, so that
    approving one order does not approve another. A signal that nothing waits for yet is not lost: a later
    condition finds it.
    """
    if decision.state.status not in _LISTENING:
        why = f"plan {decision.state.eid} is {decision.state.status}: it waits for nothing more"
        decision.refuse(event, "not-listening", why)
        return
    try:
        xml = element_of(event, decision.state.eid)
    except ElementError as error:
        decision.refuse(event, error.kind, str(error))
        return
    refusal = decision.view.schema_fault(xml)
    if refusal is not None:
        decision.refuse(event, "invalid", refusal)
        return
    eid = decision.add_told(xml, event)
    decision.answer(event, eid=eid, taken_by=_offer(decision, eid))


def _offer(decision: RecipeDecision, eid: int) -> str | None:
    """The transition that took the signal at once, or the step that it ended; None if nothing waited
    for it.
    """
    for identifier in tuple(decision.state.waiting):
        watch = decision.state.transition(identifier).watch
        if identifier not in decision.state.waiting or not _concerns(decision, identifier, eid):
            continue
        firing.matched(decision, watch)
        if eid in decision.state.transition(identifier).took:
            return identifier
    for identifier in tuple(decision.state.resting):
        if (
            repeats.matched(decision, decision.state.step(identifier).watch)
            and identifier not in decision.state.resting
        ):
            return identifier
    return None


def _concerns(decision: RecipeDecision, identifier: str, eid: int) -> bool:
    """True if some condition of a transition may take the signal."""
    transition = decision.definition.transitions[identifier]
    look_up = conditions.wanted if transition.plain else combinations.relaxed
    return any(
        any(True for _ in decision.view.among((eid,), bound, scope))
        for bound, scope in look_up(decision, transition)
    )


def _cancelled(decision: RecipeDecision, event: events.Cancelled) -> None:
    """End the plan at once: give up calls under way, and free what they reserved."""
    decision.stop_waiting()
    reserved = _reserved(decision.state)
    if reserved:
        decision.command(commands.Release(reserved))
    retries.cancel_calls(decision)
    decision.change(PlanMoved("cancelled", event.at))
    _finish(decision)


def _reserved(state: PlanState) -> tuple[int, ...]:
    """The elements that running steps and their calls have reserved."""
    running = [run for run in state.steps.values() if run.state == "running"]
    shared = [eid for run in running if run.foreach is not None for eid in run.foreach.reserved]
    return (*shared, *(eid for run in running for call in run.calls.values() for eid in call.reserved))


_ON: dict[type, Callable[[RecipeDecision, Any], None]] = {
    events.Started: _started,
    events.Redefined: _redefined,
    events.Migrated: migrating.follow_version,
    events.Returned: returns.returned,
    events.Produced: returns.produced,
    events.Matched: _matched,
    events.Signalled: _signalled,
    events.TimerFired: _timer_fired,
    events.Cancelled: _cancelled,
}


def _settle(decision: RecipeDecision) -> None:
    """Run steps and follow transitions until none is left, then end the plan if it has ended."""
    to_run, to_follow, state = decision.to_run, decision.to_follow, decision.state
    while to_run or to_follow:
        if to_run:
            running.run(decision, to_run.pop(0))
        else:
            firing.follow(decision, to_follow.pop(0))
    if decision.sources_to_end:
        retries.end_sources(decision)
    if not state.calls:
        firing.fail_if_stuck(decision)
        if state.status in ("end", "failed-end"):
            to = "done" if state.status == "end" else "failed"
            decision.change(PlanMoved(to, decision.event.at))
        if state.status in ("done", "failed"):
            _finish(decision)


def _finish(decision: RecipeDecision) -> None:
    """Tell the caller, start the next plan, and schedule forgetting."""
    decision.report_end(_result(decision.state))
    decision.follow_end()


def _result(state: PlanState) -> tuple[int, ...]:
    """The elements for the caller: the steps' products, or the error elements of a failed plan."""
    if state.status == "done":
        return tuple(eid for run in state.steps.values() for eid in run.produced)
    if state.status == "cancelled" or state.error is None:
        return ()
    unhandled = (eid for step in state.in_error for eid in state.step(step).errors)
    failed = (run for run in state.steps.values() if run.fault is not None)
    faults = (eid for run in failed for eid in (run.fault, *run.errors) if eid is not None)
    return tuple(dict.fromkeys((state.error, *unhandled, *faults)))
