"""A `wait` node with conditions: it goes on when memory satisfies them, as a transition does (N23, N24)."""

from __future__ import annotations

from narval.definitions.process.definition import Node
from narval.engines import commands
from narval.engines.process import conditions as memory
from narval.engines.process.changes import WatchSet
from narval.engines.process.decision import ProcessDecision
from narval.engines.process.tokens import NodeToken


def satisfied(decision: ProcessDecision, node: Node, token: NodeToken) -> bool:
    """Whether there is an element for each condition now, which is taken; if not, it is watched for."""
    conditions = memory.wanted(decision, node)
    eids = decision.one_for_each(memory.around(decision, token), conditions)
    if eids is not None:
        decision.take_matches(conditions, eids)
        return True
    if token.watch:
        decision.command(commands.Unwatch(token.watch))
    watch = decision.identifier()
    decision.change(WatchSet(token.id, watch))
    decision.watch(watch, conditions)
    return False


def concerns(decision: ProcessDecision, node: Node, eid: int) -> bool:
    """Whether some condition of a node may take an element."""
    element = decision.view.element(eid)
    return element is not None and any(
        decision.view.fits(element, bound) for bound, _ in memory.wanted(decision, node)
    )
