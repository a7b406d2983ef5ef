"""A `wait` node with conditions: it goes on when memory satisfies them, as a transition does (N23, N24)."""

from __future__ import annotations

from narval.definitions.process.definition import Node
from narval.engines import commands
from narval.engines.process import conditions as memory
from narval.engines.process.changes import WatchSet
from narval.engines.process.decision import ProcessDecision
from narval.engines.process.tokens import NodeToken


def satisfied(run: ProcessDecision, node: Node, token: NodeToken) -> bool:
    """Whether there is an element for each condition now, which is taken; if not, it is watched for."""
    conditions = memory.wanted(run, node)
    eids = memory.found(run, token, conditions)
    if eids is not None:
        memory.take(run, conditions, eids)
        return True
    if token.watch:
        run.record.command(commands.Unwatch(token.watch))
    watch = run.record.identifier()
    run.record.change(WatchSet(token.id, watch))
    bounds, scopes = tuple(bound for bound, _ in conditions), tuple(scope for _, scope in conditions)
    run.record.command(commands.Watch(watch, bounds, scopes))
    return False


def concerns(run: ProcessDecision, node: Node, eid: int) -> bool:
    """Whether some condition of a node may take an element."""
    element = run.view.element(eid)
    return element is not None and any(run.view.fits(element, bound) for bound, _ in memory.wanted(run, node))
