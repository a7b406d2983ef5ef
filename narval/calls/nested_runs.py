"""Runs that answer calls: each call of a runnable definition starts a run."""

from __future__ import annotations

import logging
from typing import Any

from narval.agent.agent import OVER_LIMIT
from narval.agent.run import Run
from narval.agent.runs import cannot_start
from narval.agent.turn import Turn
from narval.calls.of_kinds import hand_over
from narval.core.engines.commands import Call
from narval.core.engines.events import Caller, Failure, HeldCalls, Returned
from narval.core.engines.registry import engine_of

log = logging.getLogger("narval.turn")


def begin_run(run: Run, call: Call, turn: Turn, held: HeldCalls | None = None) -> None:
    """Start the run that answers a call. Do nothing if it has already started or is no longer awaited; refuse
    if its family would become too deep or too large, or its agent has as many runs as it may.

    With `held`, the run answers nothing: its result decides whether these calls are made (P72).
    """
    if call.call in turn.agent.runs.by_call or call.call not in run.calls:
        return
    if call.call in run.abandoned:
        turn.tell(run.eid, Returned(0, 0.0, call.call, abandoned=True))
        return
    families = turn.agent.runs.families
    refusal = families.refusal(run, call.name)
    if refusal is None and (over := turn.agent.excess_of_runs()):
        refusal = Failure(OVER_LIMIT, over, final=True)
    if refusal is not None:
        _refuse(turn, run, call, held, refusal)
        return
    caller = Caller(run.eid, call.step, call.call, call.nearby, held=held)
    environment: Any = (call.payload or {}).get("environment")
    given = {"kind": call.kind, "caller": caller, "environment": environment, "inputs": call.inputs}
    is_own = (call.kind, call.name) == (run.engine.definition_kind, run.name)  # one has begun, so another may
    begun = turn.start(
        call.name, call.elements, run_kind=engine_of(call.kind).kind if is_own else "", **given
    )
    if begun is None:
        definition = turn.agent.lookup.definition(run, call.kind, call.name)
        refused = cannot_start(turn.agent, definition) if definition is not None else None
        unknown = ("unknown-target", f"there is no {call.kind} named {call.name}")
        problem = Failure(*(refused or unknown), final=refused is not None or held is not None)
        _refuse(turn, run, call, held, problem)
        return
    hand_over(run, call, begun)
    if (warning := families.warning(begun)) is not None:
        log.warning("%s", warning)


def _refuse(turn: Turn, run: Run, call: Call, held: HeldCalls | None, problem: Failure) -> None:
    """Tell a run that its call, or the calls that were held back, cannot be answered."""
    for id in [call.call] if held is None else [id for id, _ in held.calls]:
        turn.tell(run.eid, Returned(0, 0.0, id, problem=problem))
