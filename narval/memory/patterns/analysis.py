"""From a syntax tree to clauses: which elements an expression can match, and when that already decides.

The context node is a `memory` whose only child is the element (N9), so `email[@subject='Hi']` asks for a name
and an attribute of the root, as do `/memory/email/@subject = 'Hi'` and `*[self::email and @subject='Hi']`.
Whatever is not understood demands nothing and is not exact: it will be evaluated, never guessed. Of XPath 3.1
only what means the same there is used (numbers are read otherwise), and nothing is exact, since it may raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from msgspec.structs import replace

from narval.memory.patterns.field import Field, attribute_field, path_field
from narval.memory.patterns.functions import CONTEXT_FUNCTIONS, FUNCTIONS, type_of
from narval.memory.patterns.key import (
    MOST_CLAUSES,
    Clause,
    Closed,
    Constant,
    Lifted,
    Template,
    Term,
    conjunction,
    inexact,
)
from narval.memory.patterns.syntax import (
    COMPARISONS,
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
from narval.memory.patterns.xpath1 import compiled

XML = "http://www.w3.org/XML/1998/namespace"

_ALWAYS = [Clause(None, (), True)]
_UNKNOWN = [Clause(None, (), False)]
_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERINGS = {">": "gt", ">=": "ge", "<": "lt", "<=": "le"}
_FIELD_AXES = ("child", "attribute", "descendant")
_ANYWHERE_BELOW = ("descendant-or-self", "node()")
_PLAIN_NAME = re.compile(r"[^*()]+")


class ShapeSource(NamedTuple):
    """What is analysed: the text of a shape, its namespaces, and whether it is XPath 3.1."""

    text: str
    namespaces: Mapping[str, str]
    xpath3: bool


class _PathTarget(NamedTuple):
    """Where a path leads: through the root, if that satisfies `head`, and on by `rest`."""

    head: list[Clause]
    rest: tuple[PathStep, ...]


def clauses(source: ShapeSource, tree: Expression) -> tuple[Clause, ...]:
    """The alternatives of a shape; none when nothing can ever match."""
    found = _Analysis(source).holds(tree, at_root=False)
    return tuple(inexact(found) if source.xpath3 else found)


class _Analysis:
    """One shape. `at_root` says whether the context node is the element, or the memory around it."""

    def __init__(self, source: ShapeSource) -> None:
        self.source = source

    # --- what must hold for an expression to be true ------------------------------------------------------

    def holds(self, node: Expression, *, at_root: bool) -> list[Clause]:
        term = self.term(node)
        if term is not None:
            return self.settled(node, term)
        match node:
            case BinaryOperation(operator="and", operands=operands):
                return reduce(conjunction, (self.holds(each, at_root=at_root) for each in operands))
            case BinaryOperation(operator="or" | "|", operands=operands):
                return self.either(self.holds(each, at_root=at_root) for each in operands)
            case BinaryOperation(operator=operator, operands=(left, right)) if operator in COMPARISONS:
                return self.compared(operator, left, right, at_root)
            case FunctionCall():
                return self.called(node, at_root)
            case Filter(primary=primary, predicates=()):
                return self.holds(primary, at_root=at_root)
            case Filter():
                roots = self.roots(node, at_root)
                return _UNKNOWN if roots is None else roots
            case Path():
                return self.present(node, at_root)
        return _UNKNOWN

    def settled(self, node: Expression, term: Term) -> list[Clause]:
        """What does not depend on the element is settled when the pattern is bound."""
        if type_of(node) == "number":
            return _UNKNOWN
        return [Clause(None, (Template(None, "fixed", term),), True)]

    def either(self, sides: Iterable[list[Clause]]) -> list[Clause]:
        alternatives = [clause for side in sides for clause in side]
        if len(alternatives) <= MOST_CLAUSES:
            return alternatives
        tags = dict.fromkeys(clause.tag for clause in alternatives)
        return _UNKNOWN if None in tags or len(tags) > MOST_CLAUSES else [Clause(tag) for tag in tags]

    def negated(self, alternatives: list[Clause]) -> list[Clause]:
        """When no alternative holds; known only if each is exact and names no root."""
        if not all(clause.exact and clause.tag is None for clause in alternatives):
            return _UNKNOWN
        none = _ALWAYS
        for clause in alternatives:
            broken = [
                Clause(None, (replace(test, positive=not test.positive),), True) for test in clause.tests
            ]
            if len(none) * len(broken) > MOST_CLAUSES:
                return _UNKNOWN
            none = conjunction(none, broken)
        return none

    def called(self, node: FunctionCall, at_root: bool) -> list[Clause]:
        match node:
            case FunctionCall(name="not", arguments=(inner,)) if type_of(inner) != "number":
                return self.negated(self.holds(inner, at_root=at_root))
            case FunctionCall(name="boolean", arguments=(inner,)) if type_of(inner) != "number":
                return self.holds(inner, at_root=at_root)
            case FunctionCall(name="contains" | "starts-with", arguments=(Path() as where, what)) if at_root:
                return self.searched(node.name, where, what)
        return _UNKNOWN

    def searched(self, operator: str, where: Path, what: Expression) -> list[Clause]:
        """`contains(@subject, 'x')`: of several nodes the first counts, of none the empty string."""
        term = self.term(what) if type_of(what) in ("string", "nodes") else None
        place = self.place(where, at_root=True)
        field = self.field(place.rest) if place is not None and place.head is _ALWAYS else None
        if term is None or field is None:
            return _UNKNOWN
        return [Clause(None, (Template(field, operator, term),), True)]

    def present(self, path: Path, at_root: bool) -> list[Clause]:
        """When a path selects anything."""
        place = self.place(path, at_root)
        if place is None:
            return _UNKNOWN
        if not place.rest:
            return place.head
        field = self.field(place.rest)
        if field is not None:
            return conjunction(place.head, [Clause(None, (Template(field, "has"),), True)])
        field = self.field(tuple(PathStep(step.axis, step.test, (), 0, 0) for step in place.rest))
        if field is None:
            return inexact(place.head)
        return conjunction(place.head, [Clause(None, (Template(field, "has"),), False)])

    # --- comparisons ------------------------------------------------------------------------------------

    def compared(self, operator: str, left: Expression, right: Expression, at_root: bool) -> list[Clause]:
        for node, other, sign in ((left, right, operator), (right, left, _FLIPPED[operator])):
            term = self.term(other)
            if term is not None:
                return self.against(sign, node, term, type_of(other), at_root)
        if isinstance(left, Path) and isinstance(right, Path):
            return inexact(conjunction(self.present(left, at_root), self.present(right, at_root)))
        return _UNKNOWN

    def against(self, operator: str, node: Expression, term: Term, kind: str, at_root: bool) -> list[Clause]:
        """When a part of the element compares with a term."""
        if kind == "boolean":
            return _UNKNOWN
        if isinstance(node, FunctionCall) and node.name == "number" and len(node.arguments) == 1:
            return self.number_against(operator, node.arguments[0], term, kind, at_root)
        if isinstance(node, Filter) and not node.predicates:
            return self.against(operator, node.primary, term, kind, at_root)
        if not isinstance(node, Path):
            return _UNKNOWN
        place = self.place(node, at_root)
        field = self.field(place.rest) if place is not None else None
        template = self.template(operator, field, term, kind) if field is not None else None
        if place is None or template is None:
            return inexact(self.present(node, at_root))
        return conjunction(place.head, [Clause(None, (template,), True)])

    def number_against(
        self, operator: str, node: Expression, term: Term, kind: str, at_root: bool
    ) -> list[Clause]:
        """`number(@size) > 10`: as the attribute alone, but an absent one is a number too, NaN."""
        if not isinstance(node, Path) or self.source.xpath3:
            return _UNKNOWN
        place = self.place(node, at_root)
        field = self.field(place.rest) if place is not None else None
        if place is None or field is None or field.attribute is None:
            return _UNKNOWN
        numbers = field.as_numbers
        if operator == "!=":
            if kind == "nodes" or place.head is not _ALWAYS:
                return _UNKNOWN
            return [Clause(None, (Template(numbers, "eq", term, positive=False),), True)]
        template = self.template(operator, numbers, term, kind)
        return _UNKNOWN if template is None else conjunction(place.head, [Clause(None, (template,), True)])

    def template(self, operator: str, field: Field, term: Term, kind: str) -> Template | None:
        """The test of a field against a term of that kind; None when no test says the same."""
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

    def place(self, path: Path, at_root: bool) -> _PathTarget | None:
        """Where a path leads, when it goes through the root and nowhere else."""
        steps = tuple(step for step in path.steps if not _goes_nowhere(step))
        if path.origin == "/":
            if not steps or not _leads_to_memory(steps[0]):
                return None
            steps, at_root = steps[1:], False
        elif path.origin is not None and not isinstance(path.origin, str):
            roots = self.roots(path.origin, at_root)
            return None if roots is None else _PathTarget(roots, steps)
        if at_root and not (steps and steps[0].axis == "self"):
            return _PathTarget(_ALWAYS, steps)
        if not steps or steps[0].axis not in ("child", "self"):
            return None
        head = self.root(steps[0]) if at_root or steps[0].axis == "child" else None
        return None if head is None else _PathTarget(head, steps[1:])

    def root(self, step: PathStep) -> list[Clause] | None:
        """What a step demands of the root it is to select."""
        if step.test in ("*", "node()"):
            head = _ALWAYS
        elif (tag := self.name(step.test)) is not None:
            head = [Clause(tag, (), True)]
        else:
            return None
        return self.filtered(head, step.predicates)

    def roots(self, node: Expression, at_root: bool) -> list[Clause] | None:
        """When an expression selects the root, if it can select nothing else: `(email | note)[@subject]`."""
        match node:
            case Path():
                place = self.place(node, at_root)
                return place.head if place is not None and not place.rest else None
            case Filter(primary=primary, predicates=predicates):
                head = self.roots(primary, at_root)
                return None if head is None else self.filtered(head, predicates)
            case BinaryOperation(operator="|", operands=operands):
                sides = [self.roots(each, at_root) for each in operands]
                return None if None in sides else self.either(side for side in sides if side is not None)
        return None

    def filtered(self, head: list[Clause], predicates: Iterable[Expression]) -> list[Clause]:
        """The same root after its predicates; a number among them is a position, and not looked into."""
        for predicate in predicates:
            truth = _UNKNOWN if type_of(predicate) == "number" else self.holds(predicate, at_root=True)
            head = conjunction(head, truth)
        return head

    def field(self, steps: Sequence[PathStep]) -> Field | None:
        """The field that steps without predicates lead to."""
        if len(steps) == 1 and steps[0].axis == "attribute" and not steps[0].predicates:
            name = self.name(steps[0].test)
            if name is not None:
                return attribute_field(name)
        prefixes: dict[str, str] = {}
        written = [self.written(step, prefixes) for step in steps]
        if None in written:
            return None
        return path_field("/".join(filter(None, written)) or ".", tuple(prefixes.items()))

    def written(self, step: PathStep, prefixes: dict[str, str]) -> str | None:
        """A step of a field's path as it is known to all shapes, whatever prefixes they use."""
        if step.predicates:
            return None
        if (step.axis, step.test) == _ANYWHERE_BELOW:
            return f"{step.axis}::{step.test}"
        if step.axis not in _FIELD_AXES or (step.test.endswith(")") and step.test != "text()"):
            return None
        prefix, colon, local = step.test.partition(":")
        if not colon:
            return f"{step.axis}::{step.test}"
        namespace = self.namespace(prefix)
        if namespace is None:
            return None
        ours = f"n{len(prefixes)}"
        prefixes[ours] = namespace
        return f"{step.axis}::{ours}:{local}"

    def name(self, test: str) -> str | None:
        """The name a test asks for, as lxml has it; None when it asks for another thing."""
        if not _PLAIN_NAME.fullmatch(test):
            return None
        prefix, colon, local = test.partition(":")
        if not colon:
            return test
        namespace = self.namespace(prefix)
        return None if namespace is None else f"{{{namespace}}}{local}"

    def namespace(self, prefix: str) -> str | None:
        return XML if prefix == "xml" else self.source.namespaces.get(prefix)

    # --- terms ------------------------------------------------------------------------------------------

    def term(self, node: Expression) -> Term | None:
        """The expression as a term, when it depends on literals and variables alone."""
        if isinstance(node, LiteralSlot):
            return Lifted(node.index)
        if isinstance(node, Literal):
            return Constant(node.value)
        if not self.is_closed(node, inside=False):
            return None
        return Closed(compiled(self.source.text[node.start : node.end], self.source.namespaces))

    def is_closed(self, node: Expression, *, inside: bool) -> bool:
        """Whether the element plays no part; `inside` a closed path the context node is none of its own."""
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
        predicates = (each for step in path.steps for each in step.predicates)
        has_values = all(step.axis != "namespace" for step in path.steps)
        return starts and has_values and self.are_closed(predicates, inside=True)

    def are_closed(self, nodes: Iterable[Expression], *, inside: bool) -> bool:
        return all(self.is_closed(node, inside=inside) for node in nodes)


def _ignores_context(call: FunctionCall, inside: bool) -> bool:
    """Whether a function's result does not depend on the context node."""
    if call.name in CONTEXT_FUNCTIONS:
        return inside and call.name in ("last", "position")
    return inside or bool(call.arguments) or FUNCTIONS[call.name].most == 0


def _leads_to_memory(step: PathStep) -> bool:
    """Whether a first step from the top is that to the context node itself."""
    return step.axis == "child" and step.test in ("memory", "*") and not step.predicates


def _goes_nowhere(step: PathStep) -> bool:
    return step.axis == "self" and step.test == "node()" and not step.predicates
