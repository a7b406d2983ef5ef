"""Trying again: how often a call is made, how long it waits in between, and how long a run may take (N29).

A call that came back with a problem is made again as long as its step has retries left. Between two tries it
is neither under way nor back: it keeps its id, its elements and what it has reserved. Both the moment of the
next try and the time limit of a run that answers are wake-ups under the id of the call, for a call never
waits for both at once; so they are recorded, and hold across restarts.
"""

from __future__ import annotations

from msgspec.structs import replace

from narval.definitions.recipe.definition import Step
from narval.engines import commands
from narval.engines.backoff import wait
from narval.engines.events import Failure
from narval.engines.recipe.changes import CallBack, CallExpired, SourceWell, TriedAgain, TryErred
from narval.engines.recipe.decision import RecipeDecision
from narval.engines.recipe.state import CallRun
from narval.engines.recipe.steps import ask, finish, limit_of


def try_again(plan: RecipeDecision, step: Step, identifier: str, problem: Failure) -> bool:
    """Whether a call that failed is to be made again; if so, when is decided and recorded."""
    run = plan.state.step(step.id)
    call = run.calls[identifier]
    if call.tries > step.retries or problem.final or run.fault is not None:
        return False
    if call.source and plan.state.state != "running":
        return False  # it would go on for ever, and the plan is about to end
    asked = plan.view.asked(identifier)
    if asked is None:
        return False
    until = plan.event.at + wait(step.backoff, call.tries, plan.event.id)
    # lines for people stand in the journal with the event; a state may hold thousands of such calls
    plan.change(TryErred(identifier, until, replace(problem, detail=""), asked))
    plan.command(commands.SetTimer(identifier, until, keeps=call.inputs))
    return True


def woken(plan: RecipeDecision, identifier: str) -> bool:
    """A moment came: if it is that of a call, the next try begins, or the run that answers is given up."""
    if identifier not in plan.state.calls:
        return False
    step = plan.recipe.steps[plan.state.calls[identifier]]
    call = plan.state.step(step.id).calls[identifier]
    if call.asked is not None:
        asked = replace(call.asked, attempt=call.tries + 1)
        plan.change(TriedAgain(identifier))
        ask(plan, step, asked)
    else:
        plan.change(CallExpired(identifier))
        plan.ask(commands.CancelCall(identifier))
    return True


def expired(step: Step) -> Failure:
    """Why a run that outlived its time limit was given up, in the words of the executors."""
    return Failure("timeout", f"{step.target} did not come back within {limit_of(step):g} s")


def well(plan: RecipeDecision, step: Step, identifier: str) -> None:
    """A source has produced something: what failed before counts no more."""
    if plan.state.step(step.id).calls[identifier].tries > 1:
        plan.change(SourceWell(identifier))


def back(plan: RecipeDecision, step: Step, identifier: str, call: CallRun) -> None:
    """A call came back: its time limit, if the engine keeps it, is not needed any more."""
    if limit_of(step) is not None and not call.expired:
        plan.command(commands.CancelTimer(identifier))


def give_up(plan: RecipeDecision) -> None:
    """The run is cancelled: its calls under way are abandoned, and no other try is made."""
    for identifier, place in plan.state.calls.items():
        step = plan.recipe.steps[place]
        call = plan.state.step(place).calls[identifier]
        if call.asked is not None:
            plan.command(commands.CancelTimer(identifier))
        else:
            back(plan, step, identifier, call)
            if not call.expired:
                plan.ask(commands.CancelCall(identifier))


def end_sources(plan: RecipeDecision) -> None:
    """The plan winds up: a source that waits for its next try is not begun again (N36)."""
    for identifier in plan.let_go:
        step = plan.recipe.steps[plan.state.calls[identifier]]
        plan.command(commands.CancelTimer(identifier))
        plan.change(CallBack(identifier))
        if not plan.state.step(step.id).calls:
            finish(plan, step)
    plan.let_go.clear()
