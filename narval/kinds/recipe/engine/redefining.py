"""A plan that continues with a newer version of its recipe while it has taken nothing (N31)."""

from __future__ import annotations

from narval.core.definitions.action.definition import Action
from narval.core.engines.decision import Inputs
from narval.core.engines.engine import Find
from narval.core.engines.events import Redefined
from narval.core.errors import RequestError
from narval.kinds.recipe.engine.changes import PlanRedefined
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.state import PlanState
from narval.kinds.recipe.engine.steps import running
from narval.kinds.recipe.language.definition import Recipe, Step


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


def _has_moved(recipe: Recipe, state: PlanState, transition: str) -> bool:
    run = state.transition(transition)
    is_set = transition in state.awaiting_date and bool(recipe.transitions[transition].appointments)
    return run.state == "fired" or run.come or run.given_up or is_set


def _does_nothing(step: Step, find: Find) -> bool:
    """True for a step whose call can be repeated unnoticed: it takes nothing, and has no effect outside."""
    target = find(step.kind, step.target) if step.kind == Action.kind and not step.agent else None
    return isinstance(target, Action) and not target.outside and not target.prototype.inputs


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


def redefined(decision: RecipeDecision, event: Redefined) -> None:
    """Start the plan again with the present version, and drop its waits."""
    decision.stop_waiting()
    decision.change(PlanRedefined(event.version))
    running.make_ready(decision, decision.definition.start)
