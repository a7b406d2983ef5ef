"""Analysis: the clauses of an expression, which say what elements it can match and when they alone decide.

The context node is a `memory` whose only child is the element, so `email[@subject='Hi']` asks for a name and
an attribute of the root, as do `/memory/email/@subject = 'Hi'` and `*[self::email and @subject='Hi']`. A part
that does not depend on the element is a *term*, evaluated when the expression is bound. A part that is not
understood demands nothing and is not exact: it is evaluated, never guessed. Of XPath 3.1 only what means the
same is used (numbers are parsed differently), and nothing is exact, since it may raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from msgspec.structs import replace

from narval.core.patterns import syntax
from narval.core.patterns.functions import CONTEXT_FUNCTIONS, FUNCTIONS, type_of
from narval.core.patterns.key import (
    MOST_CLAUSES,
    AttributeOf,
    Clause,
    Closed,
    Constant,
    Field,
    Lifted,
    Template,
    Term,
    attribute_field,
    conjunction,
    inexact,
    path_field,
)
from narval.core.patterns.xpath1 import compiled

_ALWAYS = [Clause(None, (), True)]
_UNKNOWN = [Clause(None, (), False)]
_ORDERINGS = {">": "gt", ">=": "ge", "<": "lt", "<=": "le"}


class _PathTarget(NamedTuple):
    """The target of a path: the root, if it satisfies `head`, and `rest` from there."""

    head: list[Clause]
    rest: tuple[syntax.PathStep, ...]


def clauses(source: ShapeSource, tree: syntax.Expression) -> tuple[Clause, ...]:
    """The alternatives of a shape; none if no element can match."""
    clauses_of_root = _Analysis(source).holds(tree, at_root=False)
    return tuple(inexact(clauses_of_root) if source.xpath3 else clauses_of_root)


class _Analysis:
    """The analysis of one shape. `at_root`: the context node is the element, not the memory around it."""

    def __init__(self, source: ShapeSource) -> None:
        self.source = source

    # --- the clauses of an expression ------------------------------------------------------

    def holds(self, node: syntax.Expression, *, at_root: bool) -> list[Clause]:
        term = term_of(self.source, node)
        if term is not None:
            return _decided(node, term)
        match node:
            case syntax.BinaryOperation(operator="and", operands=operands):
                return reduce(conjunction, (self.holds(operand, at_root=at_root) for operand in operands))
            case syntax.BinaryOperation(operator="or" | "|", operands=operands):
                return _either(self.holds(operand, at_root=at_root) for operand in operands)
            case syntax.BinaryOperation(operator=operator, operands=(left, right)) if (
                general := syntax.VALUE_COMPARISONS.get(operator, operator)
            ) in syntax.COMPARISONS:
                return self.compared(general, left, right, at_root)
            case syntax.FunctionCall():
                return self.called(node, at_root)
            case syntax.Filter(primary=primary, predicates=()):
                return self.holds(primary, at_root=at_root)
            case syntax.Filter():
                roots = self.roots(node, at_root)
                return _UNKNOWN if roots is None else roots
            case syntax.Path():
                return self.present(node, at_root)
        return _UNKNOWN

    def called(self, node: syntax.FunctionCall, at_root: bool) -> list[Clause]:
        match node:
            case syntax.FunctionCall(name="not", arguments=(inner,)) if type_of(inner) != "number":
                return _negated(self.holds(inner, at_root=at_root))
            case syntax.FunctionCall(name="boolean", arguments=(inner,)) if type_of(inner) != "number":
                return self.holds(inner, at_root=at_root)
            case syntax.FunctionCall(
                name="contains" | "starts-with", arguments=(syntax.Path() as where, text)
            ) if at_root:
                return self.searched(node.name, where, text)
        return _UNKNOWN

    def searched(self, operator: str, where: syntax.Path, text: syntax.Expression) -> list[Clause]:
        """The clauses of `contains(@subject, 'x')`: the first of several nodes counts, "" without any."""
        term = term_of(self.source, text) if type_of(text) in ("string", "nodes") else None
        target = self.target(where, at_root=True)
        field = self.field(target) if target is not None and target.head is _ALWAYS else None
        if term is None or field is None:
            return _UNKNOWN
        return [Clause(None, (Template(field, operator, term),), True)]

    def present(self, path: syntax.Path, at_root: bool) -> list[Clause]:
        """The clauses for a path that selects a node."""
        target = self.target(path, at_root)
        if target is None:
            return _UNKNOWN
        if not target.rest:
            return target.head
        field = self.field(target)
        if field is not None:
            return conjunction(target.head, [Clause(None, (Template(field, "has"),), True)])
        bare = tuple(replace(step, predicates=()) for step in target.rest)
        field = self.field(target._replace(rest=bare))
        if field is None:
            return inexact(target.head)
        return conjunction(target.head, [Clause(None, (Template(field, "has"),), False)])

    # --- comparisons ------------------------------------------------------------------------------------

    def compared(
        self, operator: str, left: syntax.Expression, right: syntax.Expression, at_root: bool
    ) -> list[Clause]:
        for node, other, sign in ((left, right, operator), (right, left, syntax.FLIPPED[operator])):
            term = term_of(self.source, other)
            if term is not None:
                return self.against(sign, node, term, type_of(other), at_root)
        if isinstance(left, syntax.Path) and isinstance(right, syntax.Path):
            return inexact(conjunction(self.present(left, at_root), self.present(right, at_root)))
        return _UNKNOWN

    def against(
        self, operator: str, node: syntax.Expression, term: Term, kind: str, at_root: bool
    ) -> list[Clause]:
        """The clauses for a comparison of a part of the element with a term."""
        if kind == "boolean":
            return _UNKNOWN
        if isinstance(node, syntax.FunctionCall) and node.name == "number" and len(node.arguments) == 1:
            return self.number_against(operator, node.arguments[0], term, kind, at_root)
        if isinstance(node, syntax.Filter) and not node.predicates:
            return self.against(operator, node.primary, term, kind, at_root)
        if not isinstance(node, syntax.Path):
            return _UNKNOWN
        target = self.target(node, at_root)
        field = self.field(target)
        template = self.template(operator, field, term, kind) if field is not None else None
        if target is None or template is None:
            return inexact(self.present(node, at_root))
        return conjunction(target.head, [Clause(None, (template,), True)])

    def number_against(
        self, operator: str, node: syntax.Expression, term: Term, kind: str, at_root: bool
    ) -> list[Clause]:
        """The clauses of `number(@size) > 10`: those of `@size > 10`, but an absent attribute is NaN."""
        if not isinstance(node, syntax.Path) or self.source.xpath3:
            return _UNKNOWN
        target = self.target(node, at_root)
        field = self.field(target)
        if target is None or field is None or field.attribute is None:
            return _UNKNOWN
        numbers = field.as_numbers
        if operator == "!=":
            if kind == "nodes" or target.head is not _ALWAYS:
                return _UNKNOWN
            return [Clause(None, (Template(numbers, "eq", term, positive=False),), True)]
        template = self.template(operator, numbers, term, kind)
        return _UNKNOWN if template is None else conjunction(target.head, [Clause(None, (template,), True)])

    def template(self, operator: str, field: Field, term: Term, kind: str) -> Template | None:
        """The test of a field against a term of that kind; None if no test is equivalent."""
        if operator in _ORDERINGS:
            return None if self.source.xpath3 else Template(field.as_numbers, _ORDERINGS[operator], term)
        if kind == "number" and self.source.xpath3:
            return None
        if operator == "=":
            numeric = field.as_numbers if kind == "number" else field
            return Template(numeric, "in" if kind == "nodes" else "eq", term)
        if kind == "nodes":
            return None
        return Template(field, "differs-as-number" if kind == "number" else "differs", term)

    # --- paths ------------------------------------------------------------------------------------------

    def target(self, path: syntax.Path, at_root: bool) -> _PathTarget | None:
        """The target of a path; None unless it goes only through the root."""
        steps = tuple(step for step in path.steps if not _goes_nowhere(step))
        if path.origin == "/":
            if not steps or not _leads_to_memory(steps[0]):
                return None
            steps, at_root = steps[1:], False
        elif path.base is not None:
            roots = self.roots(path.base, at_root)
            return None if roots is None else _PathTarget(roots, steps)
        if at_root and not (steps and steps[0].axis == "self"):
            return _PathTarget(_ALWAYS, steps)
        if not steps or steps[0].axis not in ("child", "self"):
            return None
        head = self.root(steps[0]) if at_root or steps[0].axis == "child" else None
        return None if head is None else _PathTarget(head, steps[1:])

    def field(self, target: _PathTarget | None) -> Field | None:
        """The field that a target stands for; None if there is none."""
        return None if target is None else field_of(target.rest, self.source.namespaces)

    def root(self, step: syntax.PathStep) -> list[Clause] | None:
        """The clauses of a step that selects the root; None if it is not understood."""
        if step.test in ("*", "node()"):
            head = _ALWAYS
        elif (tag := name_of(step.test, self.source.namespaces)) is not None:
            head = [Clause(tag, (), True)]
        else:
            return None
        return self.filtered(head, step.predicates)

    def roots(self, node: syntax.Expression, at_root: bool) -> list[Clause] | None:
        """The clauses of an expression that can select only the root, such as `(email | note)[@subject]`;
        else None.
        """
        match node:
            case syntax.Path():
                target = self.target(node, at_root)
                return target.head if target is not None and not target.rest else None
            case syntax.Filter(primary=primary, predicates=predicates):
                head = self.roots(primary, at_root)
                return None if head is None else self.filtered(head, predicates)
            case syntax.BinaryOperation(operator="|", operands=operands):
                sides = [self.roots(operand, at_root) for operand in operands]
                return None if None in sides else _either(side for side in sides if side is not None)
        return None

    def filtered(self, head: list[Clause], predicates: Iterable[syntax.Expression]) -> list[Clause]:
        """The clauses of the root with its predicates; a number is a position, which stays unknown."""
        for predicate in predicates:
            truth = _UNKNOWN if type_of(predicate) == "number" else self.holds(predicate, at_root=True)
            head = conjunction(head, truth)
        return head


def _decided(node: syntax.Expression, term: Term) -> list[Clause]:
    """The clauses of an expression that does not depend on the element: decided when it is bound."""
    if type_of(node) == "number":
        return _UNKNOWN
    return [Clause(None, (Template(None, "fixed", term),), True)]


def _either(sides: Iterable[list[Clause]]) -> list[Clause]:
    alternatives = [clause for side in sides for clause in side]
    if len(alternatives) <= MOST_CLAUSES:
        return alternatives
    tags = dict.fromkeys(clause.tag for clause in alternatives)
    return _UNKNOWN if None in tags or len(tags) > MOST_CLAUSES else [Clause(tag) for tag in tags]


def _negated(alternatives: list[Clause]) -> list[Clause]:
    """The clauses of a negation; unknown unless each alternative is exact and names no root."""
    if not all(clause.exact and clause.tag is None for clause in alternatives):
        return _UNKNOWN
    none = _ALWAYS
    for clause in alternatives:
        broken = [Clause(None, (replace(test, positive=not test.positive),), True) for test in clause.tests]
        if len(none) * len(broken) > MOST_CLAUSES:
            return _UNKNOWN
        none = conjunction(none, broken)
    return none


def _leads_to_memory(step: syntax.PathStep) -> bool:
    """True if a first step from the top selects the context node itself."""
    return step.axis == "child" and step.test in ("memory", "*") and not step.predicates


def _goes_nowhere(step: syntax.PathStep) -> bool:
    return step.axis == "self" and step.test == "node()" and not step.predicates


_XML = "http://www.w3.org/XML/1998/namespace"
_FIELD_AXES = ("child", "attribute", "descendant")
_ANYWHERE_BELOW = ("descendant-or-self", "node()")
_PLAIN_NAME = re.compile(r"[^*()]+")


def field_of(steps: Sequence[syntax.PathStep], namespaces: Mapping[str, str]) -> Field | None:
    """The field that steps without predicates lead to; None if there is none."""
    if len(steps) == 1 and steps[0].axis == "attribute" and not steps[0].predicates:
        name = name_of(steps[0].test, namespaces)
        if name is not None:
            return attribute_field(name)
    prefixes: dict[str, str] = {}
    written = [_written(step, namespaces, prefixes) for step in steps]
    if None in written:
        return None
    return path_field("/".join(filter(None, written)) or ".", tuple(prefixes.items()))


def _written(step: syntax.PathStep, namespaces: Mapping[str, str], prefixes: dict[str, str]) -> str | None:
    """A step in the spelling common to all shapes, with its prefix renamed; None if no field has it."""
    if step.predicates:
        return None
    if (step.axis, step.test) == _ANYWHERE_BELOW:
        return f"{step.axis}::{step.test}"
    if step.axis not in _FIELD_AXES or (step.test.endswith(")") and step.test != "text()"):
        return None
    prefix, colon, local = step.test.partition(":")
    if not colon:
        return f"{step.axis}::{step.test}"
    namespace = _namespace(prefix, namespaces)
    if namespace is None:
        return None
    ours = f"n{len(prefixes)}"
    prefixes[ours] = namespace
    return f"{step.axis}::{ours}:{local}"


def name_of(test: str, namespaces: Mapping[str, str]) -> str | None:
    """The name required by a node test, as lxml writes it; None if it requires something else."""
    if not _PLAIN_NAME.fullmatch(test):
        return None
    prefix, colon, local = test.partition(":")
    if not colon:
        return test
    namespace = _namespace(prefix, namespaces)
    return None if namespace is None else f"{{{namespace}}}{local}"


def _namespace(prefix: str, namespaces: Mapping[str, str]) -> str | None:
    return _XML if prefix == "xml" else namespaces.get(prefix)


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
    if path.base is None:
        starts = path.origin is None and inside
    else:
        starts = _is_closed(path.base, xpath3, inside=inside)
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
