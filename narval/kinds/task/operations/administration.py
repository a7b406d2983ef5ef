"""Operations with which people put objects (K21, K39), and intervene in tasks (K16).

They stop a task, finish it, or let a case continue.
"""

from __future__ import annotations

from typing import Any

import msgspec

from narval.agent.run import Run
from narval.agent.runs import cannot_take
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.documents import add_all, admitted, raise_if_over_limit
from narval.ask.lookup import command, files_of, find_run
from narval.ask.people import why_not_administering
from narval.ask.registry import operation
from narval.core.engines.events import Plain
from narval.core.errors import RequestError, TaskRefusedError
from narval.daemon.daemon import Daemon
from narval.kinds.task.engine.case.engine import kind as case_kind
from narval.kinds.task.engine.case.state import CaseState
from narval.kinds.task.engine.state import InstanceState
from narval.kinds.task.language.definition import TaskDefinition
from narval.kinds.task.operations.signals import KIND, told, type_of


@operation("write")
async def task_put(
    daemon: Daemon, name: str, elements: list[bytes], *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Put each element into the queue of a task type; a case begins for it, and follows it from there."""
    definition = type_of(daemon, name)
    if (refused := cannot_take(daemon.agent, definition)) is not None:
        raise TaskRefusedError(*refused)
    objects = await admitted(files_of(daemon).schemas, elements)
    if not objects:
        raise RequestError("expected an object for the queue, got none")

    def work(turn: Turn) -> list[dict[str, Any]]:
        raise_if_over_limit(turn, objects, runs=len(objects))
        return [
            {"case": _begin(turn, definition, eid, {}, asker), "object": eid}
            for eid in add_all(turn, objects, asker.origin())
        ]

    return {"type": definition.full_name, "cases": await daemon.host.submit(work)}


def _begin(
    turn: Turn, definition: TaskDefinition, eid: int, environment: dict[str, str], asker: Asker
) -> int:
    """Begin the case of an object."""
    more: dict[str, Any] = {"kind": KIND, "run_kind": case_kind, "origin": asker.origin()}
    run = turn.start(definition.full_name, (eid,), environment=environment, **more)
    assert run is not None, definition.full_name
    return run.eid


async def begin_with_event(
    daemon: Daemon,
    asker: Asker,
    definition: TaskDefinition,
    event: str,
    said: dict[str, Plain],
    elements: list[bytes],
) -> int:
    """Begin a case whose object an event carries to a type; return its eid. Raises TaskRefusedError."""
    rules = [rule for rule in definition.events if rule.event == event]
    if definition.is_global or not rules:
        names = ", ".join(dict.fromkeys(rule.event for rule in definition.events)) or "none"
        raise TaskRefusedError(
            "no-rule", f"{definition.full_name} takes no object with {event}; its events are {names}"
        )
    objects = await admitted(files_of(daemon).schemas, elements)
    if len(objects) != 1:
        raise RequestError(f"an event carries one object, got {len(objects)}")
    environment = {
        name: msgspec.json.encode(value).decode() if name == "parameters" else " ".join(_texts(value))
        for name, value in said.items()
    }

    def work(turn: Turn) -> int:
        raise_if_over_limit(turn, objects, runs=1)
        [eid] = add_all(turn, objects, asker.origin())
        return _begin(turn, definition, eid, {"event": event, **environment}, asker)

    return int(await daemon.host.submit(work))


def _texts(value: Plain) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


MOST_TURNS = 20
"""The most turns to wait for the consequences of an act, as a busy home always has another turn."""


@operation("write")
async def task_stop(daemon: Daemon, run: int, reason: str = "", *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Stop one instance, whatever it is doing: its object goes back to the queue as it was last committed
    (K16).

    Only the person responsible for it, the home's owner, root and administrators may do this.
    """
    instance = _instance(daemon, asker, run)
    await told(daemon, asker, instance, "stop", {"why": reason}, wait=None)
    return {"task": run, "type": instance.name, "state": instance.status}


@operation("write")
async def task_finish(
    daemon: Daemon, run: int, state: str, reason: str = "", *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """End one instance in a terminal state, regardless of edges; its object is routed from that state (K16).

    Only the person responsible for it, the home's owner, root and administrators may do this.
    """
    instance = _instance(daemon, asker, run)
    answer = await told(daemon, asker, instance, "finish", {"state": state, "why": reason}, wait=None)
    return {"task": run, "type": instance.name, **(answer or {})}


@operation("write")
async def task_retry(
    daemon: Daemon, case: int, object: int = 0, to: str = "", *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Let a case continue that cannot continue by itself. A failed compensator runs again. Every held object,
    or only `object`, goes to its task again, or to the type `to` (KA16, KA20), in its present version, which
    somebody may have put in its place. `again` lists those that stopped again at once: `[{"object", "why"}]`.
    """
    run = find_run(daemon, case)
    if run.engine.state_type is not CaseState:
        cases = f"`{command(daemon, 'task where OBJECT')}` names the case of an object"
        raise RequestError(f"run {case} of {run.name} is no case; {cases}")
    before = run.state.stopped() if isinstance(run.state, CaseState) else {}
    await told(daemon, asker, run, "retry", {"object": object, "type": to}, wait=None)
    await _consequences(daemon)
    after = run.state.stopped() if isinstance(run.state, CaseState) else {}
    again = [{"object": eid, "why": why} for error, (eid, why) in after.items() if error not in before]
    return {"case": case, "state": run.status, "again": again}


async def _consequences(daemon: Daemon) -> None:
    """Wait for the consequences that need no program or person: scripts, and the moves of objects."""
    for _ in range(MOST_TURNS):
        if not daemon.host.loop.has_work():
            return
        await daemon.host.submit(lambda turn: None)


def _instance(daemon: Daemon, asker: Asker, eid: int) -> Run:
    """An instance in which the asker may intervene. Raises RequestError, TaskRefusedError."""
    run = find_run(daemon, eid)
    if run.engine.state_type is not InstanceState:
        listed = f"`{command(daemon, 'task')}` lists the tasks that are at work"
        raise RequestError(f"run {eid} of {run.name} is no task: {listed}")
    if not run.active:
        raise TaskRefusedError("over", f"task {eid} of {run.name} is over: it is {run.status}")
    responsible = run.state.user if run.state is not None else ""
    if why := why_not_administering(daemon, asker, responsible, run.by):
        whose = f"task {eid} of {run.name} is for {responsible}; " if responsible else ""
        raise TaskRefusedError("not-responsible", f"{whose}{why}")
    return run
