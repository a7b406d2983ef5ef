"""The operation `task_put`: an object starts at a task type (K21), in its queue or with an event (K39)."""

from __future__ import annotations

from typing import Any

import msgspec

from narval.agent.runs import cannot_take
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.documents import add_all, admitted, raise_if_over_limit
from narval.ask.lookup import files_of
from narval.ask.registry import operation
from narval.core.engines.events import Plain
from narval.core.errors import RequestError, TaskRefusedError
from narval.daemon.daemon import Daemon
from narval.kinds.task.engine.case.engine import kind as case_kind
from narval.kinds.task.language.definition import TaskDefinition
from narval.kinds.task.operations.telling import KIND, type_of


@operation("write")
async def task_put(
    daemon: Daemon, name: str, elements: list[bytes], *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Put each element into the queue of a task type; a case begins for it, and follows it from there."""
    definition = type_of(daemon, name)
    if (refused := cannot_take(daemon.agent, definition)) is not None:
        raise TaskRefusedError(*refused)
    found = await admitted(files_of(daemon).schemas, elements)
    if not found:
        raise RequestError("expected an object for the queue, got none")

    def work(turn: Turn) -> list[dict[str, Any]]:
        raise_if_over_limit(turn, found, runs=len(found))
        return [
            {"case": _begin(turn, definition, eid, {}, asker), "object": eid}
            for eid in add_all(turn, found, asker.origin())
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
        known = ", ".join(dict.fromkeys(rule.event for rule in definition.events)) or "none"
        raise TaskRefusedError(
            "no-rule", f"{definition.full_name} takes no object with {event}; its events are {known}"
        )
    found = await admitted(files_of(daemon).schemas, elements)
    if len(found) != 1:
        raise RequestError(f"an event carries one object, got {len(found)}")
    environment = {
        name: msgspec.json.encode(value).decode() if name == "parameters" else " ".join(_texts(value))
        for name, value in said.items()
    }

    def work(turn: Turn) -> int:
        raise_if_over_limit(turn, found, runs=1)
        [eid] = add_all(turn, found, asker.origin())
        return _begin(turn, definition, eid, {"event": event, **environment}, asker)

    return int(await daemon.host.submit(work))


def _texts(value: Plain) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]
