"""Reads: the parts of elements that a value in braces comes from: those it selects, and those its predicates
read.

For `$mails[@from = $boss/@mail][1]/@subject` these are in the selected mail, and in the boss. An element that
a predicate excluded is not among them: the absence of something carries no content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from lxml import etree

from narval.core.definitions.reading.value_functions import functions_in
from narval.core.definitions.reading.values import ArgumentValue
from narval.core.elements.element import Element, Tree
from narval.core.patterns import syntax
from narval.core.patterns.syntax import variables as variables_of
from narval.core.patterns.xpath1 import string_of
from narval.core.trust.paths import TEXT, local_part
from narval.core.trust.selection import READ_NOTHING, WITHIN

Source = tuple[int, str]
"""The eid of an element, and the path of a part of it; "" is the whole."""

_NAME = re.compile(r"[\w.:-]+")
"""A test for one name, not for all names or a type of node."""

_OF_EACH = "{urn:narval:each}memory"
"""The element wrapped around each element while several are evaluated together."""


class Bound(NamedTuple):
    """An element of a variable, and the parts of memory that it is, or was copied from."""

    element: Element
    sources: frozenset[Source] = frozenset()


BoundElements = Mapping[str, Sequence[Bound]]
"""The elements of each variable."""


class _Rooted(NamedTuple):
    """A path from a variable within an expression."""

    variable: str
    text: str
    reads: frozenset[str] | None
    """The parts of the selected elements that its predicates read; None if it may be any."""
    is_inside: bool
    """True if it leads to no node outside the elements of the variable."""


def sources(value: ArgumentValue, bound: BoundElements, zone: str) -> frozenset[Source]:
    """The parts of elements in memory that a value comes from."""
    said: set[Source] = set()
    for rooted in _rooted_in(value.text):
        elements = bound.get(rooted.variable, ())
        if not any(one.sources for one in elements):
            continue
        if rooted.is_inside:
            said.update(_selected(rooted, bound, zone))
        else:
            said.update(*(one.sources for one in elements))
    return frozenset(said)


def _selected(rooted: _Rooted, bound: BoundElements, zone: str) -> Iterator[Source]:
    """The parts that a path selects; if unknown, the whole of each element of its variable."""
    elements = bound[rooted.variable]
    together = etree.Element("all")
    roots = [one.element.tree() for one in elements]
    for root in roots:
        etree.SubElement(together, _OF_EACH).append(root)
    trees = {name: [Tree(one.element).root for one in bound.get(name, ())] for name in _names(rooted.text)}
    of_each = dict(zip(roots, elements, strict=True))
    nodes = _compiled(rooted.text, zone)(together, **{**trees, rooted.variable: roots})
    if len(elements) > 1 and not _same(
        nodes, _compiled(rooted.text, zone)(trees[rooted.variable][0], **trees)
    ):
        yield from (source for one in elements for source in one.sources)
        return
    for node in nodes:
        root, path = _place(node)
        read = {""} if rooted.reads is None else {path, *rooted.reads}
        if not isinstance(node, etree._ElementUnicodeResult) or node.attrname in (None, "eid"):
            read.discard("@eid")  # narval assigns this number; one with a namespace came with the element
        for eid, within in of_each[root].sources:
            yield from ((eid, "/".join(filter(None, (within, part)))) for part in read)


def _same(some: list[etree._Element | str], others: list[etree._Element | str]) -> bool:
    """True if nodes have the same texts, in any order."""
    return sorted(map(_text, some)) == sorted(map(_text, others))


def _text(node: etree._Element | str) -> str:
    return str(node) if isinstance(node, str) else string_of(node)


def _place(node: etree._Element | etree._ElementUnicodeResult) -> tuple[etree._Element, str]:
    """The root of the element that contains a node, and the node's path there."""
    names: list[str] = []
    if isinstance(node, etree._Element):
        inner = node
    else:
        names = [f"@{local_part(node.attrname)}" if node.is_attribute else TEXT]
        inner = _above(_above(node) if node.is_tail else node)
    while (outer := _above(inner)).tag != _OF_EACH:
        names.insert(0, local_part(inner.tag) if isinstance(inner.tag, str) else TEXT)
        inner = outer
    return inner, "/".join(names)


