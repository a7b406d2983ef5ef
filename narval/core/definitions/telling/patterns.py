"""Patterns as phrases: `email[contains(@subject, 'invoice')]` is an email whose subject contains "invoice".

A phrase says exactly what the pattern says. "whose subject" refers to an attribute, "in which … a subject" to
an element within it. A value is a phrase too: `$invoice/@due` is the due of "invoice". A part without an
exact phrase appears as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from narval.core.definitions.telling.sentence import an, listed, quoted, verbatim
from narval.core.elements.element import CONTROL
from narval.core.errors import NarvalError
from narval.core.patterns import syntax
from narval.core.patterns.functions import type_of
from narval.core.patterns.pattern import Condition, Pattern
from narval.core.patterns.syntax import ExpressionError

UNNAMED = {"plan": "this run", "each": "the element at hand", "now": "this moment"}
"""The words for variables that narval defines."""


class InexactError(Exception):
    """There is no exact phrase for what is written."""


def value_phrase(pattern: Pattern | str) -> str:
    """The phrase for the value of an expression: `the start of "event"`; else the expression itself."""
    text = pattern if isinstance(pattern, str) else pattern.text
    try:
        return ValuePhrases(text).value(syntax.parse(text))
    except (InexactError, ExpressionError, NarvalError):
        return verbatim(text)


def variable(name: str) -> str:
    """The words for a variable."""
    return UNNAMED.get(name) or quoted(name)


class ValuePhrases:
    """The phrases for names and values in one expression."""

    def __init__(self, text: str, namespaces: Mapping[str, str] | None = None) -> None:
        self._text, self._namespaces = text, namespaces or {}

    def written(self, node: syntax.Expression | syntax.PathStep) -> str:
        """The text of a part, as written."""
        return self._text[node.start : node.end]

    def noun(self, step: syntax.PathStep) -> str:
        """The name of an element with its article, and its prefix's namespace. Raises InexactError."""
        if step.test == "*":
            return "an element of any name"
        prefix, sign, _ = step.test.partition(":")
        of = f" (of {quoted(self._namespaces[prefix])})" if sign and prefix in self._namespaces else ""
        if "*" in step.test or (sign and not of):
            raise InexactError
        return an(step.test) + of

    def name(self, step: syntax.PathStep) -> str:
        """The name of an attribute or element, unchanged. Raises InexactError unless it is a single name."""
        prefix, sign, _ = step.test.partition(":")
        foreign = sign and self._namespaces.get(prefix, CONTROL) != CONTROL
        if foreign or prefix == "*" or step.test.endswith(("*", ")")) or step.predicates:
            raise InexactError
        return step.test

    def attribute(self, node: syntax.Expression) -> str:
        """The name of the attribute a path leads to. Raises InexactError."""
        match node:
            case syntax.Path(origin=None, steps=(syntax.PathStep(axis="attribute") as step,)):
                return quoted(self.name(step))
        raise InexactError

    def attributes(self, node: syntax.Expression) -> list[str]:
        """The attribute that this part requires; none for a part that says something else."""
        try:
            return [self.attribute(node)]
        except InexactError:
            return []

    def missing(self, node: syntax.Expression) -> list[str]:
        """The attributes that must be absent; none for a part that says something else."""
        match node:
            case syntax.FunctionCall(
                name="not", arguments=(syntax.BinaryOperation(operator="|" | "or") as inner,)
            ):
                names = [self.attributes(operand) for operand in inner.operands]
                return [name for one in names for name in one] if all(names) else []
            case syntax.FunctionCall(name="not", arguments=(inner,)):
                return self.attributes(inner)
        return []

    def value(self, node: syntax.Expression) -> str:
        """A value in a comparison or a text. Raises InexactError."""
        match node:
            case syntax.Literal(value=str(text)):
                return quoted(text)
            case syntax.Literal(value=number):
                return f"{number:.15g}"
            case syntax.Variable(name=name):
                return variable(name)
            case syntax.Filter(primary=primary, predicates=()):
                return self.value(primary)
            case syntax.BinaryOperation(operator="|", operands=operands):
                return listed(map(self.value, operands), "or")
            case syntax.Path(base=base, steps=steps) if base is not None:
                words = self.value(base)
                for step in steps:
                    if step.axis not in ("attribute", "child"):
                        raise InexactError
                    joint = "of" if step.axis == "attribute" else "in"
                    words = f"the {self.name(step)} {joint} {words}"
                return words
        raise InexactError


_IS = {"=": "is", "!=": "is other than", "<": "is less than", "<=": "is at most", ">": "is more than",
       ">=": "is at least"}  # fmt: skip
_TESTS = {"contains": "contains", "starts-with": "begins with", "ends-with": "ends with"}
_NOT = {
    "contains": "does not contain",
    "starts-with": "does not begin with",
    "ends-with": "does not end with",
}


def element_phrase(condition: Condition) -> str:
    """An element that matches a condition: `an email whose subject contains "invoice"`."""
    phrases = (_of_text(pattern.text, pattern.namespaces) for pattern in condition.patterns)
    return ", which is also ".join(phrases) or "any element"


