"""Terms: the parts of an expression that do not depend on the element, to be evaluated when it is bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from narval.memory.patterns.functions import CONTEXT_FUNCTIONS, FUNCTIONS
from narval.memory.patterns.key import Closed, Constant, Lifted, Term
from narval.memory.patterns.syntax import (
    BinaryOperation,
    Expression,
    Filter,
    FunctionCall,
    Literal,
    LiteralSlot,
    Negation,
    Path,
    Variable,
)
from narval.memory.patterns.xpath1 import compiled


class ShapeSource(NamedTuple):
    """A shape to be analysed: its text and namespaces; `xpath3` if it is XPath 3.1."""

    text: str
    namespaces: Mapping[str, str]
    xpath3: bool


class Terms:
    """The terms of one shape."""

    def __init__(self, source: ShapeSource) -> None:
        self.source = source

    def term(self, node: Expression) -> Term | None:
        """The expression as a term; None when it depends on more than literals and variables."""
        if isinstance(node, LiteralSlot):
            return Lifted(node.index)
        if isinstance(node, Literal):
            return Constant(node.value)
        if not self.is_closed(node, inside=False):
            return None
        return Closed(compiled(self.source.text[node.start : node.end], self.source.namespaces))

    def is_closed(self, node: Expression, *, inside: bool) -> bool:
        """True if an expression does not depend on the element, nor does its context node if `inside`."""
        match node:
            case Literal() | LiteralSlot() | Variable():
                return True
            case Path():
                return self.is_closed_path(node, inside=inside)
        if self.source.xpath3:
            return False
        match node:
            case FunctionCall(arguments=arguments):
                return _ignores_context(node, inside) and self.are_closed(arguments, inside=inside)
            case BinaryOperation(operands=operands):
                return self.are_closed(operands, inside=inside)
            case Negation(operand=operand):
                return self.is_closed(operand, inside=inside)
            case Filter(primary=primary, predicates=predicates):
                return self.is_closed(primary, inside=inside) and self.are_closed(predicates, inside=True)
        return False

    def is_closed_path(self, path: Path, *, inside: bool) -> bool:
        if path.origin is None or isinstance(path.origin, str):
            starts = path.origin is None and inside
        else:
            starts = self.is_closed(path.origin, inside=inside)
        predicates = (predicate for step in path.steps for predicate in step.predicates)
        has_values = all(step.axis != "namespace" for step in path.steps)
        return starts and has_values and self.are_closed(predicates, inside=True)

    def are_closed(self, nodes: Iterable[Expression], *, inside: bool) -> bool:
        return all(self.is_closed(node, inside=inside) for node in nodes)


def _ignores_context(call: FunctionCall, inside: bool) -> bool:
    """True if a function's result does not depend on the context node."""
    if call.name in CONTEXT_FUNCTIONS:
        return inside and call.name in ("last", "position")
    return inside or bool(call.arguments) or FUNCTIONS[call.name].most == 0
