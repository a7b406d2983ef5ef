"""Selection: which pieces of its variables an expression reads, judged only by its text.

`$mail/@from` reads the attribute `from` of `$mail`, and `$mail[@urgent]/@from` all of it, since the selection
depends on another part. So does a path that leads out of its variable's elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from narval.core.patterns import syntax
from narval.core.patterns.syntax import ExpressionError
from narval.core.trust.paths import TEXT, is_within


class Piece(NamedTuple):
    """A piece of a variable's value; the path "" is the whole."""

    variable: str
    path: str = ""


@lru_cache(maxsize=4096)
def pieces_of(text: str) -> frozenset[Piece]:
    """The pieces that an expression reads. Raises ExpressionError."""
    return frozenset(_read(syntax.parse(text)))


@lru_cache(maxsize=4096)
def selected_by(text: str) -> frozenset[Piece]:
    """The pieces that an expression of elements selects. Raises ExpressionError."""
    return frozenset(_selected(syntax.parse(text), ()))


@lru_cache(maxsize=1024)
def looked_at(text: str) -> frozenset[str]:
    """The paths of the parts that a pattern reads of the element it is evaluated on; "." is all its text.
    Paths from a variable lead into other elements and are left out, as are parts whose path is unknown.
    """
    try:
        return frozenset("/".join(path) for path in _looked_at(syntax.parse(text), _OUTSIDE))
    except ExpressionError:  # XPath 3.1 only
        return frozenset()


def path_selected(text: str) -> str | None:
    """The path of the part that an expression selects of the element it is evaluated on, "" for the whole;
    None if unknown.
    """
    try:
        node = syntax.parse(text)
    except ExpressionError:
        return None
    if not isinstance(node, syntax.Path) or any(step.predicates for step in node.steps):
        return None
    place, _ = _followed(node, _OUTSIDE)
    return None if place is None or place == _OUTSIDE else "/".join(place)


def variable_of(text: str) -> str:
    """The only variable among whose elements a pattern selects, as in `$ask[@outcome='approve']`; "" for any
    other pattern.
    """
    try:
        node = syntax.parse(text)
    except ExpressionError:
        return ""
    while isinstance(node, syntax.Filter):
        node = node.primary
    return node.name if isinstance(node, syntax.Variable) else ""


WITHIN = frozenset({"self", "child", "attribute", "descendant", "descendant-or-self"})
"""The axes that stay within an element."""

READ_NOTHING = frozenset({"position", "last", "true", "false"})
"""The functions without arguments that read nothing of an element."""

ALL_TEXT = "."
"""The path, used like that of a part, for all text within an element."""


def looks_at(text: str, path: str) -> bool:
    """True if a pattern reads the attribute or text at a path of an element: the part itself, or, for a text,
    a part that contains it.
    """
    looked = looked_at(text)
    if path in looked:
        return True
    if path.rpartition("/")[2] != TEXT:
        return False
    return ALL_TEXT in looked or any(is_within(path, part) for part in looked)


_Place = tuple[str, ...] | None
"""The names that lead to a node within an element; None if unknown."""

_OUTSIDE = ("/",)
"""The place from which the first step of a pattern leads to the element."""


def _looked_at(node: syntax.Expression, place: _Place) -> Iterator[tuple[str, ...]]:
    """The places to which the paths in an expression lead, evaluated at a place."""
    if isinstance(node, syntax.Path | syntax.Filter):
        yield from _followed(node, place)[1]
    else:
        for inner in syntax.parts(node):
            yield from _looked_at(inner, place)


