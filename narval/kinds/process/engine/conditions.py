"""Memory as the nodes of a process see it: where they search for elements, and the conditions of `wait`
nodes.
"""

from __future__ import annotations

from functools import partial
from itertools import islice

from narval.core.engines import commands
from narval.core.engines.candidates import Bindings, CandidateSearch
from narval.core.engines.decision import Wanted, resolve
from narval.kinds.process.engine.changes import WatchSet
from narval.kinds.process.engine.decision import ProcessDecision
from narval.kinds.process.engine.state import NodeToken
from narval.kinds.process.engine.tokens.views import PATH, newest_before, produced_before
from narval.kinds.process.language.definition import Node


def bindings(
    decision: ProcessDecision, variables: frozenset[str], asking: tuple[Node, NodeToken] | None = None
) -> Bindings:
    """The elements of variables: `$process` is the process element, `$NODE` the elements that the call of
    that node produced, the last on the path of the asking token, else the last of all.

    In an imported node, NODE is a node imported with it.
    """
    bound = {}
    beside = "".join(f"{name}:" for name in asking[0].external) if asking is not None else ""
    for name in variables:
        eids: tuple[int, ...] = (decision.state.eid,) if name == "process" else ()
        node, newest = beside + name, decision.state.newest.get(beside + name)
        if newest is not None:
            before = islice(newest_before(decision.state, asking[1]), PATH) if asking is not None else ()
            token = next((one for one, _ in before if one.node == node), decision.state.nodes[newest])
            eids = token.produced
        elements = (decision.view.element(eid) for eid in eids)
        bound[name] = tuple(element for element in elements if element is not None)
    return bound


def around(decision: ProcessDecision, token: NodeToken) -> CandidateSearch:
    """The search for a token's elements, nearest first: what the tokens before it produced, then the run,
    then all memory.
    """
    return CandidateSearch(decision.view, decision.state.eid, produced_before(decision.state, token))


def wanted(decision: ProcessDecision, node: Node, token: NodeToken) -> Wanted:
    """The conditions of a `wait` node, with the scopes in which their elements are marked (N18)."""
    names = partial(bindings, decision, asking=(node, token))
    return resolve(node.conditions, decision.definition.full_name, node.id, names)


def satisfied(decision: ProcessDecision, node: Node, token: NodeToken) -> bool:
    """True if each condition has an element now; these are then taken. If not, watch for them."""
    conditions = wanted(decision, node, token)
    eids = decision.one_for_each_slot(decision.slots(around(decision, token), conditions))
    if eids is not None:
        decision.use_matches(conditions, eids)
        return True
    if token.watch:
        decision.command(commands.Unwatch(token.watch))
    watch = decision.identifier()
    decision.change(WatchSet(token.id, watch))
    decision.watch(watch, conditions)
    return False


def concerns(decision: ProcessDecision, node: Node, token: NodeToken, eid: int) -> bool:
    """True if some condition of a node may take an element for a token."""
    element = decision.view.element(eid)
    return element is not None and any(
        decision.view.fits(element, bound) for bound, _ in wanted(decision, node, token)
    )
