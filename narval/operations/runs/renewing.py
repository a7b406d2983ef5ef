"""The operation `renew`: a run is ended, and begun anew by the version of its definition that is current."""

from __future__ import annotations

from typing import Any

from narval.definitions.work.definition import WorkDefinition
from narval.engines.decision import Inputs
from narval.engines.engine import HasEnvironment, Redefinable
from narval.engines.events import Cancelled
from narval.engines.registry import standing_kinds
from narval.engines.work.state import WorkState
from narval.errors import RequestError, TokenError, WorkRefusedError
from narval.memory.elements.element import Origin
from narval.memory.hearsay import is_hearsay
from narval.memory.lineage import in_force
from narval.operations.asker import PROGRAM, Asker
from narval.operations.lookup import active_run
from narval.operations.registry import operation
from narval.operations.work.acts import check_may_administer
from narval.operations.work.items import WorkLook
from narval.runtime.agent.history import environment_at_start
from narval.runtime.agent.run import Run
from narval.runtime.agent.runs import cannot_start
from narval.runtime.agent.turn import Turn
from narval.runtime.daemon.daemon import Daemon


@operation("write")
async def renew(daemon: Daemon, run: int, reason: str = "", *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """End a run, and begin it anew by the version of its definition that is current (N31): with what it was
    given first, while what it used stays used. Whoever called it waits on, and is told nothing.

    An item of work is withdrawn and offered anew (P79); that is for the home's owner, root, and
    administrators.
    """
    known = daemon.agent.runs.get(run)
    is_item = known is not None and known.engine.definition_kind == WorkDefinition.kind
    if is_item:
        check_may_administer(daemon, asker)
        found, _, _ = WorkLook(daemon, None).item(run)
    else:
        found = active_run(daemon, run)

    def again(turn: Turn) -> Run:
        if is_item and (not found.active or found.state.status == "ready"):
            raise WorkRefusedError("over", f"it is {found.status}; only what is open can be offered anew")
        active_run(daemon, run)
        begun = _begin_anew(turn, found)
        if is_hearsay(turn.agent.memory, (run,)):
            turn.transaction.mark_hearsay(begun.eid)
        why = f"{'offered' if is_item else 'begun'} anew as {begun.eid}{f': {reason}' if reason else ''}"
        turn.tell(run, Cancelled(0, 0.0, why, **asker.recorded))
        return begun

    begun = await daemon.host.submit(again)
    names = ("item", "work") if is_item else ("run", "name")
    return {names[0]: begun.eid, "instead_of": run, names[1]: found.name}


def _begin_anew(turn: Turn, run: Run) -> Run:
    """A run that begins as another did, by the current version. Raises RequestError where none can."""
    engine, state, memory = run.engine, run.state, turn.agent.memory
    definition = turn.agent.library.get(engine.definition_kind, run.name)
    if definition is None:
        raise RequestError(f"there is no definition {run.name} any more; cancel {run.eid} instead")
    if (refused := cannot_start(definition)) is not None:
        raise TokenError(*refused)
    instead = engine.instead_of_renewal(run.definition, state) if isinstance(engine, Redefinable) else ""
    if engine.definition_kind in standing_kinds():
        instead = f"{run.name} has a standing run, and what begins there is of the newest version"
    if instead:
        raise RequestError(f"run {run.eid} of {run.name} is not begun anew: {instead}")
    first: tuple[int, ...] = state.first
    inputs: Inputs = ()
    if isinstance(state, WorkState):
        first = tuple(eid for _, eids in state.inputs for eid in eids)
        inputs = state.inputs if _fit(state, definition) else ()  # else those that are nearest are taken
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


def _fit(state: WorkState, definition: Any) -> bool:
    """True if an item of a version can be given what one of another had."""
    slots, there = definition.prototype.inputs, {name for name, _ in state.inputs}
    return {slot.id for slot in slots if not slot.optional} <= there <= {slot.id for slot in slots}
