"""The cost of variables' contents: `$step/…` may be large too, and from a stranger.

`budget` limits the element on which a pattern of XPath 1.0 is evaluated. The contents of its variables are
visited too, once or for each of many nodes: `//b[@x = $list/@y]` takes the nodes of the element times those
of the list. So the syntax tree tells how often they are visited, joined and read, in powers of the nodes on
either side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from narval.core.elements.element import Element, Tree
from narval.core.patterns import syntax
from narval.core.patterns.budget import (
    DOWN,
    IN_TEXT,
    JOINED,
    LOOKED_ONCE,
    LOOKS,
    NARROW,
    PARENTS,
    TEXT,
    TEXT_IN_TEXT,
    TEXT_OF_EACH,
)

_BLIND = frozenset(
    ("count", "not", "boolean", "position", "last", "name", "local-name", "namespace-uri", "id")
)
"""Functions that read no text of their arguments."""


class Term(NamedTuple):
    """A cost of at most `most`: powers of the nodes of the element (`own`) and of the variables (`held`),
    times the variables' bytes if it `reads` them, "attributes" or "all".
    """

    own: int
    held: int
    most: int
    reads: str = ""


class _Place(NamedTuple):
    """The context of a part of an expression: how often it is evaluated, in powers of the nodes of the
    element and of the variables; whether its context node is held by a variable; whether it is outside
    predicates; and whether it is read.
    """

    own: int = 0
    held: int = 0
    within: bool = False
    top: bool = True
    read: bool = False

    def times(self, *sizes: _Size) -> tuple[int, int]:
        """The powers of the work done here for each node of a size, or for each pair of nodes of two sizes.

        One size may be `shared`: the nodes in one context node are in no other.
        """
        own, held = self.own + sum(size.own for size in sizes), self.held + sum(size.held for size in sizes)
        if any(size.shared for size in sizes):
            return (own, held - 1) if self.within else (own - 1, held)
        return own, held

    def for_each(self, size: _Size) -> _Place:
        """The place of a predicate that is evaluated on that many nodes."""
        return _Place(*self.times(size), size.of_held, False, False)


class _Size(NamedTuple):
    """The most nodes an expression leads to, in powers of the nodes of the element and of the variables."""

    own: int = 0
    held: int = 0
    of_held: bool = False
    shared: bool = False


def terms(tree: syntax.Expression | None) -> tuple[Term, ...]:
    """The costs of an expression that grow with its variables' contents; without a tree the worst."""
    if tree is None:
        return Term(0, 3, JOINED), Term(0, 0, TEXT_IN_TEXT, "all")
    terms: set[Term] = set()
    _visit(tree, _Place(), terms)
    return tuple(sorted(term for term in terms if term.held or term.reads))


