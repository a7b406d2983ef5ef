"""Shapes: expressions without their literals, each compiled and analysed once for all its patterns.

lxml decides what is XPath 1.0; an expression that it cannot evaluate is tried as XPath 3.1; one that is
neither is refused, with the error of the reader that got further.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

from lxml import etree

from narval.core.errors import PatternError
from narval.core.patterns import syntax
from narval.core.patterns.analysis import ShapeSource, clauses
from narval.core.patterns.budget import Limits, limits
from narval.core.patterns.functions import check, check_focus, is_positional, type_of
from narval.core.patterns.held import Term, terms
from narval.core.patterns.key import AttributeOf, Clause, Prefixes
from narval.core.patterns.syntax import Expression, ExpressionError, check_depth, lift, parse, variables
from narval.core.patterns.xpath1 import compiled

MOST_CHARACTERS = 20_000
"""The most characters of a pattern."""

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_SLOT = re.compile(r"\$(_[sid][0-9]+) ")
_VARIABLE = re.compile(r"\$([\w.\-]+)")
_NOT_LIFTED_IN_XPATH3 = re.compile(r"\$_d[0-9]|matches|replace|tokenize|analyze-string")
"""XPath 3.1 treats decimals differently, and a regular expression is checked as text."""
_NOWHERE = etree.Element("memory")

Literals = tuple[str | int | float, ...]
Truth = Callable[..., bool]
"""Evaluate to a boolean at a context node, given variables by name; may raise any error."""


@dataclass(frozen=True, eq=False)
class Shape:
    """An expression whose literals are variables, named in `slots` in order."""

    truth: Truth
    clauses: tuple[Clause, ...]
    slots: tuple[str, ...]
    variables: frozenset[str]
    xpath3: bool
    limits: Limits
    """The size of the largest element on which it is evaluated."""
    growing: frozenset[str] = frozenset()
    """The variables in which more nodes never match less."""
    held: tuple[Term, ...] = ()
    """The costs that grow with the contents of its variables."""

    @cached_property
    def names(self) -> frozenset[str] | None:
        """The root names it can match, as lxml writes them; None for any."""
        tags = [clause.tag for clause in self.clauses]
        return None if None in tags else frozenset(tag for tag in tags if tag is not None)

    def equal_to(self, variable: str) -> frozenset[tuple[str, str]]:
        """The attributes without a namespace that an element must share with an element of a variable: each
        with the one whose value it must have.
        """
        pairs = [
            frozenset(
                (test.field.attribute, test.term.attribute)
                for test in clause.tests
                if test.operator == "in" and test.positive and isinstance(test.term, AttributeOf)
                if test.field is not None and not test.field.numeric and test.term.variable == variable
                if test.field.attribute is not None and "{" not in test.field.attribute
            )
            for clause in self.clauses
        ]
        return frozenset.intersection(*pairs) if pairs else frozenset()


def compile_shape(text: str, prefixes: Prefixes) -> tuple[Shape, Literals]:
    """The shape of a pattern and its lifted literals; raises PatternError."""
    _check_text(text)
    lifted, literals = lift(text)
    shape = _shape(lifted, bool(literals), prefixes)
    if shape is None and literals:
        shape, literals = _shape(text, False, prefixes), ()
    if shape is None:
        raise _refusal(text, dict(prefixes))
    return shape, literals


def _check_text(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        message = f"expected at most {MOST_CHARACTERS} characters, found {len(text)}"
        raise PatternError(text[:80] + "…", message)
    wrong = _NOT_XML.search(text)
    if wrong is not None:
        raise PatternError(text, f"a character that XML does not have, {wrong[0]!r},", wrong.start() + 1)


@lru_cache(maxsize=2048)
def _shape(text: str, lifted: bool, prefixes: Prefixes) -> Shape | None:
    """The shape of a text, with its literals lifted out or in place; None if it is not an expression."""
    namespaces = dict(prefixes)
    try:
        check_depth(text)
    except ExpressionError:
        return None
    slots = tuple(_SLOT.findall(text)) if lifted else ()
    tree: Expression | None = None
    with suppress(ExpressionError):
        tree = parse(text, lifted=lifted, with_31=True)
    return _xpath1_shape(text, tree, slots, namespaces) or _xpath3_shape(text, tree, slots, namespaces)


def _xpath1_shape(
    text: str, tree: Expression | None, slots: tuple[str, ...], namespaces: Mapping[str, str]
) -> Shape | None:
    """The shape as XPath 1.0, by lxml; None if it is not valid."""
    used = frozenset(_VARIABLE.findall(text))
    alternatives: tuple[Clause, ...] = (Clause(None),)
    grow: frozenset[str] = frozenset()
    no_nodes: list[etree._Element] = []
    try:
        compiled(text, namespaces)
        truth = compiled(f"boolean({text})", namespaces)
        if tree is not None:
            check(tree, namespaces)
            check_focus(tree)
        else:  # `syntax` cannot parse it, and lxml refuses functions only when it evaluates them
            truth(_NOWHERE, **dict.fromkeys(used, no_nodes))
    except (etree.XPathError, ExpressionError):
        return None
    if tree is not None:
        used, alternatives = variables(tree), clauses(ShapeSource(text, namespaces, xpath3=False), tree)
        grow = growing(tree) if used else grow
    used = used.difference(slots)
    held = terms(tree) if used else ()
    return Shape(truth, alternatives, slots, used, False, limits(text, tree), grow, held)


def _xpath3_shape(
    text: str, tree: Expression | None, slots: tuple[str, ...], namespaces: Mapping[str, str]
) -> Shape | None:
    """The shape as XPath 3.1, by elementpath; None if it is not valid."""
    if slots and _NOT_LIFTED_IN_XPATH3.search(text):
        return None
    from narval.core.patterns.metered import MOST_BYTES, MOST_NODES
    from narval.core.patterns.xpath3 import XPath3

    try:
        xpath3 = XPath3(text, namespaces)
    except ExpressionError:
        return None
    if tree is not None:
        alternatives = clauses(ShapeSource(text, namespaces, xpath3=True), tree)
    else:
        alternatives = tuple(map(Clause, sorted(xpath3.names) if xpath3.names is not None else [None]))
    used = xpath3.variables.difference(slots)
    return Shape(xpath3, alternatives, slots, used, True, Limits(MOST_NODES, MOST_BYTES))


def _refusal(text: str, namespaces: Mapping[str, str]) -> PatternError:
    """The error of a text that is neither XPath 1.0 nor 3.1, from the reader that got further."""
    from narval.core.patterns.xpath3 import ForbiddenError, XPath3

    if not text.strip():
        return PatternError(text, "expected an XPath expression, found nothing")
    fault = ExpressionError("not an XPath expression", 0)
    xpath1, xpath3 = lambda text: check(parse(text), namespaces), lambda text: XPath3(text, namespaces)
    for read in (check_depth, xpath1, xpath3):
        try:
            read(text)
        except ForbiddenError as found:
            fault = found
        except ExpressionError as found:
            if found.offset > fault.offset or fault.args == ("not an XPath expression",):
                fault = found
            if read is check_depth:
                break
    return PatternError(text, fault.message, fault.offset + 1)


# --- growing variables ------------------------------------------------------------------------------------

# XPath compares node sets by looking for one pair that compares, so `@host = $first/@host` matches with
# several elements what it matches with one of them. `not()`, `count()`, a position and the text of the first
# of several nodes do not: with more nodes they may match less. Only XPath 1.0 is analysed, and what is not
# understood is treated as not monotone.


def growing(tree: syntax.Expression) -> frozenset[str]:
    """The variables in which the truth of an expression is monotone."""
    return frozenset(name for name in syntax.variables(tree) if _holds_on(tree, name))


def _holds_on(node: syntax.Expression, name: str) -> bool:
    """True if a true expression stays true when the variable gets more nodes."""
    if name not in syntax.variables(node):
        return True
    match node:
        case syntax.BinaryOperation(operator="and" | "or", operands=operands):
            return all(_holds_on(operand, name) for operand in operands)
        case syntax.BinaryOperation(operator=operator, operands=operands) if operator in syntax.COMPARISONS:
            return all(_is_comparable(operand, name) for operand in operands)
        case syntax.FunctionCall(name="boolean", arguments=(inner,)):
            return _holds_on(inner, name)
    return _nodes_grow(node, name)


def _is_comparable(node: syntax.Expression, name: str) -> bool:
    """True for a side of a comparison that is growing nodes, or a value without the variable."""
    if name in syntax.variables(node):
        return _nodes_grow(node, name)
    return type_of(node) != "boolean"


def _nodes_grow(node: syntax.Expression, name: str) -> bool:
    """True if an expression selects nodes, and keeps all of them when the variable gets more."""
    if name not in syntax.variables(node):
        return type_of(node) == "nodes"
    match node:
        case syntax.Variable():
            return True
        case syntax.BinaryOperation(operator="|", operands=operands):
            return all(_nodes_grow(operand, name) for operand in operands)
        case syntax.Filter(primary=primary, predicates=predicates):
            return _nodes_grow(primary, name) and _all_select(predicates, name)
        case syntax.Path(base=base, steps=steps):
            begins = base is None or _nodes_grow(base, name)
            return begins and all(_all_select(step.predicates, name) for step in steps)
    return False


def _all_select(predicates: Iterable[syntax.Expression], name: str) -> bool:
    """True if predicates judge each node independently of the others."""
    return all(not is_positional(predicate) and _holds_on(predicate, name) for predicate in predicates)
