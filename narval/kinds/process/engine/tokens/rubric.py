"""Evaluation of Rubric for a token: the answers of guards, and values in joins and properties (sections 4 and
18).

The user's code gives the values of names. Its answers are recorded, so it is not asked again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from narval.core.definitions.reading.expressions import And, Expression, Not, Or, Predicate
from narval.core.definitions.wall import moment_of, zone_named
from narval.core.engines.events import Plain
from narval.kinds.process.engine.conditions import bindings
from narval.kinds.process.engine.decision import NodeFault, ProcessDecision, hooks
from narval.kinds.process.engine.state import NodeToken
from narval.kinds.process.language.code import Code
from narval.kinds.process.language.definition import BUILT_IN, MemoryGuard, Node
from narval.kinds.process.language.properties import statements
from narval.kinds.process.language.statements import (
    Accept,
    Date,
    DateValue,
    DelayUntil,
    Discard,
    If,
    NamedDate,
    Number,
    Result,
    Skip,
    Statement,
    StringValue,
    Text,
)


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
        bound = node.guard.condition.bind(bindings(decision, node.guard.condition.variables, (node, token)))
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


# --- values ---------------------------------------------------------------------------------------------

SECONDS = {"second": 1, "minute": 60, "hour": 3600}
DAYS = {"day": 1, "week": 7}


def result_of(decision: ProcessDecision, node: Node, token: NodeToken, statement: Statement) -> Result:
    """The result of a statement. Raises NodeFault."""
    while isinstance(statement, If):
        holds = true_of(decision, node, token, statement.condition)
        statement = statement.then if holds else statement.otherwise
    return statement


def true_of(
    decision: ProcessDecision, node: Node, token: NodeToken, expression: Expression, first: bool | None = None
) -> bool:
    """True if an expression holds of a token; `first` is the value of the predicate `first` in a join."""
    match expression:
        case Predicate(name="first") if first is not None:
            return first
        case Predicate(name=name):
            function = f"predicate:{name}"
            return decision.truth(function, decision.ask_about(function, token, node), node)
        case Not(of=of):
            return not true_of(decision, node, token, of, first)
        case And(left=left, right=right):
            return all(true_of(decision, node, token, part, first) for part in (left, right))
        case Or(left=left, right=right):
            return any(true_of(decision, node, token, part, first) for part in (left, right))


def moment(decision: ProcessDecision, node: Node, token: NodeToken, date: Date) -> float:
    """The moment of a date, in seconds since 1970; days and weeks are those of the home's calendar."""
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
        zone = zone_named(decision.view.zone)
        local = datetime.fromtimestamp(base, zone).replace(tzinfo=None)
        return moment_of(local + timedelta(days=date.offset * DAYS[date.unit]), zone)
    except (OverflowError, ValueError, OSError) as error:
        raise NodeFault("bad-date", f"node {node.id}: {error}", node) from None


# --- properties of node types ---------------------------------------------------------------------------


def ask_hook(decision: ProcessDecision, node: Node, token: NodeToken, hook: str) -> Plain:
    """The answer of a method of the class for a node's type, about a token. Raises NodeFault."""
    return decision.ask_about(f"node:{node.type}:{hook}", token, node, evaluated(decision, node, token))


def evaluated(decision: ProcessDecision, node: Node, token: NodeToken) -> dict[str, Plain]:
    """The values of a node's properties that are written in Rubric, by their keys; a date is in seconds since
    1970. Raises NodeFault.
    """
    code = decision.view.definition("node-type", node.type)
    if not isinstance(code, Code) or not code.evaluated:
        return {}
    return {
        key: _value(decision, node, token, result_of(decision, node, token, statement))
        for key, statement in statements(code.properties, node.custom)
    }


def _value(decision: ProcessDecision, node: Node, token: NodeToken, result: Result) -> Plain:
    match result:
        case Number(value=value) | Text(value=value):
            return value
        case DateValue(date=date):
            return moment(decision, node, token, date)
        case StringValue(name=name):
            return decision.ask_about(f"string:{name}", token, node)
        case _:
            message = (
                f"a property of {node.id} must be a text, a number or a date, found {type(result).__name__}"
            )
            raise NodeFault("bad-property", message, node)
