"""Terms: the parts of an expression that do not depend on the element, evaluated when it is bound."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from narval.core.patterns import syntax
from narval.core.patterns.functions import CONTEXT_FUNCTIONS, FUNCTIONS
from narval.core.patterns.key import AttributeOf, Closed, Constant, Lifted, Term
from narval.core.patterns.xpath1 import compiled

_BARE_NAME = re.compile(r"[^*():]+")
"""The test of a step for nodes with one name without a namespace."""


class ShapeSource(NamedTuple):
    """A shape to be analysed: its text and namespaces; `xpath3` if it is XPath 3.1."""

    text: str
    namespaces: Mapping[str, str]
    xpath3: bool


def term_of(source: ShapeSource, node: syntax.Expression) -> Term | None:
    """An expression as a term; None if it depends on more than literals and variables."""
    if isinstance(node, syntax.LiteralSlot):
        return Lifted(node.index)
    if isinstance(node, syntax.Literal):
        return Constant(node.value)
    if not _is_closed(node, source.xpath3, inside=False):
        return None
    match node:
        case syntax.Path(syntax.Variable(name), (syntax.PathStep("attribute", test, ()),)) if (
            _BARE_NAME.fullmatch(test)
        ):
            return AttributeOf(name, test)
    return Closed(compiled(source.text[node.start : node.end], source.namespaces))


def _is_closed(node: syntax.Expression, xpath3: bool, *, inside: bool) -> bool:
    """True if an expression does not depend on the element; `inside` a closed path, relative paths do not
    either.
    """
    match node:
        case syntax.Literal() | syntax.LiteralSlot() | syntax.Variable():
            return True
        case syntax.Path():
            return _is_closed_path(node, xpath3, inside=inside)
    if xpath3 or (isinstance(node, syntax.FunctionCall) and not _ignores_context(node, inside)):
        return False
    if isinstance(node, syntax.Filter):
        outside = _is_closed(node.primary, xpath3, inside=inside)
        return outside and _are_closed(node.predicates, xpath3, inside=True)
    return _are_closed(syntax.parts(node), xpath3, inside=inside)


def _is_closed_path(path: syntax.Path, xpath3: bool, *, inside: bool) -> bool:
    if path.origin is None or isinstance(path.origin, str):
        starts = path.origin is None and inside
    else:
        starts = _is_closed(path.origin, xpath3, inside=inside)
    predicates = (predicate for step in path.steps for predicate in step.predicates)
    has_values = all(step.axis != "namespace" for step in path.steps)
    return starts and has_values and _are_closed(predicates, xpath3, inside=True)


def _are_closed(nodes: Iterable[syntax.Expression], xpath3: bool, *, inside: bool) -> bool:
    return all(_is_closed(node, xpath3, inside=inside) for node in nodes)


def _ignores_context(call: syntax.FunctionCall, inside: bool) -> bool:
    """True if a function's result does not depend on the context node."""
    if call.name in CONTEXT_FUNCTIONS:
        return inside and call.name in ("last", "position")
    return inside or bool(call.arguments) or FUNCTIONS[call.name].most == 0
