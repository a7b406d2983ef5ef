"""Paths that are slower than they look: lxml joins the results of many nodes, or reads text again.

A step from many nodes may reach the same node again, so lxml compares each result with all before. A single
step from one node does not; nor do steps to children and attributes, which have one parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from narval.core.patterns import syntax


class Joins(Enum):
    """The nodes that are joined: none, at most one for each, or all that each leads to."""

    NOTHING = 0
    PARENTS = 1
    NODES = 2


NARROW = ("child", "attribute", "self", "namespace")
DOWN = ("descendant", "descendant-or-self")
IN_TEXT = ("contains", "substring-before", "substring-after")


def joins(tree: syntax.Expression) -> Joins:
    """The worst joins of the paths in an expression."""
    return max(_joins_of(tree, top=True), key=lambda kind: kind.value)


def _joins_of(node: syntax.Expression, *, top: bool) -> Iterator[Joins]:
    """The joins of each part of an expression; `top` if its paths start above the element."""
    yield Joins.NOTHING
    if isinstance(node, syntax.Path):
        yield _of_path(node, top)
    if (
        isinstance(node, syntax.BinaryOperation)
        and node.operator == "|"
        and not (top and all(map(_is_one, node.operands)))
    ):
        yield Joins.PARENTS
    inner = (
        [predicate for step in node.steps for predicate in step.predicates]
        if isinstance(node, syntax.Path)
        else []
    )
    if isinstance(node, syntax.Filter):
        inner = list(node.predicates)
    for part in syntax.parts(node):
        yield from _joins_of(part, top=top and part not in inner)


def _of_path(path: syntax.Path, top: bool) -> Joins:
    """The joins of a path. Memory and the element in it are `alone`: the steps to them lead to one node."""
    many = path.origin is not None and not isinstance(path.origin, str)
    worst, alone = Joins.NOTHING, 2 if path.origin == "/" else 1 if top and path.origin is None else 0
    for step in path.steps:
        if step.axis in NARROW:
            if step.axis != "self":
                many, alone = many or alone == 0, max(0, alone - 1)
            continue
        if many and step.axis == "parent":
            worst = max(worst, Joins.PARENTS, key=lambda kind: kind.value)
        elif many:
            worst = Joins.NODES
        many, alone = many or step.axis != "parent", 0
    return worst


def _is_one(node: syntax.Expression) -> bool:
    """True if an expression leads at most to the element itself."""
    return isinstance(node, syntax.Path) and len(node.steps) == 1 and node.steps[0].axis in ("child", "self")


def searches_text_in_text(tree: syntax.Expression) -> bool:
    """True if a text is searched for another that is not literal in the pattern."""
    return any(
        isinstance(node, syntax.FunctionCall)
        and node.name in IN_TEXT
        and not all(isinstance(needle, syntax.Literal | syntax.LiteralSlot) for needle in node.arguments[1:])
        for node in syntax.walk(tree)
    )


def reads_text_of_each(tree: syntax.Expression) -> bool:
    """True if the text in each of many nodes is read, and some of these may be within others."""
    paths = [node for node in syntax.walk(tree) if isinstance(node, syntax.Path)]
    return any(
        step.axis not in NARROW and any(map(_reads_text, later.predicates))
        for path in paths
        for at, step in enumerate(path.steps)
        for later in path.steps[at:]
    )


def _reads_text(node: syntax.Expression) -> bool:
    """True if a part of an expression compares or searches the text of an element."""
    return any(
        any(map(_is_element, syntax.parts(part)))
        or (isinstance(part, syntax.FunctionCall) and not part.arguments)
        for part in syntax.walk(node)
        if isinstance(part, syntax.FunctionCall)
        or (isinstance(part, syntax.BinaryOperation) and part.operator in syntax.COMPARISONS)
    )


def _is_element(node: syntax.Expression) -> bool:
    return isinstance(node, syntax.Path) and not (node.steps and node.steps[-1].axis == "attribute")