def _followed(node: syntax.Expression, place: _Place) -> tuple[_Place, list[tuple[str, ...]]]:
    """The place to which an expression leads, and all places that it reads on the way."""
    if (
        isinstance(node, syntax.Filter)
        and not node.predicates
        and not isinstance(node.primary, syntax.Path | syntax.Filter)
    ):
        return None, list(_looked_at(node.primary, place))
    if syntax.variables(node) and not (isinstance(node, syntax.Path | syntax.Filter) and _begins_here(node)):
        return None, []
    looked: list[tuple[str, ...]] = []
    match node:
        case syntax.Path(origin=origin, base=base, steps=steps):
            if base is not None:
                place, looked = _followed(base, place)
            elif origin is not None:
                place = _OUTSIDE
            for step in steps:
                place = _stepped(place, step)
                if place:
                    looked.append(place)
                elif place == () and step.axis == "self" and step is steps[-1]:
                    looked.append((ALL_TEXT,))
                looked += (path for predicate in step.predicates for path in _looked_at(predicate, place))
            return place, looked
        case syntax.Filter(primary=primary, predicates=predicates):
            place, looked = _followed(primary, place)
            looked += (path for predicate in predicates for path in _looked_at(predicate, place))
            return place, looked
    return None, list(_looked_at(node, place))


def _begins_here(node: syntax.Path | syntax.Filter) -> bool:
    """True if a path starts at its context and not at a variable, whatever its predicates contain."""
    first = node.primary if isinstance(node, syntax.Filter) else node.base
    if isinstance(first, syntax.Path | syntax.Filter):
        return _begins_here(first)
    return first is None or not syntax.variables(first)


def _stepped(place: _Place, step: syntax.PathStep) -> _Place:
    """The place to which a step leads from another."""
    name = step.test if step.test == TEXT else step.test.rpartition(":")[2]
    if place == _OUTSIDE:
        return () if step.axis == "child" else None
    if place is None or (step.axis != "self" and (name == "*" or (name.endswith(")") and name != TEXT))):
        return None
    if step.axis == "self":
        return place
    if step.axis == "attribute":
        return (*place, f"@{name}")
    if step.axis != "child":
        return None
    return (*place, name)


def _read(node: syntax.Expression) -> Iterator[Piece]:
    if isinstance(node, syntax.Variable | syntax.Path | syntax.Filter):
        yield from _selected(node, ())
        for inner in _beside(node):
            yield from _read(inner)
    else:
        for inner in syntax.parts(node):
            yield from _read(inner)


def _beside(node: syntax.Expression) -> Iterator[syntax.Expression]:
    """The predicates within a path, which may have variables of their own."""
    match node:
        case syntax.Filter(primary=primary, predicates=predicates):
            yield from _beside(primary)
            yield from predicates
        case syntax.Path(base=base, steps=steps):
            if base is not None:
                yield from _beside(base)
            for step in steps:
                yield from step.predicates


def _selected(
    node: syntax.Expression, steps: tuple[syntax.PathStep, ...], *, whole: bool = False
) -> Iterator[Piece]:
    """The pieces selected by a path that continues an expression by steps."""
    match node:
        case syntax.Variable(name=name):
            yield Piece(name, "" if whole else _path(steps))
        case syntax.Filter(primary=primary, predicates=predicates):
            yield from _selected(primary, steps, whole=whole or any(map(_reads_context, predicates)))
        case syntax.Path(base=base, steps=own) if base is not None:
            reads = any(_reads_context(predicate) for step in own for predicate in step.predicates)
            yield from _selected(base, (*own, *steps), whole=whole or reads)
        case _:
            for inner in syntax.parts(node):
                yield from _selected(inner, steps, whole=whole)


def _reads_context(predicate: syntax.Expression) -> bool:
    """True if a predicate depends on more of its context node than the position."""
    return any(
        (isinstance(node, syntax.Path) and node.base is None)
        or (isinstance(node, syntax.FunctionCall) and not node.arguments and node.name not in READ_NOTHING)
        for node in syntax.walk(predicate)
    )


def _path(steps: tuple[syntax.PathStep, ...]) -> str:
    """The path to which steps lead; "" if unknown."""
    names: list[str] = []
    for step in steps:
        name = step.test.rpartition(":")[2]
        if step.axis == "self":
            continue
        if step.axis not in WITHIN:
            return ""
        if step.axis.startswith("descendant") or (
            step.test != TEXT and (step.test == "*" or name.endswith(")"))
        ):
            break  # something within what was reached so far
        names.append(f"@{name}" if step.axis == "attribute" else name)
    else:
        return "/".join(names)
    beyond = (step.axis for step in steps)
    return "/".join(names) if all(axis in WITHIN for axis in beyond) else ""
