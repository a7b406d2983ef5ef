"""The operation `renew`: end a run, and restart it with the current version of its definition."""

from __future__ import annotations

from typing import Any

from narval.agent.history import environment_at_start
from narval.agent.run import Run
from narval.agent.runs import cannot_start
from narval.agent.transaction import inherit
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.lookup import active_run, stays
from narval.ask.registry import operation
from narval.core.elements.element import Origin
from narval.core.engines.engine import HasEnvironment, Renewable
from narval.core.engines.events import Cancelled
from narval.core.engines.registry import standing_kinds
from narval.core.errors import RequestError, TokenError
from narval.core.kinds import ASKING
from narval.core.memory.lineage import in_force
from narval.daemon.daemon import Daemon


@operation("write")
async def renew(daemon: Daemon, run: int, reason: str = "", *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """End a run, and restart it with the current version of its definition and its first context; elements
    that it used stay used. Its caller keeps waiting, and is not notified.

    A work item is withdrawn and offered again (P79); that is for the home's owner, root, and administrators.
    """

    def again(turn: Turn) -> Run:
        record = turn.agent.runs.get(run)
        if record is not None and record.engine.definition_kind == ASKING:
            from narval.kinds.work.operations.acts import (
                check_may_renew,  # only homes with work items need it
            )

            check_may_renew(daemon, asker, run)
        begun = _begin_anew(turn, active_run(daemon, run))
        inherit(turn.transaction, begun.eid, (run,))
        why = f"restarted as {begun.eid}{f': {reason}' if reason else ''}"
        turn.tell(run, Cancelled(0, 0.0, why, **asker.recorded))
        return begun

    begun = await daemon.host.submit(again)
    return {"run": begun.eid, "instead_of": run, "name": begun.name}


def _begin_anew(turn: Turn, run: Run) -> Run:
    """A run that starts as another did, with the current version. Raises RequestError if it cannot."""
    engine, memory = run.engine, turn.agent.memory
    definition = turn.agent.library.get(engine.definition_kind, run.name)
    if definition is None:
        raise RequestError(f"there is no definition {run.name} any more; cancel {run.eid} instead")
    if engine.definition_kind in standing_kinds():
        raise RequestError(f"run {run.eid} is not restarted: {stays(run)}")
    if (refused := cannot_start(turn.agent, definition)) is not None:
        raise TokenError(*refused)
    arguments = run.state.first, ()
    first, inputs = (
        engine.begun_anew(run.definition, run.state, definition)
        if isinstance(engine, Renewable)
        else arguments
    )
    begun = turn.start(
        run.name,
        tuple(dict.fromkeys(version for eid in first for version in in_force(memory, eid))),
        kind=definition.kind,
        caller=run.caller,
        environment=environment_at_start(turn.agent, run) if isinstance(engine, HasEnvironment) else None,
        origin=Origin(by=run.by, actor=run.actor) if run.by else None,
        ancestors=run.ancestors,
        inputs=inputs,
        definition=definition,
    )
    assert begun is not None, run.name
    return begun
