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

from narval.core.definitions.reading import lexer
from narval.core.definitions.reading.expressions import CONNECTIVES as OF_CONDITIONS
from narval.core.definitions.reading.expressions import Expression, Predicate, read_condition
from narval.core.definitions.suggestions import nearest
from narval.core.source.tokens import END, LostError, Token
from narval.kinds.process.language import statements

GUARD_RESULTS: tuple[type, ...] = (
    statements.Accept,
    statements.Discard,
    statements.Skip,
    statements.DelayUntil,
    statements.StringValue,
)
"""The results that a guard may have. A string function is among them, as its answer is not known in advance
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
_UNITS: dict[str, statements.Unit] = {unit: unit for unit in get_args(statements.Unit)}


class ParsedRubric(msgspec.Struct, frozen=True):
    """A parsed text; `statement` is None if the text has faults."""

    statement: statements.Statement | None
    faults: tuple[lexer.SyntaxFault, ...] = ()


def word(text: str) -> str | None:
    """The kind of a reserved word; None for any other."""
    return _ANY_CASE.get(text.lower()) or _EXACT.get(text)


_LEXICON = lexer.Lexicon(word)


def parse(
    text: str, locate: lexer.Locate = lexer.first_line, wanted: tuple[type, ...] = GUARD_RESULTS
) -> ParsedRubric:
    """The statement of a text, and all its faults, including results that are not wanted."""
    if faults := lexer.too_long(text):
        return ParsedRubric(None, faults)
    reader = _RubricReader(lexer.Cursor(text, _LEXICON, locate), wanted)
    statement = reader.program()
    faults = reader.cursor.ordered()
    return ParsedRubric(None if faults else statement, faults)


def results(statement: statements.Statement) -> Iterator[statements.Result]:
    """The possible results, in the order of the text."""
    while isinstance(statement, statements.If):
        yield from results(statement.then)
        statement = statement.otherwise
    yield statement


class _RubricReader:
    """A recursive-descent reader of statements. Text with faults is skipped up to the next THEN or ELSE."""

    def __init__(self, cursor: lexer.Cursor, results: tuple[type, ...]) -> None:
        self.cursor, self._wanted = cursor, results
        self._ifs = 0

    def program(self) -> statements.Statement | None:
        """The statement that the whole text forms; None if it forms none."""
        try:
            statement = self._statement()
        except LostError:
            return None
        if self.cursor.next.kind != END:
            self.cursor.fault(f"expected the end, found {self.cursor.shown()}")
        return statement

    def _statement(self) -> statements.Statement:
        """IF … THEN … ELSE IF … ELSE …, read without recursion after an ELSE; or a result alone."""
        cases: list[tuple[Expression, statements.Statement]] = []
        with self.cursor.deeper():
            while self.cursor.accept("if"):
                self._ifs += 1
                if self._ifs > lexer.MOST_TERMS:
                    raise self.cursor.lost(f"expected at most {lexer.MOST_TERMS} IF in a text")
                cases.append(self._case())
        statement: statements.Statement = self._result()
        for condition, then in reversed(cases):
            statement = statements.If(condition, then, statement)
        return statement

    def _case(self) -> tuple[Expression, statements.Statement]:
        """The condition and statement between an IF and its ELSE; placeholders if they have faults."""
        condition: Expression = Predicate("")
        then: statements.Statement = statements.Accept()
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

    def _result(self) -> statements.Result:
        token = self.cursor.next
        read = _RESULTS.get(token.kind)
        if read is None:
            hint = _meant(token)
            expectation = ", ".join(self._names())
            raise self.cursor.lost(f"expected {expectation} or IF, found {self.cursor.shown()}{hint}")
        result = read(self.cursor, self.cursor.advance())
        if not isinstance(result, self._wanted):
            names = " or ".join(self._names())
            self.cursor.fault(f"expected {names} as the result, found {_SHOWN[type(result)]}", token.at)
        return result

    def _names(self) -> list[str]:
        """The wanted results, as people write them; a function only if a string fits."""
        names = (
            self._wanted
            if statements.Text in self._wanted
            else [one for one in self._wanted if one is not statements.StringValue]
        )
        return [_SHOWN[type] for type in names]


_SHOWN: dict[type, str] = {
    statements.Accept: "Accept",
    statements.Discard: "Discard",
    statements.Skip: "Skip",
    statements.DelayUntil: "DELAY UNTIL",
    statements.Number: "a number",
    statements.Text: "a string",
    statements.DateValue: "a date in parentheses",
    statements.StringValue: "a string function",
}
"""The results as people write them."""


def _skip(cursor: lexer.Cursor, token: Token) -> statements.Result:
    line, column = cursor.place(cursor.next if cursor.next.kind in (lexer.NAME, lexer.STRING) else token)
    if arc := cursor.accept(lexer.NAME):
        return statements.Skip(arc.text, line, column)
    if arc := cursor.accept(lexer.STRING):
        return statements.Skip(lexer.string(arc).strip(), line, column)
    if cursor.next.text.isalpha() and cursor.next.kind != "else":
        name = cursor.next.text
        cursor.fault(f'{name!r} is a word of the language; for arcs of that name write "{name}"')
        cursor.advance()
    return statements.Skip("", line, column)


def _parenthesis(cursor: lexer.Cursor, _: Token) -> statements.Result:
    date = _date(cursor)
    cursor.expect("a closing parenthesis", ")")
    return statements.DateValue(date)


def _string_function(cursor: lexer.Cursor, _: Token) -> statements.Result:
    return statements.StringValue(*cursor.named("the name of a string function"))


def _delay(cursor: lexer.Cursor, _: Token) -> statements.Result:
    cursor.expect("UNTIL", "until")
    return statements.DelayUntil(_date(cursor))


_RESULTS: dict[str, Callable[[lexer.Cursor, Token], statements.Result]] = {
    "Accept": lambda *_: statements.Accept(),
    "Discard": lambda *_: statements.Discard(),
    "Skip": _skip,
    lexer.NUMBER: lambda cursor, token: statements.Number(cursor.integer(token)),
    lexer.STRING: lambda _, token: statements.Text(lexer.string(token)),
    "(": _parenthesis,
    "@": _string_function,
    "delay": _delay,
}
"""The readers of results, by a result's first token, which has been read."""


def _date(cursor: lexer.Cursor) -> statements.Date:
    if not (number := cursor.accept(lexer.NUMBER)):
        return statements.NamedDate(*cursor.named("the name of a date function, or a number"))
    amount = cursor.integer(number)
    business = cursor.accept("business") is not None
    unit = cursor.expect("seconds, minutes, hours, days or weeks", *_UNITS)
    side = cursor.expect("before or after", "before", "after")
    base = statements.NamedDate(*cursor.named("the name of a date function"))
    return statements.RelativeDate(
        -amount if side.kind == "before" else amount, _UNITS[unit.kind], base, business
    )


def _meant(token: Token) -> str:
    """The word that was probably intended: most of the language is case-sensitive."""
    if token.kind != lexer.NAME:
        return ""
    near = nearest(token.text.capitalize(), ("Accept", "Discard", "Skip"))
    return f"; did you mean {near!r}?" if near is not None else ""
