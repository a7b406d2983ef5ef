"""The operation `task_put`: an object begins its way at a task type (K21)."""

from __future__ import annotations

from typing import Any

from narval.errors import RequestError, TaskRefusedError
from narval.operations.asker import PROGRAM, Asker
from narval.operations.documents import add_all, admitted, raise_if_over_limit
from narval.operations.lookup import files_of
from narval.operations.registry import operation
from narval.operations.tasks.telling import type_of
from narval.runtime.agent.turn import Turn
from narval.runtime.daemon.daemon import Daemon


@operation("write")
async def task_put(
    daemon: Daemon, name: str, elements: list[bytes], *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Put each element into the queue of a task type: a case begins for it, which is its way from there."""
    definition = type_of(daemon, name)
    if definition.is_global:
        raise TaskRefusedError("global-event", f"{name} is a global event: it has no queue")
    if definition.invocation == "compensation":
        raise TaskRefusedError("compensator", f"{name} compensates: it is called when something is undone")
    found = await admitted(files_of(daemon).schemas, elements)
    if not found:
        raise RequestError("expected an object for the queue, got none")
    origin = asker.origin()

    def work(turn: Turn) -> list[dict[str, Any]]:
        raise_if_over_limit(turn, found, runs=len(found))
        return [
            {"case": begin_case(turn, definition, eid, origin), "object": eid}
            for eid in add_all(turn, found, origin)
        ]

    return {"type": definition.full_name, "cases": await daemon.host.submit(work)}
