"""Functions and types of XPath 1.0, and a check for errors that lxml would only find when it evaluates.

lxml compiles unknown functions, undeclared prefixes and impossible arguments without a word. A pattern that
can never be evaluated is an author's mistake, to be reported when it is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Literal as Word
from typing import NamedTuple, TypeAlias, assert_never

from narval.memory.patterns.lexer import ExpressionError
from narval.memory.patterns.syntax import (
    BinaryOperation,
    Expression,
    Filter,
    FunctionCall,
    Literal,
    LiteralSlot,
    Negation,
    Path,
    PathStep,
    Variable,
)

Type: TypeAlias = Word["nodes", "string", "number", "boolean"]


class Signature(NamedTuple):
    """The type of a function's result, the number of its arguments; `nodes` if the first must be nodes."""

    gives: Type
    least: int
    most: int
    nodes: bool = False


_ANY_NUMBER = 1_000_000
FUNCTIONS: dict[str, Signature] = {
    "last": Signature("number", 0, 0),
    "position": Signature("number", 0, 0),
    "count": Signature("number", 1, 1, nodes=True),
    "id": Signature("nodes", 1, 1),
    "local-name": Signature("string", 0, 1, nodes=True),
    "namespace-uri": Signature("string", 0, 1, nodes=True),
    "name": Signature("string", 0, 1, nodes=True),
    "string": Signature("string", 0, 1),
    "concat": Signature("string", 2, _ANY_NUMBER),
    "starts-with": Signature("boolean", 2, 2),
    "contains": Signature("boolean", 2, 2),
    "substring-before": Signature("string", 2, 2),
    "substring-after": Signature("string", 2, 2),
    "substring": Signature("string", 2, 3),
    "string-length": Signature("number", 0, 1),
    "normalize-space": Signature("string", 0, 1),
    "translate": Signature("string", 3, 3),
    "boolean": Signature("boolean", 1, 1),
    "not": Signature("boolean", 1, 1),
    "true": Signature("boolean", 0, 0),
    "false": Signature("boolean", 0, 0),
    "lang": Signature("boolean", 1, 1),
    "number": Signature("number", 0, 1),
    "sum": Signature("number", 1, 1, nodes=True),
    "floor": Signature("number", 1, 1),
    "ceiling": Signature("number", 1, 1),
    "round": Signature("number", 1, 1),
}
"""The functions of XPath 1.0."""

CONTEXT_FUNCTIONS = frozenset(("last", "position", "lang", "id"))
"""Functions whose results depend on the context node, whatever their arguments; of the others, those that may
be called without an argument do so then."""

_ARITHMETIC = frozenset(("+", "-", "*", "div", "mod"))


def type_of(node: Expression) -> Type:
    """The type of an expression; a variable is always nodes."""
    match node:
        case Literal(value=value):
            return "string" if isinstance(value, str) else "number"
        case LiteralSlot(kind=kind):
            return kind
        case Variable() | Path():
            return "nodes"
        case FunctionCall(name=name):
            return FUNCTIONS[name].gives if name in FUNCTIONS else "string"
        case BinaryOperation(operator=operator):
            return "nodes" if operator == "|" else "number" if operator in _ARITHMETIC else "boolean"
        case Negation():
            return "number"
        case Filter(primary=primary, predicates=predicates):
            return "nodes" if predicates else type_of(primary)
    assert_never(node)


def check(node: Expression, namespaces: Mapping[str, str]) -> None:
    """Raise ExpressionError at the first part of an XPath 1.0 expression that lxml could never evaluate."""
    match node:
        case Variable(name=name):
            if ":" in name:
                raise ExpressionError(f"a variable's name has no prefix: ${name}", node.start)
        case FunctionCall():
            _check_call(node, namespaces)
        case BinaryOperation(operator=operator, operands=operands):
            for operand in operands:
                check(operand, namespaces)
                if operator == "|":
                    _must_be_nodes(operand, "'|' joins paths")
        case Negation(operand=operand):
            check(operand, namespaces)
        case Path(origin=origin, steps=steps):
            if origin is not None and not isinstance(origin, str):
                check(origin, namespaces)
                _must_be_nodes(origin, "a path goes on from nodes")
            for step in steps:
                _check_step(step, namespaces)
        case Filter(primary=primary, predicates=predicates):
            check(primary, namespaces)
            if predicates:
                _must_be_nodes(primary, "only nodes take a predicate")
            for predicate in predicates:
                check(predicate, namespaces)


def _check_call(node: FunctionCall, namespaces: Mapping[str, str]) -> None:
    signature = FUNCTIONS.get(node.name)
    if signature is None:
        near = get_close_matches(node.name, FUNCTIONS, 1, cutoff=0.8)
        hint = f"; did you mean {near[0]}()?" if near else ""
        raise ExpressionError(f"unknown function {node.name}(){hint}", node.start)
    for argument in node.arguments:
        check(argument, namespaces)
    if not signature.least <= len(node.arguments) <= signature.most:
        raise ExpressionError(
            f"{node.name}() takes {_count(signature)}, found {len(node.arguments)}", node.start
        )
    if signature.nodes and node.arguments:
        _must_be_nodes(node.arguments[0], f"{node.name}() takes nodes")


def _count(signature: Signature) -> str:
    if signature.most == _ANY_NUMBER:
        return f"{signature.least} arguments or more"
    if signature.least < signature.most:
        return f"{signature.least} or {signature.most} arguments"
    return {0: "no argument", 1: "one argument"}.get(signature.most, f"{signature.most} arguments")


def _check_step(step: PathStep, namespaces: Mapping[str, str]) -> None:
    prefix, colon, _ = step.test.partition(":")
    if colon and not step.test.endswith(")") and prefix not in namespaces and prefix != "xml":
        raise ExpressionError(f"the prefix {prefix!r} is not declared", step.start)
    for predicate in step.predicates:
        check(predicate, namespaces)


def _must_be_nodes(node: Expression, why: str) -> None:
    if (found := type_of(node)) != "nodes":
        raise ExpressionError(f"{why}, not a {found}", node.start)
