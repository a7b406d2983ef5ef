"""Steps that are called again until memory has what they wait for (`until` and `every`, N40).

Before each call, including the first, memory is queried: an element that fits `until` ends the step as done.
Between two calls the step is running without a call: a watch reports elements that fit, and a timer the
moment of the next call. That moment is computed from the previous call, and recorded; moments that passed
without a daemon are made up for by one call. Each call searches for its inputs again.
"""

from __future__ import annotations

from narval.core.engines import commands
from narval.core.patterns.pattern import Bound
from narval.kinds.recipe.engine.changes import RestEnded, StepResting
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.language.definition import Step

LAST_MOMENT = 253_402_214_400.0
"""31 December 9999: later moments never come."""


def is_satisfied(decision: RecipeDecision, step: Step) -> bool:
    """True if an element in the plan's context or in memory fits the step's `until`."""
    bound = bound_of(decision, step)
    ranks = decision.surroundings(None, ()).ranks(bound, None)
    return decision.view.judge((eid for rank in ranks() for eid in rank), bound).holds


def bound_of(decision: RecipeDecision, step: Step) -> Bound:
    """The pattern of `until`, its variables resolved; `$STEP` of the step itself is everything it has
    produced.
    """
    assert step.until is not None, step
    return step.until.bind(decision.bindings(step.until.variables))


def call_again(decision: RecipeDecision, step: Step) -> None:
    """Continue with a step whose call has returned: it is done, rests until its next call, or is called at
    once.

    When the plan winds up, the step is given up, like a waiting transition.
    """
    if is_satisfied(decision, step):
        decision.to_run.append(step)
    elif decision.state.status == "running":
        due = _next_call(decision, step)
        if due <= decision.event.at:
            decision.to_run.append(step)
        else:
            _watch(decision, step, due)


def matched(decision: RecipeDecision, watch: str) -> bool:
    """End the rest of a step if the new element fits; False if no resting step has this watch."""
    for identifier in decision.state.resting:
        if decision.state.step(identifier).watch == watch:
            step = decision.definition.steps[identifier]
            if is_satisfied(decision, step):
                _done_waiting(decision, step)
            return True
    return False


def timer_fired(decision: RecipeDecision, wake: str) -> bool:
    """Call a resting step when its moment has come; False if no resting step has this timer.

    A timer that fires early, because the clock was set back or the zone changed, is set again.
    """
    for identifier in decision.state.resting:
        run = decision.state.step(identifier)
        if run.wake != wake:
            continue
        step = decision.definition.steps[identifier]
        due = _next_call(decision, step)
        if due <= decision.event.at:
            _end_rest(decision, step)
        else:
            _rest(decision, step, due, run.watch)
        return True
    return False


def bind_anew(decision: RecipeDecision, *names: str) -> None:
    """Check again for the end of a rest, or reset its watch, because these variables have elements now."""
    for identifier in tuple(decision.state.resting):
        step, run = decision.definition.steps[identifier], decision.state.step(identifier)
        if step.until is None or step.until.variables.isdisjoint(names):
            continue
        if is_satisfied(decision, step):
            _done_waiting(decision, step)
        else:
            decision.command(commands.Unwatch(run.watch))
            decision.command(commands.CancelTimer(run.wake))
            _watch(decision, step, run.until)


def _next_call(decision: RecipeDecision, step: Step) -> float:
    """The moment of the next call, computed from the last one by the calendar."""
    assert step.every is not None, step
    moment = step.every.moment(decision.state.step(step.id).called, decision.view.zone)
    return LAST_MOMENT if moment is None else moment


def _watch(decision: RecipeDecision, step: Step, due: float) -> None:
    watch = decision.identifier()
    _rest(decision, step, due, watch)
    decision.watch(watch, [(bound_of(decision, step), None)])


def _rest(decision: RecipeDecision, step: Step, due: float, watch: str) -> None:
    wake = decision.identifier()
    decision.change(StepResting(step.id, due, watch, wake))
    decision.command(commands.SetTimer(wake, due, calendar=True, standing=True))


def _done_waiting(decision: RecipeDecision, step: Step) -> None:
    decision.command(commands.CancelTimer(decision.state.step(step.id).wake))
    _end_rest(decision, step)


def _end_rest(decision: RecipeDecision, step: Step) -> None:
    """Continue with a step: it is done, or called, depending on memory."""
    decision.command(commands.Unwatch(decision.state.step(step.id).watch))
    decision.change(RestEnded(step.id))
    decision.to_run.append(step)
