"""The recipe engine: its runs are plans (N21–N28).

`changes.py` has the facts and their effects, `parts.py` and `state.py` the state that they alter, with the
tables of moves. In `steps/`, `running.py` makes the calls of a step, with the inputs that `inputs.py` finds,
and `returns.py` handles their returns and ends the step. In `transitions/`, `firing.py` decides how the plan
continues, with `dates.py`, `conditions.py` and `impossible.py`. `_settle`, below, alternates between the two.
`decision.py` has what they share in one advance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narval.core.definitions.schedule import Time
from narval.core.engines import commands, events
from narval.kinds.recipe.engine import migrating, redefining, resume, signals
from narval.kinds.recipe.engine.changes import PlanChange, PlanMoved, PlanStarted
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.explain import explain as explain
from narval.kinds.recipe.engine.explain import part_word as part_word
from narval.kinds.recipe.engine.explain import story as story
from narval.kinds.recipe.engine.graph import graph as graph
from narval.kinds.recipe.engine.graph import parts as parts
from narval.kinds.recipe.engine.graph import render as render
from narval.kinds.recipe.engine.migrating import migrated as migrated
from narval.kinds.recipe.engine.redefining import begun_anew as begun_anew
from narval.kinds.recipe.engine.redefining import is_untouched as is_untouched
from narval.kinds.recipe.engine.resume import plan_resume as plan_resume
from narval.kinds.recipe.engine.state import PlanState
from narval.kinds.recipe.engine.steps import repeats, retries, returns, running, sources
from narval.kinds.recipe.engine.structure import exits as exits
from narval.kinds.recipe.engine.structure import structure as structure
from narval.kinds.recipe.engine.transitions import firing
from narval.kinds.recipe.engine.waits import diagnose as diagnose
from narval.kinds.recipe.engine.waits import waiting_for as waiting_for
from narval.kinds.recipe.language.definition import Recipe

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


def _matched(decision: RecipeDecision, event: events.Matched) -> None:
    for step in decision.state.blocked:
        if decision.state.step(step).watch == event.watch:
            decision.command(commands.Unwatch(event.watch))
            decision.to_run.append(decision.definition.steps[step])
            return
    for step in decision.state.following:
        if decision.state.step(step).watch == event.watch:
            sources.follow_selection(decision, decision.definition.steps[step], event.eid)
            return
    if not repeats.matched(decision, event.watch):
        firing.matched(decision, event.watch)


def _timer_fired(decision: RecipeDecision, event: events.TimerFired) -> None:
    if not (retries.timer_fired(decision, event.wake) or repeats.timer_fired(decision, event.wake)):
        firing.timer_fired(decision, event.wake)


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
    events.Redefined: redefining.redefined,
    events.Migrated: migrating.follow_version,
    events.Returned: returns.returned,
    events.Produced: returns.produced,
    events.Matched: _matched,
    events.Signalled: signals.signalled,
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
        sources.end_sources(decision)
    if not state.calls:
        firing.fail_if_stuck(decision)
        if state.status in ("end", "failed-end"):
            to = "done" if state.status == "end" else "failed"
            decision.change(PlanMoved(to, decision.event.at))
        if state.status in ("done", "failed"):
            _finish(decision)


def _finish(decision: RecipeDecision) -> None:
    """Tell the caller, start the next plan, and schedule forgetting (N5)."""
    decision.report_end(_result(decision.state))
    decision.follow_end()


def _result(state: PlanState) -> tuple[int, ...]:
    """The elements for the caller: the steps' products (N3), or the error elements of a failed plan."""
    if state.status == "done":
        return tuple(eid for run in state.steps.values() for eid in run.produced)
    if state.status == "cancelled" or state.error is None:
        return ()
    unhandled = (eid for step in state.in_error for eid in state.step(step).errors)
    faults = (run.fault for run in state.steps.values() if run.fault is not None)
    return tuple(dict.fromkeys((state.error, *unhandled, *faults)))
