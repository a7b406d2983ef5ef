"""Patterns as phrases: `email[contains(@subject, 'invoice')]` is an email whose subject contains "invoice".

A phrase says what the pattern says, no more and no less. "whose subject" is of an attribute, "in which … a
subject" of an element within it. A part for which there is no exact phrase stands as it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from narval.core.definitions.telling.values import InexactError, ValuePhrases, variable
from narval.core.definitions.telling.words import an, listed, quoted, verbatim
from narval.core.patterns.functions import type_of
from narval.core.patterns.lexer import ExpressionError
from narval.core.patterns.pattern import Condition, Pattern
from narval.core.patterns.syntax import (
    BinaryOperation,
    Expression,
    Filter,
    FunctionCall,
    Literal,
    Path,
    PathStep,
    Variable,
    parse,
)

_IS = {"=": "is", "!=": "is other than", "<": "is less than", "<=": "is at most", ">": "is more than",
       ">=": "is at least"}  # fmt: skip
_TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TESTS = {"contains": "contains", "starts-with": "begins with", "ends-with": "ends with"}
_NOT = {
    "contains": "does not contain",
    "starts-with": "does not begin with",
    "ends-with": "does not end with",
}


def element_phrase(condition: Condition) -> str:
    """An element that fits a condition: `an email whose subject contains "invoice"`."""
    return ", which is also ".join(map(_element, condition.patterns)) or "any element"


def presence(condition: Condition, *, absent: bool = False, several: bool = False) -> str:
    """The clause that an element which fits is there: `there is an email …`."""
    if len(condition.patterns) == 1 and (state := _state(condition.patterns[0])):
        return f"it is not so that {state}" if absent else state
    there = "there is no element that is" if absent else "there is"
    if several:
        there = "there are elements, each of which is"
    return f"{there} {element_phrase(condition)}"


def texts_phrase(matches: Sequence[str], namespaces: Mapping[str, str]) -> str:
    """An element that fits patterns which are not compiled."""
    return ", which is also ".join(_of_text(text, namespaces) for text in matches) or "any element"


def _element(pattern: Pattern) -> str:
    return _of_text(pattern.text, pattern.namespaces)


def _of_text(text: str, namespaces: Mapping[str, str]) -> str:
    try:
        return _ElementPhrases(text, namespaces).element(parse(text))
    except (InexactError, ExpressionError):
        return f"an element that fits {verbatim(text)}"


def _state(pattern: Pattern) -> str:
    """The clause that a pattern stands for which looks at variables alone: `"ask" is one whose …`."""
    if not pattern.variables:
        return ""
    try:
        tree = parse(pattern.text)
        if not pattern.is_closed:
            return ""
        match tree:
            case Filter(primary=Variable(name=name), predicates=predicates) if predicates:
                clauses = _ElementPhrases(pattern.text, pattern.namespaces).clauses(predicates)
                return f"{variable(name)} is one {clauses}"
            case Variable(name=name):
                return f"{variable(name)} is there"
    except ExpressionError:
        return ""
    except InexactError:
        pass
    return f"{verbatim(pattern.text)} holds"


def conjuncts(node: Expression) -> Iterator[Expression]:
    """The parts of an expression all of which must hold."""
    match node:
        case Filter(primary=primary, predicates=()):
            yield from conjuncts(primary)
        case BinaryOperation(operator="and", operands=operands):
            for operand in operands:
                yield from conjuncts(operand)
        case _:
            yield node


def is_attribute(node: Expression) -> bool:
    """True of a path to one attribute."""
    return isinstance(node, Path) and len(node.steps) == 1 and node.steps[0].axis == "attribute"


def is_itself(node: Expression) -> bool:
    """True of the path `.`."""
    return isinstance(node, Path) and [(one.axis, one.test) for one in node.steps] == [("self", "node()")]


def is_relative(node: Expression) -> bool:
    """True of a path that begins at the element."""
    return isinstance(node, Path) and node.origin is None


class _ElementPhrases(ValuePhrases):
    """The phrases of elements that fit an expression, and of its predicates."""

    # --- elements -------------------------------------------------------------------------------------

    def element(self, node: Expression) -> str:
        """The phrase for an element that fits. Raises InexactError."""
        match node:
            case Filter(primary=primary, predicates=()):
                return self.element(primary)
            case BinaryOperation(operator="|" | "or", operands=operands):
                return ", or ".join(map(self.element, operands))
            case Path(origin=None | "/", steps=steps) if steps:
                return self.nested(steps)
        raise InexactError

    def nested(self, steps: Sequence[PathStep]) -> str:
        """An element, and what it contains."""
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

    def clauses(self, predicates: Sequence[Expression]) -> str:
        """The relative clauses of predicates; one without a phrase stands as it is written."""
        if any(type_of(predicate) == "number" for predicate in predicates):
            raise InexactError
        parts = [part for predicate in predicates for part in conjuncts(predicate)]
        return self.all_of(parts)

    def all_of(self, parts: Sequence[Expression]) -> str:
        """The clauses of parts all of which must hold: attributes that are there together, choices last."""
        there = [name for part in parts for name in self.attributes(part)]
        missing = [name for part in parts for name in self.missing(part)]
        others = [part for part in parts if not self.attributes(part) and not self.missing(part)]
        choices = [part for part in others if isinstance(part, BinaryOperation) and part.operator == "or"]
        words = [f"that has {listed(there)}"] if there else []
        words += [f"that has {'none of' if len(missing) > 1 else 'no'} {listed(missing)}"] if missing else []
        words += [self.clause_or_text(part) for part in others if part not in choices]
        return listed([*words, *map(self.clause_or_text, choices)])

    def clause_or_text(self, node: Expression) -> str:
        """The clause for a part, else the part as it is written."""
        try:
            return self.clause(node)
        except InexactError:
            return f"for which {verbatim(self.written(node))} holds"

    def clause(self, node: Expression) -> str:
        """The clause for what must be so of an element: `whose subject is "x"`. Raises InexactError."""
        match node:
            case Filter(primary=primary, predicates=()):
                return self.clause(primary)
            case BinaryOperation(operator="and", operands=operands):
                return f"({self.all_of([part for one in operands for part in conjuncts(one)])})"
            case BinaryOperation(operator="or", operands=operands):
                return self.choice(operands)
            case BinaryOperation(operator="|", operands=operands):
                return f"that has {listed(map(self.attribute, operands), 'or')}"
            case BinaryOperation(operator=operator, operands=(left, right)) if operator in _IS:
                return self.comparison(operator, left, right)
            case FunctionCall(name="not", arguments=(inner,)):
                return self.all_of([node]) if self.missing(node) else self.denial(inner)
            case FunctionCall(name=name, arguments=(what, Literal(value=str(text)))) if name in _TESTS and (
                is_attribute(what) or is_itself(what)
            ):
                return f"{self.subject(what)} {_TESTS[name]} {quoted(text)}"
            case Path(origin=None, steps=(PathStep(axis="attribute") as step,)):
                return f"that has {quoted(self.name(step))}"
            case Path(origin=None, steps=steps):
                return f"that contains {self.nested(steps)}"
            case Path(origin=Variable(name=name), steps=(PathStep(axis="attribute") as step,)):
                return f"while {variable(name)} has {quoted(self.name(step))}"
        raise InexactError

    def choice(self, operands: Sequence[Expression]) -> str:
        """Clauses one of which must hold: `whose verdict is "yes" or "no"` where they are of one value."""
        if all(map(self.attributes, operands)):
            return f"that has {listed(map(self.attribute, operands), 'or')}"
        match operands[0]:
            case BinaryOperation(operator="=", operands=(left, _)) if is_relative(left):
                rights = [
                    one.operands[1]
                    for one in operands
                    if isinstance(one, BinaryOperation)
                    and one.operator == "="
                    and self.written(one.operands[0]) == self.written(left)
                    and not is_relative(one.operands[1])
                ]
                if len(rights) == len(operands):
                    return f"{self.subject(left)} is {listed(map(self.value, rights), 'or')}"
        return f"either {listed(map(self.clause_or_text, operands), 'or')}"

    def denial(self, node: Expression) -> str:
        """The clause for what must not be so. Raises InexactError."""
        match node:
            case Filter(primary=primary, predicates=()):
                return self.denial(primary)
            case Path(origin=None, steps=(PathStep(axis="self", test=test, predicates=()) as step,)) if (
                test not in ("*", "node()")
            ):
                return f"that is not {an(self.name(step))}"
            case Path(origin=Variable(name=name), steps=(PathStep(axis="attribute") as step,)):
                return f"while {variable(name)} has no {quoted(self.name(step))}"
            case Path(origin=None, steps=steps):
                return f"that does not contain {self.nested(steps)}"
            case BinaryOperation(operator="=", operands=(left, right)) if is_attribute(left):
                return f"{self.subject(left)}, if there is one, is not {self.value(right)}"
            case FunctionCall(name=name, arguments=(what, Literal(value=str(text)))) if (
                name in _NOT and is_attribute(what)
            ):
                return f"{self.subject(what)}, if there is one, {_NOT[name]} {quoted(text)}"
        raise InexactError

    def comparison(self, operator: str, left: Expression, right: Expression) -> str:
        """The clause for a comparison of a part of the element with a value. Raises InexactError."""
        if not is_relative(left):
            left, right, operator = right, left, _TURNED[operator]
        if not is_relative(left) or is_relative(right):
            raise InexactError
        return f"{self.subject(left)} {_IS[operator]} {self.value(right)}"

    def subject(self, node: Expression) -> str:
        """The part that is compared: `whose subject`, `in which an amount`. Raises InexactError."""
        match node:
            case Path(origin=None, steps=(PathStep(axis="attribute") as step,)):
                return f"whose {self.name(step)}"
            case Path(origin=None, steps=(PathStep(axis="self", test="node()", predicates=()),)):
                return "whose text"
            case Path(origin=None, steps=(*before, PathStep(axis="attribute") as step)) if before:
                return f"in which {self.nested(before)} has {an(self.name(step))} that"
            case Path(origin=None, steps=steps):
                return f"in which {self.nested(steps)}"
        raise InexactError
