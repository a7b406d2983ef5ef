"""Functions and types of XPath 1.0, and checks for errors that lxml would only find on evaluation, or never.

lxml silently compiles unknown functions, undeclared prefixes and impossible arguments. A pattern that can
never be evaluated, or has a comparison that can never hold, is an author's mistake, to be reported when it is
loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Literal as Word
from typing import NamedTuple, TypeAlias, assert_never

from narval.core.patterns import syntax
from narval.core.patterns.syntax import BinaryOperation, Expression, ExpressionError, Literal, parse, walk
from narval.core.patterns.xpath1 import number

Type: TypeAlias = Word["nodes", "string", "number", "boolean"]


class Signature(NamedTuple):
    """The type of a function's result, the number of its arguments; `nodes` if the first must be nodes."""

    gives: Type
    least: int
    most: int
    nodes: bool = False


_ANY_NUMBER = 1_000_000
FUNCTIONS: dict[str, Signature] = {
    **dict.fromkeys(("last", "position"), Signature("number", 0, 0)),
    **dict.fromkeys(("count", "sum"), Signature("number", 1, 1, nodes=True)),
    "id": Signature("nodes", 1, 1),
    **dict.fromkeys(("local-name", "namespace-uri", "name"), Signature("string", 0, 1, nodes=True)),
    **dict.fromkeys(("string", "normalize-space"), Signature("string", 0, 1)),
    "concat": Signature("string", 2, _ANY_NUMBER),
    **dict.fromkeys(("starts-with", "contains"), Signature("boolean", 2, 2)),
    **dict.fromkeys(("substring-before", "substring-after"), Signature("string", 2, 2)),
    "substring": Signature("string", 2, 3),
    "translate": Signature("string", 3, 3),
    **dict.fromkeys(("string-length", "number"), Signature("number", 0, 1)),
    **dict.fromkeys(("boolean", "not", "lang"), Signature("boolean", 1, 1)),
    **dict.fromkeys(("true", "false"), Signature("boolean", 0, 0)),
    **dict.fromkeys(("floor", "ceiling", "round"), Signature("number", 1, 1)),
}
"""The functions of XPath 1.0."""

CONTEXT_FUNCTIONS = frozenset(("last", "position", "lang", "id"))
"""Functions whose results depend on the context node, whatever their arguments; other functions do if they
are called without their optional argument.
"""

_ARITHMETIC = frozenset(("+", "-", "*", "div", "mod"))


def type_of(node: syntax.Expression) -> Type:
    """The type of an expression; a variable is always nodes."""
    match node:
        case syntax.Literal(value=value):
            return "string" if isinstance(value, str) else "number"
        case syntax.LiteralSlot(kind=kind):
            return kind
        case syntax.Variable() | syntax.Path():
            return "nodes"
        case syntax.FunctionCall(name=name):
            return FUNCTIONS[name].gives if name in FUNCTIONS else "string"
        case syntax.BinaryOperation(operator=operator):
            return "nodes" if operator == "|" else "number" if operator in _ARITHMETIC else "boolean"
        case syntax.Negation():
            return "number"
        case syntax.Filter(primary=primary, predicates=predicates):
            return "nodes" if predicates else type_of(primary)
    assert_never(node)


def is_positional(predicate: syntax.Expression) -> bool:
    """True if a predicate is about the position of a node."""
    calls = (part for part in syntax.walk(predicate) if isinstance(part, syntax.FunctionCall))
    return type_of(predicate) == "number" or any(call.name in ("position", "last") for call in calls)


