"""Guards and their answers: accept, discard, skip, or ask again later (section 4)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from narval.definitions.process.definition import MemoryGuard, Node
from narval.definitions.process.statements import (
    Accept,
    Date,
    DelayUntil,
    Discard,
    If,
    NamedDate,
    Result,
    Skip,
    Statement,
)
from narval.definitions.reading.expressions import And, Expression, Not, Or, Predicate
from narval.engines.events import Plain
from narval.engines.process.conditions import bindings
from narval.engines.process.decision import NodeFault, ProcessDecision
from narval.engines.process.node_types import hooks
from narval.engines.process.tokens.token import NodeToken

SECONDS = {"second": 1, "minute": 60, "hour": 3600}
DAYS = {"day": 1, "week": 7}


class Response(msgspec.Struct, frozen=True):
    """The answer of a guard: to skip, on which arcs; to be asked again, when."""

    action: str
    arcs: tuple[str, ...] = ("",)
    until: float = 0.0


ACCEPT = Response("AcceptToken")
DISCARD = Response("DiscardToken")

_ACTIONS = frozenset({"AcceptToken", "DiscardToken", "SkipNode", "DelayUntil"})


def respond(decision: ProcessDecision, node: Node, token: NodeToken) -> Response:
    """Ask the guard of a node about a token. Raises NodeFault."""
    if "guard" in hooks(decision, node):
        answer = decision.ask_about(f"node:{node.type}:guard", token, node)
        return _of_hook(node, answer)
    if node.guard is None:
        return ACCEPT
    if isinstance(node.guard, MemoryGuard):
        bound = node.guard.condition.bind(bindings(decision, node.guard.condition.variables, node))
        holds = any(True for _ in decision.view.matching(bound, None))
        return ACCEPT if holds else _of_result(decision, node, token, node.guard.otherwise)
    return evaluate(decision, node, token, node.guard)


def evaluate(decision: ProcessDecision, node: Node, token: NodeToken, statement: Statement) -> Response:
    """Evaluate a statement of Rubric. Raises NodeFault."""
    while isinstance(statement, If):
        holds = true_of(decision, node, token, statement.condition)
        statement = statement.then if holds else statement.otherwise
    return _of_result(decision, node, token, statement)


def true_of(
    decision: ProcessDecision, node: Node, token: NodeToken, expression: Expression, first: bool | None = None
) -> bool:
    """True if an expression holds of a token; `first` is what the predicate of that name says of a join."""
    match expression:
        case Predicate(name="first") if first is not None:
            return first
        case Predicate(name=name):
            return decision.ask_truth(f"predicate:{name}", token, node)
        case Not(of=of):
            return not true_of(decision, node, token, of, first)
        case And(left=left, right=right):
            return all(true_of(decision, node, token, part, first) for part in (left, right))
        case Or(left=left, right=right):
            return any(true_of(decision, node, token, part, first) for part in (left, right))


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


def moment(decision: ProcessDecision, node: Node, token: NodeToken, date: Date) -> float:
    """When a date is, in seconds since 1970; days and weeks are those of the home's calendar."""
    if isinstance(date, NamedDate):
        answer = decision.ask_about(f"date:{date.name}", token, node)
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            message = f"date {date.name}: expected seconds since 1970, got: {answer!r}"
            raise NodeFault("bad-answer", message, node)
        return float(answer)
    base = moment(decision, node, token, date.base)
    if date.unit in SECONDS:
        return base + date.offset * SECONDS[date.unit]
    try:
        local = datetime.fromtimestamp(base, ZoneInfo(decision.view.zone))
        return (local + timedelta(days=date.offset * DAYS[date.unit])).timestamp()
    except (OverflowError, ValueError, OSError) as error:
        raise NodeFault("bad-date", f"the guard of {node.id}: {error}", node) from None


def _of_hook(node: Node, answer: Plain) -> Response:
    """The answer of the guard of a node type's own class."""
    given: dict[str, Any] = answer if isinstance(answer, dict) else {"action": answer}
    action = given.get("action")
    if action not in _ACTIONS:
        expected = ", ".join(sorted(_ACTIONS))
        message = f"guard of type {node.type}: expected one of {expected}, got: {answer!r}"
        raise NodeFault("bad-answer", message, node)
    try:
        arcs = tuple(str(arc) for arc in given.get("arcs") or ("",))
        return Response(action, arcs, float(given.get("until") or 0.0))
    except (TypeError, ValueError):
        raise NodeFault("bad-answer", f"guard of type {node.type}: cannot read {answer!r}", node) from None