def _above(node: etree._Element | etree._ElementUnicodeResult) -> etree._Element:
    parent = node.getparent()
    assert parent is not None, node
    return parent


@lru_cache(maxsize=1024)
def _rooted_in(text: str) -> tuple[_Rooted, ...]:
    return tuple(_rooted(text, syntax.parse(text)))


@lru_cache(maxsize=1024)
def _names(text: str) -> frozenset[str]:
    return variables_of(syntax.parse(text))


@lru_cache(maxsize=1024)
def _compiled(text: str, zone: str) -> etree.XPath:
    return etree.XPath(text, extensions=functions_in(zone), regexp=False, smart_strings=True)


def _rooted(text: str, node: syntax.Expression) -> Iterator[_Rooted]:
    """The paths that start at variables within an expression, including its predicates."""
    variable, predicates, steps = _taken_apart(node)
    if variable is not None:
        is_inside = all(step.axis in WITHIN for step in steps)
        yield _Rooted(variable.name, text[node.start : node.end], _read_by(node, predicates), is_inside)
        inner: Iterable[syntax.Expression] = predicates
    elif isinstance(node, syntax.Path) and node.base is None:
        inner = predicates
    elif predicates or steps:
        yield from (_Rooted(name, f"${name}", None, False) for name in sorted(variables_of(node)))
        inner = predicates
    else:
        inner = syntax.parts(node)
    for part in inner:
        yield from _rooted(text, part)


def _taken_apart(
    node: syntax.Expression,
) -> tuple[syntax.Variable | None, list[syntax.Expression], list[syntax.PathStep]]:
    """The variable at which a path starts, None if it starts elsewhere; all its predicates; and its steps."""
    match node:
        case syntax.Variable():
            return node, [], []
        case syntax.Filter(primary=primary, predicates=predicates):
            variable, before, steps = _taken_apart(primary)
            return variable, [*before, *predicates], steps
        case syntax.Path(base=base, steps=steps):
            after = [predicate for step in steps for predicate in step.predicates]
            if base is None:
                return None, after, [*steps]
            variable, before, first = _taken_apart(base)
            return variable, [*before, *after], [*first, *steps]
    return None, [], []


def _read_by(node: syntax.Expression, predicates: list[syntax.Expression]) -> frozenset[str] | None:
    """The parts of an element that the predicates of a path to it read; None if it may be any."""
    read: set[str] = set()
    for predicate in predicates:
        paths = _relative(predicate)
        if paths is None or (paths and not _is_of_variable(node, predicate)):
            return None
        read |= paths
    return frozenset(read)


def _is_of_variable(node: syntax.Expression, predicate: syntax.Expression) -> bool:
    """True if a predicate is evaluated on the elements of a variable, not on what is within them."""
    while isinstance(node, syntax.Filter | syntax.Path):
        if isinstance(node, syntax.Filter) and any(predicate is one for one in node.predicates):
            return _taken_apart(node.primary)[2] == []
        inner = node.primary if isinstance(node, syntax.Filter) else node.base
        if inner is None:
            return False
        node = inner
    return False


def _relative(predicate: syntax.Expression) -> frozenset[str] | None:
    """The parts of its context element that a predicate reads; None if it may be any.

    A test of the element's own name reads none: the author of the pattern named it.
    """
    read: set[str] = set()
    for part in syntax.walk(predicate):
        if isinstance(part, syntax.FunctionCall) and not part.arguments and part.name not in READ_NOTHING:
            return None
        if not isinstance(part, syntax.Path) or part.base is not None:
            continue
        names = [_step_name(step) for step in part.steps]
        if part.origin is not None or not names or None in names:
            return None
        read.add("/".join(name for name in names if name))
    return frozenset(read - {""})


def _step_name(step: syntax.PathStep) -> str | None:
    """The name that a step adds to the path of a part; "" for a test of its own name, None if unknown."""
    if step.predicates or not _NAME.fullmatch(step.test):
        return None
    name = step.test.rpartition(":")[2]
    return {"child": name, "attribute": f"@{name}", "self": ""}.get(step.axis)
