"""Guards and their answers: accept, discard, skip, or ask again later (section 4)."""

from __future__ import annotations

from typing import Any

import msgspec

from narval.core.engines.events import Plain
from narval.kinds.process.engine.conditions import bindings
from narval.kinds.process.engine.decision import NodeFault, ProcessDecision
from narval.kinds.process.engine.node_types import hooks
from narval.kinds.process.engine.state import NodeToken
from narval.kinds.process.engine.tokens.rubric import ask_hook, moment, result_of
from narval.kinds.process.language.definition import BUILT_IN, MemoryGuard, Node
from narval.kinds.process.language.statements import Accept, DelayUntil, Discard, Result, Skip


class Response(msgspec.Struct, frozen=True):
    """The answer of a guard, with the arcs of a skip, or the moment to ask again."""

    action: str
    arcs: tuple[str, ...] = ("",)
    until: float = 0.0


ACCEPT = Response("AcceptToken")
DISCARD = Response("DiscardToken")

_ACTIONS = frozenset({"AcceptToken", "DiscardToken", "SkipNode", "DelayUntil"})


def respond(decision: ProcessDecision, node: Node, token: NodeToken) -> Response:
    """Ask the guard of a node about a token. Raises NodeFault."""
    if node.guard is None and node.type in BUILT_IN:
        return ACCEPT
    if "guard" in hooks(decision, node):
        answer = ask_hook(decision, node, token, "guard")
        return _of_hook(node, answer)
    if node.guard is None:
        return ACCEPT
    if isinstance(node.guard, MemoryGuard):
        bound = node.guard.condition.bind(bindings(decision, node.guard.condition.variables, node))
        verdict = decision.view.judge(decision.view.matching(bound, None), bound)
        return ACCEPT if verdict.holds else _of_result(decision, node, token, node.guard.otherwise)
    return _of_result(decision, node, token, result_of(decision, node, token, node.guard))


def _of_result(decision: ProcessDecision, node: Node, token: NodeToken, result: Result) -> Response:
    match result:
        case Accept():
            return ACCEPT
        case Discard():
            return DISCARD
        case Skip(arc=arc):
            return Response("SkipNode", (arc,))
        case DelayUntil(date=date):
            return Response("DelayUntil", until=moment(decision, node, token, date))
        case _:
            message = (
                f"the guard of {node.id} must accept, discard, skip or delay, it is a {type(result).__name__}"
            )
            raise NodeFault("bad-guard", message, node)


def _of_hook(node: Node, answer: Plain) -> Response:
    """The answer of the guard method of a node type's class."""
    wish: dict[str, Any] = answer if isinstance(answer, dict) else {"action": answer}
    action = wish.get("action")
    if action not in _ACTIONS:
        expected = ", ".join(sorted(_ACTIONS))
        message = f"guard of type {node.type}: expected one of {expected}, got: {answer!r}"
        raise NodeFault("bad-answer", message, node)
    try:
        arcs = tuple(str(arc) for arc in wish.get("arcs") or ("",))
        return Response(action, arcs, float(wish.get("until") or 0.0))
    except (TypeError, ValueError):
        raise NodeFault("bad-answer", f"guard of type {node.type}: cannot read {answer!r}", node) from None
