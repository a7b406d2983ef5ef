"""Retries: how often a call is made, the waits in between, and the time limit of a run (N29).

A call that returned with a problem is made again while its step has retries left. Between two tries it is
neither under way nor returned: it keeps its id, its elements and its reservations. The next try and the time
limit of the answering run are both timers under the id of the call, which never waits for both at once.
Timers are recorded, and so hold across restarts.
"""

from __future__ import annotations

from msgspec.structs import replace

from narval.core.engines import commands
from narval.core.engines.calls.backoff import wait
from narval.core.engines.events import Failure
from narval.kinds.recipe.engine.changes import (
    CallExpired,
    CallReturned,
    NextTryMade,
    TriesReset,
    TryFailed,
)
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.state import CallRun
from narval.kinds.recipe.engine.steps.repeats import is_satisfied
from narval.kinds.recipe.engine.steps.running import ask, limit_of
from narval.kinds.recipe.language.definition import Step


def try_again(decision: RecipeDecision, step: Step, identifier: str, problem: Failure) -> bool:
    """Record another try of a call that failed; False if it has none left."""
    run = decision.state.step(step.id)
    call = run.calls[identifier]
    spoilt = run.fault is not None and step.id not in decision.state.following
    if call.tries > step.retries or problem.final or spoilt:
        return False
    if call.source and decision.state.status != "running":
        return False  # it would run for ever, and the plan is about to end
    target = decision.view.definition(step.kind, step.target)
    if not getattr(target, "is_tried_again", True):
        return False
    return rest(decision, call, identifier, problem, wait(step.backoff, call.tries, decision.event.id))


def rest(decision: RecipeDecision, call: CallRun, identifier: str, problem: Failure, seconds: float) -> bool:
    """Schedule another try of a call after a number of seconds; False if the call is no longer known."""
    asked = decision.view.pending_call(identifier)
    if asked is None:
        return False
    until = decision.event.at + seconds
    # `detail` is in the journal with the event; a state may have thousands of such calls
    decision.change(TryFailed(identifier, until, replace(problem, detail=""), asked))
    decision.command(commands.SetTimer(identifier, until, keeps=call.inputs))
    return True


def timer_fired(decision: RecipeDecision, identifier: str) -> bool:
    """Make the next try of a call, or give up the run that answers it; False if no call has this timer."""
    if identifier not in decision.state.calls:
        return False
    step = decision.definition.steps[decision.state.calls[identifier]]
    call = decision.state.step(step.id).calls[identifier]
    if call.next_try is not None and step.until is not None and is_satisfied(decision, step):
        decision.free(call.reserved, well=False)
        decision.change(CallReturned(identifier))
        decision.to_run.append(step)
    elif call.next_try is not None:
        asked = replace(call.next_try, attempt=call.tries + 1, always="", begun=False)
        # An unbounded counter would make each state of the plan unique, and exploration endless.
        decision.change(NextTryMade(identifier, counted=call.tries <= step.retries + 1))
        ask(decision, step, asked)
    else:
        decision.change(CallExpired(identifier))
        decision.ask(commands.CancelCall(identifier))
    return True


def expired(step: Step) -> Failure:
    """The failure of a run that exceeded its time limit, in the words of the executors."""
    late = f"did not come back within {limit_of(step):g} s"
    return Failure("timeout", f"{step.called if step.agent else step.target} {late}")


def reset_tries(decision: RecipeDecision, step: Step, identifier: str) -> None:
    """Count a source's tries from zero again, because it has produced something."""
    if decision.state.step(step.id).calls[identifier].tries > 1:
        decision.change(TriesReset(identifier))


def back(decision: RecipeDecision, step: Step, identifier: str, call: CallRun) -> None:
    """Drop the time limit of a call that has returned, if the engine enforces it."""
    if limit_of(step) is not None and not call.expired:
        decision.command(commands.CancelTimer(identifier))


def cancel_calls(decision: RecipeDecision) -> None:
    """Give up the calls under way, and pending tries."""
    for identifier, place in decision.state.calls.items():
        step = decision.definition.steps[place]
        call = decision.state.step(place).calls[identifier]
        if call.next_try is not None:
            decision.command(commands.CancelTimer(identifier))
        else:
            back(decision, step, identifier, call)
            if not (call.expired or call.spoilt):
                decision.ask(commands.CancelCall(identifier))