def presence(condition: Condition, *, absent: bool = False, several: bool = False) -> str:
    """The clause that a matching element exists: `there is an email …`."""
    if len(condition.patterns) == 1 and (state := _state(condition.patterns[0])):
        return f"it is not so that {state}" if absent else state
    there = "there is no element that is" if absent else "there is"
    if several:
        there = "there are elements, each of which is"
    return f"{there} {element_phrase(condition)}"


def texts_phrase(matches: Sequence[str], namespaces: Mapping[str, str]) -> str:
    """An element that matches patterns that are not compiled."""
    return ", which is also ".join(_of_text(text, namespaces) for text in matches) or "any element"


def _of_text(text: str, namespaces: Mapping[str, str]) -> str:
    try:
        return _ElementPhrases(text, namespaces).element(syntax.parse(text))
    except (InexactError, ExpressionError):
        return f"an element that fits {verbatim(text)}"


def _state(pattern: Pattern) -> str:
    """The clause for a pattern that reads only variables: `"ask" is one whose …`."""
    if not pattern.variables:
        return ""
    try:
        tree = syntax.parse(pattern.text)
        if not pattern.is_closed:
            return ""
        match tree:
            case syntax.Filter(primary=syntax.Variable(name=name), predicates=predicates) if predicates:
                clauses = _ElementPhrases(pattern.text, pattern.namespaces).clauses(predicates)
                return f"{variable(name)} is one {clauses}"
            case syntax.Variable(name=name):
                return f"{variable(name)} is there"
    except ExpressionError:
        return ""
    except InexactError:
        pass
    return f"{verbatim(pattern.text)} holds"


def conjuncts(node: syntax.Expression) -> Iterator[syntax.Expression]:
    """The parts of an expression, all of which must hold."""
    match node:
        case syntax.Filter(primary=primary, predicates=()):
            yield from conjuncts(primary)
        case syntax.BinaryOperation(operator="and", operands=operands):
            for operand in operands:
                yield from conjuncts(operand)
        case _:
            yield node


def is_attribute(node: syntax.Expression) -> bool:
    """True for a path to one attribute."""
    return isinstance(node, syntax.Path) and len(node.steps) == 1 and node.steps[0].axis == "attribute"


def is_itself(node: syntax.Expression) -> bool:
    """True for the path `.`."""
    return isinstance(node, syntax.Path) and [(one.axis, one.test) for one in node.steps] == [
        ("self", "node()")
    ]


def is_relative(node: syntax.Expression) -> bool:
    """True for a path that starts at the element."""
    return isinstance(node, syntax.Path) and node.origin is None


