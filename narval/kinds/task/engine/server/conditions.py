"""Conditions of rules, judged on memory (KA4, KA31), the object and the event."""

from __future__ import annotations

from functools import lru_cache
from html import escape

from narval.core.elements.element import Element
from narval.core.engines.view import GuardVerdict
from narval.core.errors import PatternError
from narval.core.patterns.pattern import Bound, Condition
from narval.core.patterns.syntax import Expression, Filter, FunctionCall, Path, parse, parts
from narval.kinds.task.engine.server.decision import ServerDecision
from narval.kinds.task.engine.server.state import RaisedEvent
from narval.kinds.task.language.definition import Rule

OBJECT, CARRIED = "object", "carried"
"""The variables of each condition: the receiver's object, and the object that the event carries."""

_NOTHING = Element(0, b"<nothing/>")


def bound(decision: ServerDecision, event: RaisedEvent, rule: Rule, condition: Condition, eid: int) -> Bound:
    """A rule's condition, bound to the object `eid`, or to the event's object if `eid` is 0."""
    given: dict[str, list[Element]] = {}
    for name, of in ((OBJECT, eid or event.object), (CARRIED, event.object)):
        if name in condition.variables:
            found = (decision.view.element(now) for now in decision.elements(of))
            given[name] = [element for element in found if element is not None]
    for name, value in zip(rule.parameters, event.parameters, strict=False):
        if name in condition.variables:
            given[name] = [Element(0, f"<{name}>{escape(value, quote=False)}</{name}>".encode())]
    return condition.bind(given)


def judge_bound(decision: ServerDecision, bound: Bound) -> GuardVerdict:
    """Judge a condition on memory, or on its variables alone if it asks nothing of memory."""
    view = decision.view
    if asks_memory(bound):
        return view.judge(view.matching(bound, None), bound)
    return view.judge((_NOTHING.eid,) if view.fits(_NOTHING, bound) else (), bound)


def asks_memory(bound: Bound) -> bool:
    """False if a condition depends only on its variables, so that it is the same for all elements."""
    return any(_looks_around(pattern.text) for pattern in bound.patterns)


@lru_cache(maxsize=1024)
def _looks_around(text: str) -> bool:
    try:
        return _is_of_context(parse(text))
    except PatternError:  # XPath 3.1, whose syntax is not examined
        return True


def _is_of_context(node: Expression) -> bool:
    """True if the value of an expression may differ between elements."""
    match node:
        case Path(origin=origin):
            return origin is None or isinstance(origin, str) or _is_of_context(origin)
        case Filter(primary=primary):
            return _is_of_context(primary)
        case FunctionCall(arguments=()):
            return node.name not in ("true", "false")
    return any(map(_is_of_context, parts(node)))
