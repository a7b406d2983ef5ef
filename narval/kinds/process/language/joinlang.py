"""JoinLang: the language of joins, which decide when tokens that reach a node become one (section 6).

    program = set { ("or"|"OR") set } EOF      set = require+
    require = "require" ( "node" STRING | "tokenset" STRING
            | "all" "arcs" [lab] | "at" "least" N "arcs" [lab] ) ["when" or]
    lab     = "labelled" (STRING | "default")

An `or` directly followed by `require` ends the condition of a `when`; any other continues it. `parse` reads a
whole text and finds all its faults; it raises nothing.
"""

from __future__ import annotations

import re

import msgspec

from narval.core.definitions.reading import lexer
from narval.core.definitions.reading.expressions import CONNECTIVES as OF_CONDITIONS
from narval.core.definitions.reading.expressions import Expression, read_condition
from narval.core.source.tokens import END, LostError
from narval.kinds.process.language.statements import (
    ArcsRequired,
    Join,
    NodeRequired,
    Requirement,
    SetRequired,
)

_OWN = ("require", "node", "tokenset", "all", "arcs", "at", "least", "labelled", "default", "when")
_WORDS = {**OF_CONDITIONS, **{word: word for word in _OWN}}


class JoinLang(msgspec.Struct, frozen=True):
    """A parsed text; `join` is empty if the text has faults."""

    join: Join = ()
    faults: tuple[lexer.SyntaxFault, ...] = ()


def word(text: str) -> str | None:
    """The kind of a reserved word; None for any other."""
    return _WORDS.get(text)


_LEXICON = lexer.Lexicon(word)


def parse(text: str, locate: lexer.Locate = lexer.first_line) -> JoinLang:
    """The join that a text describes, and all its faults."""
    if faults := lexer.too_long(text):
        return JoinLang((), faults)
    cursor = lexer.Cursor(text, _LEXICON, locate)
    join = _program(cursor)
    faults = cursor.ordered()
    return JoinLang(() if faults else join, faults)


def _program(cursor: lexer.Cursor) -> Join:
    sets: list[tuple[Requirement, ...]] = [_set(cursor)]
    while cursor.next.kind != END:
        if not cursor.accept("or"):
            cursor.fault(f"expected require, or, or the end, found {cursor.shown()}")
            if not cursor.skip_to(("or", "require")):
                break
            cursor.accept("or")
        sets.append(_set(cursor))
    return tuple(sets)


def _set(cursor: lexer.Cursor) -> tuple[Requirement, ...]:
    requirements: list[Requirement] = []
    if cursor.next.kind != "require":
        cursor.fault(f"expected require, found {cursor.shown()}")
        cursor.skip_to(("require",))
    while cursor.accept("require"):
        try:
            requirements.append(_requirement(cursor))
        except LostError:
            cursor.skip_to(("require",))
    return tuple(requirements)


def _requirement(cursor: lexer.Cursor) -> Requirement:
    expectation = "node, tokenset, all arcs or at least … arcs"
    kind = cursor.expect(expectation, "node", "tokenset", "all", "at").kind
    if kind == "node":
        name = lexer.string(cursor.expect("the name of a node in quotes", lexer.STRING))
        return NodeRequired(name, _when(cursor))
    if kind == "tokenset":
        name = lexer.string(cursor.expect("the name of a token set in quotes", lexer.STRING))
        return SetRequired(name, _when(cursor))
    least = None if kind == "all" else _least(cursor)
    cursor.expect("arcs", "arcs")
    return ArcsRequired(least, _label(cursor), _when(cursor))


def _least(cursor: lexer.Cursor) -> int:
    cursor.expect("least", "least")
    number = cursor.expect("how many arcs", lexer.NUMBER)
    if not re.fullmatch(r"[1-9][0-9]*", number.text):
        cursor.fault(f"expected a number from 1, found {number.text[:40]!r}", number.at)
        return 1
    return cursor.integer(number)


def _label(cursor: lexer.Cursor) -> str | None:
    if not cursor.accept("labelled"):
        return None
    label = cursor.expect("the name of arcs in quotes, or default", lexer.STRING, "default")
    return "" if label.kind == "default" else lexer.string(label).strip()


def _when(cursor: lexer.Cursor) -> Expression | None:
    return read_condition(cursor, last="require") if cursor.accept("when") else None
