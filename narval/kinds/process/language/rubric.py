"""Rubric: the language of guards, which decide on a token that comes to its node (section 4).

    program = stmt EOF
    stmt    = IF or THEN stmt ELSE stmt | result
    result  = "Accept" | "Discard" | "Skip" [ID | STRING] | NUMBER | STRING
            | "(" date ")" | "@" ID | DELAY UNTIL date
    date    = ID | NUMBER ["business"] unit ("before"|"after") ID

`parse` reads a whole text and finds all its faults; it raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

import msgspec

from narval.core.definitions.reading.expressions import CONNECTIVES as OF_CONDITIONS
from narval.core.definitions.reading.expressions import Expression, Predicate, read_condition
from narval.core.definitions.reading.lexer import (
    MOST_TERMS,
    NAME,
    NUMBER,
    STRING,
    Cursor,
    Lexicon,
    Locate,
    SyntaxFault,
    first_line,
    string,
    too_long,
)
from narval.core.definitions.suggestions import nearest
from narval.core.source.tokens import END, LostError, Token
from narval.kinds.process.language.statements import (
    Accept,
    Date,
    DateValue,
    DelayUntil,
    Discard,
    If,
    NamedDate,
    Number,
    RelativeDate,
    Result,
    Skip,
    Statement,
    StringValue,
    Text,
    Unit,
)

GUARD_RESULTS: tuple[type, ...] = (Accept, Discard, Skip, DelayUntil, StringValue)
"""The results that a guard may have. A string function is among them, as its answer is not known before
(section 4). The others are for properties (section 18).
"""

_ANY_CASE = {
    **{word: word for word in ("if", "then", "else", "delay", "until")},
    **{word: word.rstrip("s") for word in ("second", "seconds", "minute", "minutes")},
}
_EXACT = {
    **OF_CONDITIONS,
    **{word: word for word in ("Accept", "Discard", "Skip", "business", "before", "after")},
    **{word: word.rstrip("s") for word in ("hour", "hours", "day", "days", "week", "weeks")},
}
_UNITS: dict[str, Unit] = {unit: unit for unit in get_args(Unit)}


class ParsedRubric(msgspec.Struct, frozen=True):
    """A text that was read; `statement` is None if it has faults."""

    statement: Statement | None
    faults: tuple[SyntaxFault, ...] = ()


def word(text: str) -> str | None:
    """The kind of a reserved word; None for any other."""
    return _ANY_CASE.get(text.lower()) or _EXACT.get(text)


_LEXICON = Lexicon(word)


def parse(text: str, locate: Locate = first_line, wanted: tuple[type, ...] = GUARD_RESULTS) -> ParsedRubric:
    """The statement of a text, and all its faults, including results that are not wanted."""
    if faults := too_long(text):
        return ParsedRubric(None, faults)
    reader = _RubricReader(Cursor(text, _LEXICON, locate), wanted)
    statement = reader.program()
    faults = reader.cursor.ordered()
    return ParsedRubric(None if faults else statement, faults)


def results(statement: Statement) -> Iterator[Result]:
    """The possible results, in the order of the text."""
    while isinstance(statement, If):
        yield from results(statement.then)
        statement = statement.otherwise
    yield statement


class _RubricReader:
    """Reads statements by recursive descent; what cannot be parsed is skipped up to the next THEN or ELSE."""

    def __init__(self, cursor: Cursor, results: tuple[type, ...]) -> None:
        self.cursor, self._wanted = cursor, results
        self._ifs = 0

    def program(self) -> Statement | None:
        """The statement that the whole text is."""
        try:
            statement = self._statement()
        except LostError:
            return None
        if self.cursor.next.kind != END:
            self.cursor.fault(f"expected the end, found {self.cursor.shown()}")
        return statement

    def _statement(self) -> Statement:
        """IF … THEN … ELSE IF … ELSE …, read without recursion after an ELSE; or a result alone."""
        cases: list[tuple[Expression, Statement]] = []
        with self.cursor.deeper():
            while self.cursor.accept("if"):
                self._ifs += 1
                if self._ifs > MOST_TERMS:
                    raise self.cursor.lost(f"expected at most {MOST_TERMS} IF in a text")
                cases.append(self._case())
        statement: Statement = self._result()
        for condition, then in reversed(cases):
            statement = If(condition, then, statement)
        return statement

    def _case(self) -> tuple[Expression, Statement]:
        """The condition and statement between an IF and its ELSE; placeholders if they make no sense."""
        condition: Expression = Predicate("")
        then: Statement = Accept()
        try:
            condition = read_condition(self.cursor)
            self.cursor.expect("and, or, or THEN", "then")
        except LostError:
            if self._resume("then", "else") == "else":
                return condition, then
        try:
            then = self._statement()
            self.cursor.expect("ELSE, which each IF needs", "else")
        except LostError:
            self._resume("else")
        return condition, then

    def _resume(self, *kinds: str) -> str:
        """Continue after the next word of one of these kinds, if there is one."""
        if not self.cursor.skip_to(kinds, "if", "else"):
            raise LostError
        return self.cursor.advance().kind

    def _result(self) -> Result:
        token = self.cursor.next
        read = _RESULTS.get(token.kind)
        if read is None:
            hint = _meant(token)
            wanted = ", ".join(self._names())
            raise self.cursor.lost(f"expected {wanted} or IF, found {self.cursor.shown()}{hint}")
        result = read(self.cursor, self.cursor.advance())
        if not isinstance(result, self._wanted):
            names = " or ".join(self._names())
            self.cursor.fault(f"expected {names} as the result, found {_SHOWN[type(result)]}", token.at)
        return result

    def _names(self) -> list[str]:
        """The wanted results, as people write them; a function only where a string fits."""
        names = (
            self._wanted if Text in self._wanted else [one for one in self._wanted if one is not StringValue]
        )
        return [_SHOWN[type] for type in names]


_SHOWN: dict[type, str] = {
    Accept: "Accept",
    Discard: "Discard",
    Skip: "Skip",
    DelayUntil: "DELAY UNTIL",
    Number: "a number",
    Text: "a string",
    DateValue: "a date in parentheses",
    StringValue: "a string function",
}
"""The results as people write them."""


def _skip(cursor: Cursor, token: Token) -> Result:
    line, column = cursor.place(cursor.next if cursor.next.kind in (NAME, STRING) else token)
    if arc := cursor.accept(NAME):
        return Skip(arc.text, line, column)
    if arc := cursor.accept(STRING):
        return Skip(string(arc).strip(), line, column)
    if cursor.next.text.isalpha() and cursor.next.kind != "else":
        name = cursor.next.text
        cursor.fault(f'{name!r} is a word of the language; for arcs of that name write "{name}"')
        cursor.advance()
    return Skip("", line, column)


def _parenthesis(cursor: Cursor, _: Token) -> Result:
    date = _date(cursor)
    cursor.expect("a closing parenthesis", ")")
    return DateValue(date)


def _string_function(cursor: Cursor, _: Token) -> Result:
    return StringValue(*cursor.named("the name of a string function"))


def _delay(cursor: Cursor, _: Token) -> Result:
    cursor.expect("UNTIL", "until")
    return DelayUntil(_date(cursor))


_RESULTS: dict[str, Callable[[Cursor, Token], Result]] = {
    "Accept": lambda *_: Accept(),
    "Discard": lambda *_: Discard(),
    "Skip": _skip,
    NUMBER: lambda cursor, token: Number(cursor.integer(token)),
    STRING: lambda _, token: Text(string(token)),
    "(": _parenthesis,
    "@": _string_function,
    "delay": _delay,
}
"""The readers of results, by a result's first token, which has been read."""


def _date(cursor: Cursor) -> Date:
    if not (number := cursor.accept(NUMBER)):
        return NamedDate(*cursor.named("the name of a date function, or a number"))
    amount = cursor.integer(number)
    business = cursor.accept("business") is not None
    unit = cursor.expect("seconds, minutes, hours, days or weeks", *_UNITS)
    side = cursor.expect("before or after", "before", "after")
    base = NamedDate(*cursor.named("the name of a date function"))
    return RelativeDate(-amount if side.kind == "before" else amount, _UNITS[unit.kind], base, business)


def _meant(token: Token) -> str:
    """The word that was probably intended: most of the language is case-sensitive."""
    if token.kind != NAME:
        return ""
    near = nearest(token.text.capitalize(), ("Accept", "Discard", "Skip"))
    return f"; did you mean {near!r}?" if near is not None else ""
