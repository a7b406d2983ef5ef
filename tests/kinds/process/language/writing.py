"""Rubric and JoinLang as they are written: texts that are read again as the same statements and joins."""

from __future__ import annotations

import re
from collections.abc import Callable

from narval.core.definitions.reading.expressions import And, Expression, Not, Or, Predicate
from narval.core.definitions.reading.lexer import INTEGERS
from narval.kinds.process.language import rubric
from narval.kinds.process.language.statements import (
    Accept,
    Date,
    DateValue,
    DelayUntil,
    Discard,
    If,
    Join,
    NamedDate,
    NodeRequired,
    Number,
    Requirement,
    Result,
    SetRequired,
    Skip,
    Statement,
    StringValue,
    Text,
)


def text_of_statement(statement: Statement) -> str:
    """A statement as it is written."""
    written = []
    while isinstance(statement, If):
        written += [
            "IF",
            text_of_condition(statement.condition),
            "THEN",
            text_of_statement(statement.then),
            "ELSE",
        ]
        statement = statement.otherwise
    return " ".join([*written, _result_text(statement)])


def _result_text(result: Result) -> str:
    match result:
        case Accept() | Discard():
            return type(result).__name__
        case Skip(arc):
            return f"Skip {arc if is_name(arc, rubric.word) else quoted(arc)}" if arc else "Skip"
        case Number(value):
            return str(value)
        case Text(value):
            return quoted(value)
        case StringValue(name):
            return f"@{name}"
        case DateValue(date):
            return f"({_date_text(date)})"
        case DelayUntil(date):
            return f"DELAY UNTIL {_date_text(date)}"
    raise TypeError(f"expected a result, got: {result!r}")


def _date_text(date: Date) -> str:
    if isinstance(date, NamedDate):
        return date.name
    is_far = date.offset not in INTEGERS  # 2**31, which can be written as the negation of the least number
    amount, side = (-date.offset, "before") if is_far else (date.offset, "after")
    return f"{amount} {'business ' * date.business}{date.unit}s {side} {date.base.name}"


def text_of_join(join: Join) -> str:
    """A join as it is written."""
    return "\nor\n".join("\n".join(map(_requirement_text, requirements)) for requirements in join)


def _requirement_text(requirement: Requirement) -> str:
    when = "" if requirement.when is None else f" when {text_of_condition(requirement.when)}"
    match requirement:
        case NodeRequired(name):
            return f"require node {quoted(name)}{when}"
        case SetRequired(name):
            return f"require tokenset {quoted(name)}{when}"
    many = "all" if requirement.least is None else f"at least {requirement.least}"
    if requirement.label is None:
        return f"require {many} arcs{when}"
    label = quoted(requirement.label) if requirement.label else "default"
    return f"require {many} arcs labelled {label}{when}"


def text_of_condition(expression: Expression) -> str:
    """A condition as it is written."""
    match expression:
        case Predicate(name):
            return name
        case Not(term):
            return f"not {_within(term, Predicate)}"
        case And(left, right):
            return f"{_within(left, Predicate, Not, And)} and {_within(right, Predicate, Not)}"
        case Or(left, right):
            return f"{_within(left, Predicate, Not, And, Or)} or {_within(right, Predicate, Not, And)}"
    raise TypeError(f"expected a condition, got: {expression!r}")


def _within(term: Expression, *bare: type) -> str:
    text = text_of_condition(term)
    return text if isinstance(term, bare) else f"({text})"


def quoted(value: str) -> str:
    """A string as it is written. No string can end with a backslash. Raises ValueError."""
    if value.endswith("\\"):
        raise ValueError("a string cannot end with a backslash")
    return '"{}"'.format(value.replace('"', '\\"'))


def is_name(text: str, word: Callable[[str], str | None]) -> bool:
    """True if a text can be written as a name: the words of the language cannot."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9._]*", text) is not None and word(text) is None
