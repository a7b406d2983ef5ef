"""The next plan of a recipe with `restart`, after or beside the present one."""

from __future__ import annotations

from narval.core.engines import commands
from narval.core.engines.calls.backoff import restart_wait
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.state import PlanState


def is_first(state: PlanState) -> bool:
    """True while no transition of a plan has fired, and no other plan follows it already."""
    return not state.followed and not state.has_fired


def after_end(decision: RecipeDecision) -> None:
    """Begin the plan that follows this one, which has ended."""
    state, restart = decision.state, decision.definition.restart
    if restart == "no" or state.followed or (restart == "parallel" and state.has_fired):
        return
    if state.status == "done":
        begin_next(decision)
    elif state.status == "failed":
        at = decision.event.at + restart_wait(state.attempt)
        decision.command(commands.Start(state.definition, state.first, at, state.attempt + 1))


def begin_next(decision: RecipeDecision) -> None:
    """Begin the next plan: at once, or a second after this one began if this one waited for nothing."""
    state = decision.state
    at = None if state.waited else state.started + commands.RESTART_PAUSE
    late = at is None or at <= decision.event.at
    decision.command(commands.Start(state.definition, state.first, None if late else at))