def check(
    node: syntax.Expression, namespaces: Mapping[str, str], functions: Mapping[str, Signature] = FUNCTIONS
) -> None:
    """Raise ExpressionError at the first part of an XPath 1.0 expression that lxml could never evaluate."""
    for part in syntax.parts(node):
        check(part, namespaces, functions)
    match node:
        case syntax.Variable(name=name) if ":" in name:
            raise ExpressionError(f"a variable's name has no prefix: ${name}", node.start)
        case syntax.FunctionCall():
            _check_call(node, functions)
        case syntax.BinaryOperation(operator="|", operands=operands):
            for operand in operands:
                _must_be_nodes(operand, "'|' joins paths")
        case syntax.Path(base=base, steps=steps):
            if base is not None:
                _must_be_nodes(base, "a path goes on from nodes")
            for step in steps:
                _check_step(step, namespaces)
        case syntax.Filter(primary=primary, predicates=predicates) if predicates:
            _must_be_nodes(primary, "only nodes take a predicate")


def check_focus(node: syntax.Expression) -> None:
    """Raise ExpressionError at a position() or last() outside predicates, where lxml supports neither."""
    match node:
        case syntax.FunctionCall(name="position" | "last"):
            raise ExpressionError(f"{node.name}() is in a predicate", node.start)
        case syntax.Filter(primary=primary):
            check_focus(primary)
        case syntax.Path(base=base):
            if base is not None:
                check_focus(base)
        case _:
            for part in syntax.parts(node):
                check_focus(part)


def _check_call(node: syntax.FunctionCall, functions: Mapping[str, Signature]) -> None:
    signature = functions.get(node.name)
    if signature is None:
        near = get_close_matches(node.name, functions, 1, cutoff=0.8)
        hint = f"; did you mean {near[0]}()?" if near else ""
        raise ExpressionError(f"unknown function {node.name}(){hint}", node.start)
    count = len(node.arguments)
    if not signature.least <= count <= signature.most:
        raise ExpressionError(f"{node.name}() takes {_count(signature)}, found {count}", node.start)
    if signature.nodes and node.arguments:
        _must_be_nodes(node.arguments[0], f"{node.name}() takes nodes")


def _count(signature: Signature) -> str:
    if signature.most == _ANY_NUMBER:
        return f"{signature.least} arguments or more"
    if signature.least < signature.most:
        return f"{signature.least} or {signature.most} arguments"
    return {0: "no argument", 1: "one argument"}.get(signature.most, f"{signature.most} arguments")


def _check_step(step: syntax.PathStep, namespaces: Mapping[str, str]) -> None:
    prefix, colon, _ = step.test.partition(":")
    if colon and not step.test.endswith(")") and prefix not in namespaces and prefix != "xml":
        raise ExpressionError(f"the prefix {prefix!r} is not declared", step.start)


def _must_be_nodes(node: syntax.Expression, why: str) -> None:
    if (kind := type_of(node)) != "nodes":
        raise ExpressionError(f"{why}, not a {kind}", node.start)


_BY_VALUE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""The operators by which XPath 1.0 compares only numbers, and those of XPath 3.1 that compare texts too."""


class Doubt(NamedTuple):
    """A part of a pattern that can never hold: its offset, and why, with what to write instead."""

    offset: int
    message: str


def doubts_of(text: str) -> Iterator[Doubt]:
    """The comparisons in an XPath 1.0 expression that order by a text that is not a number."""
    if "<" not in text and ">" not in text:
        return
    try:
        tree = parse(text)
    except ExpressionError:
        return
    for node in walk(tree):
        if why := never_holds(text, node):
            assert isinstance(node, BinaryOperation)
            left, right = (text[side.start : side.end] for side in node.operands)
            better = f"{left} {_BY_VALUE[node.operator]} {right}"
            written = text[node.start : node.end]
            yield Doubt(node.start, f"{written} never holds: {why}; write {better}, which compares texts")


def never_holds(text: str, node: Expression) -> str:
    """The reason why a part of an XPath 1.0 expression never holds; "" if it may hold."""
    if not isinstance(node, BinaryOperation) or node.operator not in _BY_VALUE:
        return ""
    for side in node.operands:
        if (
            isinstance(side, Literal)
            and isinstance(side.value, str)
            and number(side.value) != number(side.value)
        ):
            excerpt = text[side.start : side.end]
            return f"{node.operator} compares numbers, and {excerpt} is not a number"
    return ""
