"""Values in expressions as phrases: `$invoice/@due` is the due of "invoice"."""

from __future__ import annotations

from collections.abc import Mapping

from narval.core.definitions.telling.words import an, listed, quoted, verbatim
from narval.core.elements.element import CONTROL
from narval.core.errors import NarvalError
from narval.core.patterns import syntax
from narval.core.patterns.lexer import ExpressionError
from narval.core.patterns.pattern import Pattern

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
            case syntax.Path(origin=origin, steps=steps) if origin is not None and not isinstance(
                origin, str
            ):
                words = self.value(origin)
                for step in steps:
                    if step.axis not in ("attribute", "child"):
                        raise InexactError
                    joint = "of" if step.axis == "attribute" else "in"
                    words = f"the {self.name(step)} {joint} {words}"
                return words
        raise InexactError
