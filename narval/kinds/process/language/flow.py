"""The flow of processes: tokens carry everything before them, so every element of a run may reach
each node.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from narval.core.definitions.library import Library
from narval.core.patterns.pattern import Condition, condition
from narval.core.trust.flow import CallFlow, Flow, InMemory, coarse_call
from narval.kinds.process.language.code import Code
from narval.kinds.process.language.definition import BUILT_IN, MemoryGuard, Process


def flow(process: Process, library: Library) -> Flow:
    """The paths of elements through a process."""
    nodes = process.nodes.values()
    waits = [one.condition for node in nodes for one in node.conditions]
    guards = [node.guard.condition for node in nodes if isinstance(node.guard, MemoryGuard)]
    return Flow(
        tuple(_calls(process, library)),
        tuple(map(InMemory, dict.fromkeys((*waits, *guards)))),
        makes=tuple(_made_by_code(process, library)),
    )


def _made_by_code(process: Process, library: Library) -> Iterator[Condition | None]:
    """The elements that code of nodes can give: those that types name, else any; scripts give none."""
    for name in dict.fromkeys(node.type for node in process.nodes.values() if node.type not in BUILT_IN):
        node_type = library.get("node-type", name)
        names = node_type.gives if isinstance(node_type, Code) else None
        yield from (None,) if names is None else map(condition, names)


def _calls(process: Process, library: Library) -> Iterator[CallFlow]:
    for node in process.nodes.values():
        if node.target is not None:
            more = {"group": process.group, "agent": node.agent}
            for call in coarse_call(node.id, *node.target, library, line=node.line, **more):
                yield replace(call, approve=node.text_of("approve"))
