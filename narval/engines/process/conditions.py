"""Memory as the nodes of a process see it: where they look for elements, and what they take (N15, N18)."""

from __future__ import annotations

from narval.definitions.process.definition import Node
from narval.engines import commands
from narval.engines.assignment import Slot, assign
from narval.engines.candidates import Bindings, CandidateSearch
from narval.engines.process.decision import ProcessDecision
from narval.engines.process.tokens import NodeToken
from narval.memory.elements.changes import MarkScope
from narval.memory.patterns.pattern import Bound

Wanted = list[tuple[Bound, MarkScope | None]]


def bindings(run: ProcessDecision, variables: frozenset[str], asking: Node | None = None) -> Bindings:
    """What variables stand for: `$process` the process element, `$NODE` what calls of that node produced.

    A node that was imported means one that came with it.
    """
    bound = {}
    beside = "".join(f"{name}:" for name in asking.external) if asking is not None else ""
    for name in variables:
        eids: tuple[int, ...] = (run.state.run,) if name == "process" else ()
        newest = run.state.newest.get(beside + name)
        if newest is not None:
            eids = run.state.nodes[newest].produced
        found = (run.view.element(eid) for eid in eids)
        bound[name] = tuple(each for each in found if each is not None)
    return bound


def around(run: ProcessDecision, token: NodeToken) -> CandidateSearch:
    """Where a token looks for elements, nearest first: what those it comes from produced, the run, all."""
    parents = (run.state.nodes[run.state.arcs[each].parent] for each in token.parents)
    near = tuple(sorted({eid for parent in parents for eid in parent.produced}))
    return CandidateSearch(run.view, run.state.run, (near,))


def wanted(run: ProcessDecision, node: Node) -> Wanted:
    """The conditions of a `wait` node, and where what they use is marked (N18)."""
    return [
        (
            each.condition.bind(bindings(run, each.condition.variables, node)),
            (run.process.full_name, node.id, f"#{at}") if each.use else None,
        )
        for at, each in enumerate(node.conditions, 1)
    ]


def found(run: ProcessDecision, token: NodeToken, conditions: Wanted) -> tuple[int, ...] | None:
    """One element for each condition, each its own, nearest first (N23); None where one has none."""
    places = around(run, token)
    slots = [Slot(str(at), places.ranks(bound, scope)) for at, (bound, scope) in enumerate(conditions)]
    assigned = assign(slots)
    return None if assigned.missing else tuple(assigned.given[slot.id][0] for slot in slots)


def take(run: ProcessDecision, conditions: Wanted, eids: tuple[int, ...]) -> None:
    """What conditions were given joins the context; what they use is marked (N3, N18)."""
    for (_, scope), eid in zip(conditions, eids, strict=True):
        if scope is not None:
            run.record.command(commands.MarkUsed(scope, (eid,)))
    if eids:
        run.record.command(commands.AddToContext(tuple(dict.fromkeys(eids))))