class _ElementPhrases(ValuePhrases):
    """The phrases for elements that match an expression, and for its predicates."""

    # --- elements -------------------------------------------------------------------------------------

    def element(self, node: syntax.Expression) -> str:
        """The phrase for a matching element. Raises InexactError."""
        match node:
            case syntax.Filter(primary=primary, predicates=()):
                return self.element(primary)
            case syntax.BinaryOperation(operator="|" | "or", operands=operands):
                return ", or ".join(map(self.element, operands))
            case syntax.Path(origin=None | "/", steps=steps) if steps:
                return self.nested(steps)
        raise InexactError

    def nested(self, steps: Sequence[syntax.PathStep]) -> str:
        """An element, and its contents."""
        first, *rest = steps
        if first.axis == "descendant-or-self" and rest:
            raise InexactError
        if first.axis != "child" or first.test.endswith(")"):
            raise InexactError
        words = self.noun(first)
        if first.predicates:
            words += f" {self.clauses(first.predicates)}"
        if rest:
            if rest[0].axis == "attribute" and len(rest) == 1 and not rest[0].predicates:
                joint = " and" if first.predicates else ""
                return f"{words}{joint} that has {quoted(self.name(rest[0]))}"
            words += (" and" if first.predicates else "") + f" that contains {self.nested(rest)}"
        return words

    # --- clauses --------------------------------------------------------------------------------------

    def clauses(self, predicates: Sequence[syntax.Expression]) -> str:
        """The relative clauses of predicates; a predicate without a phrase appears as written."""
        if any(type_of(predicate) == "number" for predicate in predicates):
            raise InexactError
        parts = [part for predicate in predicates for part in conjuncts(predicate)]
        return self.all_of(parts)

    def all_of(self, parts: Sequence[syntax.Expression]) -> str:
        """The clauses of parts, all of which must hold: required attributes together, choices last."""
        there = [name for part in parts for name in self.attributes(part)]
        missing = [name for part in parts for name in self.missing(part)]
        others = [part for part in parts if not self.attributes(part) and not self.missing(part)]
        choices = [
            part for part in others if isinstance(part, syntax.BinaryOperation) and part.operator == "or"
        ]
        words = [f"that has {listed(there)}"] if there else []
        words += [f"that has {'none of' if len(missing) > 1 else 'no'} {listed(missing)}"] if missing else []
        words += [self.clause_or_text(part) for part in others if part not in choices]
        return listed([*words, *map(self.clause_or_text, choices)])

    def clause_or_text(self, node: syntax.Expression) -> str:
        """The clause for a part, or else the part as written."""
        try:
            return self.clause(node)
        except InexactError:
            return f"for which {verbatim(self.written(node))} holds"

    def clause(self, node: syntax.Expression) -> str:
        """The clause for what must hold of an element: `whose subject is "x"`. Raises InexactError."""
        match node:
            case syntax.Filter(primary=primary, predicates=()):
                return self.clause(primary)
            case syntax.BinaryOperation(operator="and", operands=operands):
                return f"({self.all_of([part for one in operands for part in conjuncts(one)])})"
            case syntax.BinaryOperation(operator="or", operands=operands):
                return self.choice(operands)
            case syntax.BinaryOperation(operator="|", operands=operands):
                return f"that has {listed(map(self.attribute, operands), 'or')}"
            case syntax.BinaryOperation(operator=operator, operands=(left, right)) if operator in _IS:
                return self.comparison(operator, left, right)
            case syntax.FunctionCall(name="not", arguments=(inner,)):
                return self.all_of([node]) if self.missing(node) else self.denial(inner)
            case syntax.FunctionCall(name=name, arguments=(what, syntax.Literal(value=str(text)))) if (
                name in _TESTS and (is_attribute(what) or is_itself(what))
            ):
                return f"{self.subject(what)} {_TESTS[name]} {quoted(text)}"
            case syntax.Path(origin=None, steps=(syntax.PathStep(axis="attribute") as step,)):
                return f"that has {quoted(self.name(step))}"
            case syntax.Path(origin=None, steps=steps):
                return f"that contains {self.nested(steps)}"
            case syntax.Path(
                origin=syntax.Variable(name=name), steps=(syntax.PathStep(axis="attribute") as step,)
            ):
                return f"while {variable(name)} has {quoted(self.name(step))}"
        raise InexactError

    def choice(self, operands: Sequence[syntax.Expression]) -> str:
        """Clauses, one of which must hold: `whose verdict is "yes" or "no"` if they are about one value."""
        if all(map(self.attributes, operands)):
            return f"that has {listed(map(self.attribute, operands), 'or')}"
        match operands[0]:
            case syntax.BinaryOperation(operator="=", operands=(left, _)) if is_relative(left):
                rights = [
                    one.operands[1]
                    for one in operands
                    if isinstance(one, syntax.BinaryOperation)
                    and one.operator == "="
                    and self.written(one.operands[0]) == self.written(left)
                    and not is_relative(one.operands[1])
                ]
                if len(rights) == len(operands):
                    return f"{self.subject(left)} is {listed(map(self.value, rights), 'or')}"
        return f"either {listed(map(self.clause_or_text, operands), 'or')}"

    def denial(self, node: syntax.Expression) -> str:
        """The clause for what must not hold. Raises InexactError."""
        match node:
            case syntax.Filter(primary=primary, predicates=()):
                return self.denial(primary)
            case syntax.Path(
                origin=None, steps=(syntax.PathStep(axis="self", test=test, predicates=()) as step,)
            ) if test not in ("*", "node()"):
                return f"that is not {an(self.name(step))}"
            case syntax.Path(
                origin=syntax.Variable(name=name), steps=(syntax.PathStep(axis="attribute") as step,)
            ):
                return f"while {variable(name)} has no {quoted(self.name(step))}"
            case syntax.Path(origin=None, steps=steps):
                return f"that does not contain {self.nested(steps)}"
            case syntax.BinaryOperation(operator="=", operands=(left, right)) if is_attribute(left):
                return f"{self.subject(left)}, if there is one, is not {self.value(right)}"
            case syntax.FunctionCall(name=name, arguments=(what, syntax.Literal(value=str(text)))) if (
                name in _NOT and is_attribute(what)
            ):
                return f"{self.subject(what)}, if there is one, {_NOT[name]} {quoted(text)}"
        raise InexactError

    def comparison(self, operator: str, left: syntax.Expression, right: syntax.Expression) -> str:
        """The clause for a comparison of a part of the element with a value. Raises InexactError."""
        if not is_relative(left):
            left, right, operator = right, left, syntax.FLIPPED[operator]
        if not is_relative(left) or is_relative(right):
            raise InexactError
        return f"{self.subject(left)} {_IS[operator]} {self.value(right)}"

    def subject(self, node: syntax.Expression) -> str:
        """The part being compared: `whose subject`, `in which an amount`. Raises InexactError."""
        match node:
            case syntax.Path(origin=None, steps=(syntax.PathStep(axis="attribute") as step,)):
                return f"whose {self.name(step)}"
            case syntax.Path(
                origin=None, steps=(syntax.PathStep(axis="self", test="node()", predicates=()),)
            ):
                return "whose text"
            case syntax.Path(origin=None, steps=(*before, syntax.PathStep(axis="attribute") as step)) if (
                before
            ):
                return f"in which {self.nested(before)} has {an(self.name(step))} that"
            case syntax.Path(origin=None, steps=steps):
                return f"in which {self.nested(steps)}"
        raise InexactError
