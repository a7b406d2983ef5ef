"""The flow of processes: tokens carry all that came before, so all elements of a run may reach each node."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.library import Library
from narval.core.trust.flow import CallFlow, Flow, InMemory, coarse_call
from narval.kinds.process.language.definition import BUILT_IN, MemoryGuard, Process


def flow(process: Process, library: Library) -> Flow:
    """The paths of elements through a process."""
    nodes = process.nodes.values()
    waits = [one.condition for node in nodes for one in node.conditions]
    guards = [node.guard.condition for node in nodes if isinstance(node.guard, MemoryGuard)]
    has_code = any(node.type not in BUILT_IN or node.type == "script" for node in nodes)
    return Flow(
        tuple(_calls(process, library)),
        tuple(map(InMemory, dict.fromkeys((*waits, *guards)))),
        makes=(None,) if has_code else (),
    )


def _calls(process: Process, library: Library) -> Iterator[CallFlow]:
    for node in process.nodes.values():
        if node.target is not None:
            more = {"group": process.group, "agent": node.agent}
            yield from coarse_call(node.id, *node.target, library, line=node.line, **more)