def most_nodes(costs: Iterable[Term], elements: Iterable[Element]) -> int | None:
    """The most nodes that an element may have with these variables; None: no limit, -1: not even one."""
    trees = [Tree(element) for element in elements]
    size = sum(tree.size for tree in trees)
    most: int | None = None
    counted: tuple[int, int] | None = None
    for term in costs:
        allowed = _allowed(term, 1 + size // 4, size, size)  # more nodes than possible
        if allowed is not None and counted is None:
            counted = _counted(trees)
        if counted is not None:
            allowed = _allowed(term, *counted, size)
        if allowed is not None:
            most = allowed if most is None else min(most, allowed)
    return most


def _allowed(term: Term, nodes: int, attributes: int, size: int) -> int | None:
    """The most nodes that an element may have for one cost; None for any number."""
    cost = nodes**term.held * {"": 1, "attributes": attributes, "all": size}[term.reads]
    if cost > term.most:
        return -1
    if not term.own or not cost:
        return None
    allowed = int((term.most / cost) ** (1.0 / term.own))
    return allowed if allowed < LOOKED_ONCE else None


def _counted(trees: Iterable[Tree]) -> tuple[int, int]:
    """The number of elements and attributes in trees, and of the characters of their attributes."""
    nodes = characters = 0
    for tree in trees:
        for node in tree.root.iter("*"):
            values = node.attrib.values()
            nodes += 1 + len(values)
            characters += sum(map(len, values))
    return nodes, characters


def _visit(node: syntax.Expression, place: _Place, terms: set[Term]) -> _Size:
    """Find the costs of a part of an expression; return the size of its result."""
    match node:
        case syntax.Variable():
            return _note(place, place, _Size(0, 1, True), "all", terms)
        case syntax.Path():
            return _visit_path(node, place, terms)
        case syntax.Filter(primary=primary, predicates=predicates):
            size = _visit(primary, place, terms)
            for predicate in predicates:
                _visit(predicate, place.for_each(size), terms)
            return size
        case syntax.BinaryOperation(operator=operator) if operator in syntax.COMPARISONS:
            sizes = [_visit(part, place._replace(read=True), terms) for part in syntax.parts(node)]
            terms.add(Term(*place.times(*sizes), LOOKS))
            return _Size()
        case syntax.BinaryOperation(operator="|"):
            sizes = [_visit(part, place, terms) for part in syntax.parts(node)]
            of_held = any(size.of_held for size in sizes)
            if of_held:
                terms.add(Term(place.own, place.held + 2, PARENTS))
            own, held = max(size.own for size in sizes), max(size.held for size in sizes)
            return _Size(own, held, of_held)
        case syntax.FunctionCall(name=name, arguments=arguments):
            return _visit_call(name, arguments, place, terms)
    for part in syntax.parts(node):
        _visit(part, place, terms)
    return _Size()


def _visit_call(
    name: str, arguments: tuple[syntax.Expression, ...], place: _Place, terms: set[Term]
) -> _Size:
    reads = name not in _BLIND
    sizes = [_visit(argument, place._replace(read=reads), terms) for argument in arguments]
    if not arguments and reads and place.within:
        terms.add(Term(place.own, max(0, place.held - 1), TEXT_OF_EACH, "all"))
    if name in IN_TEXT and (sizes[0].of_held or place.within):
        terms.add(Term(place.own, place.held, TEXT_IN_TEXT, "all"))
    if name != "id":
        return _Size()
    return _Size(0, 1, True) if place.within else _Size(1, 0)


def _visit_path(path: syntax.Path, place: _Place, terms: set[Term]) -> _Size:
    if path.base is None:
        size = _Size(0, 0, place.within)
        alone = (
            2 if path.origin == "/" and not place.within else 1 if place.top and path.origin is None else 0
        )
    else:
        size, alone = _visit(path.base, place._replace(read=False), terms), 0
    reads = "all"
    for at, step in enumerate(path.steps):
        many = size.own + size.held > 0
        if size.of_held and many and step.axis not in NARROW:
            terms.add(_join(place, step, apart=at == 0 and isinstance(path.origin, syntax.Variable)))
        alone, size = _step(step, alone, size)
        for predicate in step.predicates:
            _visit(predicate, place.for_each(size), terms)
        reads = "attributes" if step.axis == "attribute" else "all"
    near = path.origin is None and not place.top and all(step.axis in NARROW for step in path.steps)
    if near and (place.held if place.within else place.own) and size.own + size.held:
        size = size._replace(shared=True)
    each = any(step.axis in DOWN for step in path.steps) and reads == "all"
    around = place._replace(held=place.held - 1) if near and place.within else place
    return _note(place, around, size, reads, terms, TEXT_OF_EACH if each else TEXT)


def _join(place: _Place, step: syntax.PathStep, *, apart: bool) -> Term:
    """The cost of joining the results of many nodes; elements are `apart` if none is within another."""
    if step.axis == "parent":
        return Term(place.own, place.held + 2, PARENTS)
    return Term(place.own, place.held + (2 if apart and step.axis in DOWN else 3), JOINED)


def _step(step: syntax.PathStep, alone: int, size: _Size) -> tuple[int, _Size]:
    """The nodes that a step leads to. Memory and the element in it are `alone`: one node each."""
    one = size.own + size.held == 0
    if step.axis == "self" or (one and step.axis == "parent"):
        return alone, size
    if one and step.axis == "attribute" and step.test != "*":
        return 0, size
    if alone and step.axis == "child":
        return alone - 1, size
    return 0, size._replace(held=1) if size.of_held else size._replace(own=1)


def _note(
    place: _Place, around: _Place, size: _Size, reads: str, terms: set[Term], text: int = TEXT
) -> _Size:
    """Record the cost of walking a path and, if its text is read, of reading it as often as what is `around`
    it.
    """
    terms.add(Term(*place.times(size), LOOKS))
    if size.of_held and place.read:
        terms.add(Term(around.own, around.held, text, reads))
    return size
