"""Explanations: the first predicate of a pattern that fails, and the element's value there.

The expression is walked as written. Each piece, from the first step to the last predicate, is evaluated on
the node it concerns, in the pattern's own language, so an explanation cannot disagree with the match. A part
that cannot be taken apart is named as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from lxml import etree

from narval.core.patterns import syntax
from narval.core.patterns.functions import is_positional, never_holds
from narval.core.patterns.syntax import ExpressionError
from narval.core.patterns.xpath1 import compiled, string_of

_LONGEST_VALUE = 80
_MOST_VALUES = 3
_MOST_NODES = 20
"""The most nodes that are compared to find the nearest match."""


class Mismatch(NamedTuple):
    """The first predicate that failed, as written, and the value of the element there.

    `satisfied` counts the steps and predicates that held before: the element with the most is the nearest.
    """

    predicate: str
    value: str
    satisfied: int = 0

    def after(self, held: int) -> Mismatch:
        """The same mismatch, with `held` more satisfied."""
        return self._replace(satisfied=self.satisfied + held)


class Piece(NamedTuple):
    """A path cut after a step or predicate: the expression up to there, and that last step or predicate."""

    upto: str
    last: syntax.PathStep | syntax.Expression


class PatternParts(NamedTuple):
    """The parts of one pattern: their text as written, and their values at a node of an element.

    `nodes` are those of the variables.
    """

    text: str
    namespaces: Mapping[str, str]
    xpath3: bool
    nodes: Mapping[str, list[etree._Element]]

    def written(self, node: syntax.Expression) -> str:
        """The text of a part, as written."""
        return self.text[node.start : node.end]

    def step(self, step: syntax.PathStep) -> str:
        """The text of a step, without its predicates."""
        if not step.predicates:
            return self.text[step.start : step.end]
        return self.text[step.start : step.predicates[0].start].rstrip()[:-1].rstrip()

    def pieces(self, node: syntax.Path | syntax.Filter) -> Iterator[Piece]:
        """A path cut after each step and each predicate."""
        if isinstance(node, syntax.Filter):
            yield Piece(self.written(node.primary), node.primary)
            for predicate in node.predicates:
                yield Piece(self.text[node.start : predicate.end] + "]", predicate)
            return
        for step in node.steps:
            if (step.axis, step.test, step.end - step.start) == ("descendant-or-self", "node()", 2):
                continue
            yield Piece(self.text[node.start : step.start] + self.step(step), step)
            for predicate in step.predicates:
                yield Piece(self.text[node.start : predicate.end] + "]", predicate)

    def is_true(self, node: syntax.Expression, at: etree._Element) -> bool:
        if self.xpath3:
            from narval.core.patterns.xpath3 import XPath3

            return XPath3(self.written(node), self.namespaces)(at, **self.nodes)
        return bool(self.evaluate(f"boolean({self.written(node)})", at))

    def evaluate(self, text: str, at: etree._Element) -> Any:
        """The result of an expression at a node: a list of elements and strings, or a value."""
        if self.xpath3:
            from narval.core.patterns.xpath3 import XPath3

            return XPath3(text, self.namespaces).results(at, self.nodes)
        return compiled(text, self.namespaces)(at, **self.nodes)


@lru_cache(maxsize=128)
def _tree(text: str) -> syntax.Expression | None:
    """The syntax tree of a pattern, cached for many elements; None if it cannot be parsed."""
    try:
        return syntax.parse(text)
    except ExpressionError:
        return None


class Explainer:
    """The search for the part of a pattern that does not match."""

    def __init__(self, parts: PatternParts) -> None:
        self.parts, self.text = parts, parts.text
        self.tree = _tree(self.text)

    @property
    def weight(self) -> int:
        """The number of steps and predicates of the whole pattern."""
        return _weight(self.tree) if self.tree is not None else 1

    @property
    def most(self) -> int:
        """The most that a mismatch can satisfy: no element comes nearer."""
        return _most(self.tree) if self.tree is not None else 0

    def mismatch(self, context: etree._Element) -> Mismatch:
        """The part that fails, for a pattern known not to match."""
        try:
            if self.tree is not None:
                return self.blamed(self.tree, context)
            self.parts.evaluate(self.text, context)
        except Exception as error:
            return Mismatch(self.text, f"error: {_first_line(error)}")
        return Mismatch(self.text, _tags(context))

    # --- the failing part -------------------------------------------------------------------------

    def blamed(self, node: syntax.Expression, at: etree._Element) -> Mismatch:
        """The part that makes an expression false at a node."""
        try:
            return self.taken_apart(node, at)
        except Exception as error:
            return Mismatch(self.parts.written(node), f"error: {_first_line(error)}")

    def taken_apart(self, node: syntax.Expression, at: etree._Element) -> Mismatch:
        match node:
            case syntax.BinaryOperation(operator="and", operands=operands):
                return self.first_false(operands, at)
            case syntax.BinaryOperation(operator="or" | "|", operands=operands):
                return self.nearest_of(node, operands, at)
            case syntax.Filter(primary=primary, predicates=()):
                return self.blamed(primary, at)
            case syntax.FunctionCall(name="boolean", arguments=(inner,)):
                return self.blamed(inner, at)
            case syntax.Path() | syntax.Filter() if _open_path(node) is not None:
                return self.first_empty(node, at)
            case syntax.BinaryOperation(operator=operator, operands=operands) if (
                operator in syntax.COMPARISONS
            ):
                return self.compared(node, operands, at)
        return Mismatch(self.parts.written(node), self.seen(node, at))

    def compared(
        self, node: syntax.Expression, operands: Sequence[syntax.Expression], at: etree._Element
    ) -> Mismatch:
        """The mismatch of a comparison: by its values, unless a path in it ends before it reaches any."""
        for operand in operands:
            if isinstance(operand, syntax.Path) and _open_path(operand) is operand:
                on_the_way = list(self.parts.pieces(operand))[:-1]
                if any(self.parts.evaluate(piece.upto, at) == [] for piece in on_the_way):
                    return self.first_empty(operand, at)
        return Mismatch(self.parts.written(node), self.seen(node, at))

    def first_false(self, operands: Sequence[syntax.Expression], at: etree._Element) -> Mismatch:
        held = 0
        for operand in operands[:-1]:
            if not self.parts.is_true(operand, at):
                return self.blamed(operand, at).after(held)
            held += _weight(operand)
        return self.blamed(operands[-1], at).after(held)

    def nearest_of(
        self, node: syntax.Expression, operands: Sequence[syntax.Expression], at: etree._Element
    ) -> Mismatch:
        """The mismatch of the alternative that came nearest; of all if none came near."""
        blames = [self.blamed(operand, at) for operand in operands[:_MOST_NODES]]
        best = max(blames, key=lambda blame: blame.satisfied)
        if best.satisfied:
            return best
        return Mismatch(self.parts.written(node), ", ".join(dict.fromkeys(blame.value for blame in blames)))

    def first_empty(self, node: syntax.Path | syntax.Filter, at: etree._Element) -> Mismatch:
        """The mismatch of a path: the first step or predicate after which no node is left."""
        held, before = 0, [at]
        for piece in self.parts.pieces(node):
            value = self.parts.evaluate(piece.upto, at)
            if not isinstance(value, list):
                break
            if not value:
                if isinstance(piece.last, syntax.PathStep):
                    return Mismatch(self.parts.step(piece.last), self.instead(piece, before), held)
                return self.nearest_node(piece.last, before).after(held)
            held += 1 if isinstance(piece.last, syntax.PathStep) else _weight(piece.last)
            before = value
        return Mismatch(self.parts.written(node), self.seen(node, at), held)

    def nearest_node(self, predicate: syntax.Expression, nodes: Sequence[Any]) -> Mismatch:
        """The mismatch of a predicate on the node where it most nearly held."""
        if is_positional(predicate):
            return Mismatch(self.parts.written(predicate), f"{len(nodes)} there")
        blames = [
            self.blamed(predicate, node)
            for node in nodes[:_MOST_NODES]
            if isinstance(node, etree._Element) and not self.parts.is_true(predicate, node)
        ]
        if blames:
            return max(blames, key=lambda blame: blame.satisfied)
        return Mismatch(self.parts.written(predicate), _value_text(list(nodes)))

    # --- the value at the failing part ------------------------------------------------------------

    def instead(self, piece: Piece, before: Sequence[Any]) -> str:
        """The value to show if a step found nothing: the root if it has another name, else "absent"."""
        around = before[0]
        if isinstance(around, etree._Element) and around.getparent() is None and "//" not in piece.upto:
            return _tags(around)
        return "absent"

    def seen(self, node: syntax.Expression, at: etree._Element) -> str:
        """The values that an expression compares or tests."""
        match node:
            case syntax.BinaryOperation(operator=operator, operands=(left, right)) if (
                operator in syntax.COMPARISONS
            ):
                never = "" if self.parts.xpath3 else never_holds(self.text, node)
                return self.sides(left, right, at) + (f"; it never holds: {never}" if never else "")
            case syntax.FunctionCall(name="not" | "boolean", arguments=(inner,)):
                return self.seen(inner, at)
            case syntax.FunctionCall(arguments=arguments):
                opened = next((argument for argument in arguments if _open_path(argument) is not None), None)
                return self.described(node if opened is None else opened, at)
        return self.described(_open_path(node) or node, at)

    def sides(self, left: syntax.Expression, right: syntax.Expression, at: etree._Element) -> str:
        opened = [side for side in (left, right) if _open_path(side) is not None]
        descriptions = [self.described(side, at) for side in opened]
        if len(opened) == 2:
            return f"{descriptions[0]} and {descriptions[1]}"
        closed = right if opened == [left] else left
        if opened and syntax.variables(closed):
            return f"{descriptions[0]}, where {self.parts.written(closed)} is {self.described(closed, at)}"
        return descriptions[0] if opened else self.described(left, at)

    def described(self, node: syntax.Expression, at: etree._Element) -> str:
        value = self.parts.evaluate(self.parts.written(node), at)
        inner = _open_path(node)
        if value != value and inner is not None and inner is not node:
            return self.described(inner, at)
        return _value_text(value)


def _weight(node: syntax.Expression) -> int:
    """The number of steps and predicates that must hold."""
    match node:
        case syntax.BinaryOperation(operator="and", operands=operands):
            return sum(map(_weight, operands))
        case syntax.Filter(primary=primary, predicates=predicates):
            return _weight(primary) + sum(map(_weight, predicates))
        case syntax.Path(steps=steps):
            return sum(1 + sum(map(_weight, step.predicates)) for step in steps) or 1
    return 1


def _most(node: syntax.Expression) -> int:
    """The most steps and predicates that can hold unless all do."""
    match node:
        case syntax.BinaryOperation(operator="and", operands=operands):
            return _most_before_one(operands)
        case syntax.BinaryOperation(operator=operator, operands=operands) if operator in {
            "or",
            "|",
            *syntax.COMPARISONS,
        }:
            return max(map(_most, operands))
        case syntax.FunctionCall(name="boolean", arguments=(inner,)):
            return _most(inner)
        case syntax.Filter(primary=primary, predicates=predicates):
            return _most_before_one((primary, *predicates))
        case syntax.Path(steps=steps):
            parts = [part for step in steps for part in (None, *step.predicates)]
            return _most_before_one(parts)
    return 0


def _most_before_one(parts: Sequence[syntax.Expression | None]) -> int:
    """The most that can hold of successive parts, one of which does not; None is a step."""
    most = held = 0
    for part in parts:
        most = max(most, held + (_most(part) if part is not None else 0))
        held += _weight(part) if part is not None else 1
    return most


def _open_path(node: syntax.Expression) -> syntax.Path | None:
    """The first path in an expression that starts at the element or above it."""
    paths = (part for part in syntax.walk(node) if isinstance(part, syntax.Path))
    return next((path for path in paths if path.base is None), None)


def _tags(context: etree._Element) -> str:
    return ", ".join(f"<{child.tag!s}>" for child in context if isinstance(child.tag, str))


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _value_text(value: Any) -> str:
    """A value for people."""
    if isinstance(value, list):
        if not value:
            return "absent"
        items = ", ".join(map(_item, value[:_MOST_VALUES]))
        return items if len(value) <= _MOST_VALUES else f"{items}, … ({len(value)} in all)"
    return _item(value)


def _item(value: Any) -> str:
    if isinstance(value, etree._Element):
        text = " ".join(string_of(value).split())
        return _quoted(text) if text else f"<{value.tag!s}>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "not a number" if value != value else f"{value:.15g}"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return f"'{text}'" if len(text) <= _LONGEST_VALUE else f"'{text[:_LONGEST_VALUE]}…'"
