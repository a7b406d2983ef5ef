"""The nodes and arcs of a process that no token can reach, found on its graph.

A process may loop and so have infinitely many states, which cannot be enumerated. But tokens move only along
arcs: a node that no token can reach never runs, whatever guards, people and programs do. An *error* here
holds for every run. A person may complete a token on any arcs, unless its node completes by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.library import Library
from narval.core.engines.structure import Finding
from narval.kinds.process.language.definition import NODE, Arc, MemoryGuard, Node, Process
from narval.kinds.process.language.rubric import results
from narval.kinds.process.language.statements import Accept, Discard, Skip


def unreachable(process: Process, library: Library) -> list[Finding]:
    """The nodes that no token can reach (errors), and the arcs on which none can leave (notes)."""
    if not process.start_nodes or _is_imported(process, library):
        return []  # tokens come from the process that imports it
    reach = _Reach(process, library)
    messages = [
        Finding(process.path, node.line, 1, "error", node.id, f"node {node.id!r} never gets a token: {why}")
        for node, why in reach.never()
    ]
    messages += [
        Finding(process.path, arc.line, 1, "note", arc.start.id, _idle(arc)) for arc in reach.idle_arcs()
    ]
    return sorted(messages)


def _idle(arc: Arc) -> str:
    name = f"the arc {arc.name!r}" if arc.name else "an arc without a name"
    return f"no token leaves {arc.start.id!r} on {name}: the node completes by itself, on other arcs"


def _is_imported(process: Process, library: Library) -> bool:
    return any(
        node.origin == process.full_name
        for other in library.of(Process.kind).values()
        if isinstance(other, Process)
        for node in other.nodes.values()
    )


class _Reach:
    """The nodes that may get a token, computed as a fixed point."""

    def __init__(self, process: Process, library: Library) -> None:
        self._process = process
        self._listened = bool(process.listeners or library.of("listener"))
        self._classes = library.of("node-type")
        self._live = {node.id for node in process.start_nodes}
        self._taken = {arc.index for arc in process.arcs if self._may_leave(arc)}
        pending = list(process.start_nodes)
        while pending:
            for arc in pending.pop().outs:
                if arc.end.id not in self._live and self._completes(arc.end):
                    self._live.add(arc.end.id)
                    pending.append(arc.end)

    def never(self) -> Iterator[tuple[Node, str]]:
        """The nodes of the process itself that no token can reach, and why."""
        for node in self._process.nodes.values():
            if node.id in self._live or node.external:
                continue
            missing = [arc for arc in node.ins if not self._comes(arc)]
            if not node.ins:
                yield node, "no arc leads to it, and it is no start node"
            elif len(missing) < len(node.ins):
                name = missing[0].start.id
                yield node, f"its join {node.join} needs one from {name!r}, from where none can come"
            else:
                yield node, "none can come from where its arcs begin"

    def idle_arcs(self) -> Iterator[Arc]:
        """The arcs of reachable nodes that are never taken."""
        for arc in self._process.arcs:
            own = not arc.start.external and arc.start.id in self._live
            if own and arc.index not in self._taken:
                yield arc

    def _comes(self, arc: Arc) -> bool:
        return arc.start.id in self._live and arc.index in self._taken

    def _completes(self, node: Node) -> bool:
        """True if a join may ever be complete."""
        if node.join == "and":
            return all(map(self._comes, node.ins))
        if node.join == "labelAnd":
            return any(all(map(self._comes, arcs)) for arcs in node.ins_by_name.values())
        return any(map(self._comes, node.ins))

    def _may_leave(self, arc: Arc) -> bool:
        """True if tokens may leave on an arc, once its node has any."""
        node = arc.start
        own = self._classes.get(node.type)
        if "guard" in getattr(own, "hooks", ()) or isinstance(node.guard, MemoryGuard):
            return True
        said = [Accept()] if node.guard is None else list(results(node.guard))
        if any(not isinstance(result, (Accept, Discard, Skip)) for result in said):
            return True  # a delayed token can be completed on any arcs
        if any(isinstance(result, Skip) and result.arc == arc.name for result in said):
            return True
        accepted = any(isinstance(result, Accept) for result in said)
        by_itself = node.type == NODE and own is None and not self._listened
        return accepted and (not arc.name or not by_itself)
