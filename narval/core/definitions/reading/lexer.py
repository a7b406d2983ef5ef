"""Lexer of texts within definitions: names, quoted strings, whole numbers, comments.

Rubric, JoinLang, tasks and dataflows share it. A fault is an offset and a message; the reader of the file
adds the place in the file. A fault never stops the reading, and no text makes it raise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from narval.core.source.tokens import END, Token, TokenCursor, scan, short

MOST_FAULTS = 100
"""The most faults of a text; reading stops there."""

MOST_DEPTH = 60
"""The deepest nesting of parentheses and conditions in a text."""

MOST_TERMS = 150
"""The deepest nesting of a syntax tree: a term of a long `or` is within all that follow it."""

MOST_CHARACTERS = 20_000
"""The longest text that is read."""

INTEGERS = range(-(2**31), 2**31)
"""The allowed numbers: 32 bits."""

NAME, NUMBER, STRING = "name", "number", "string"

_PATTERN = re.compile(
    r"""(?P<blank>[ \t\r\n\f]+|/\*.*?\*/|//[^\r\n]*[\r\n])
    |(?P<comment>/\*.*)
    |(?P<remark>//.*)
    |(?P<name>[A-Za-z][A-Za-z0-9._]*)
    |(?P<number>-?[0-9]+)
    |(?P<string>"(?:\\"|[^"\\]|\\(?!"))*")
    |(?P<mark>[()@])
    |(?P<quote>".*)
    |(?P<junk>(?:(?!/[/*])[^ \t\r\n\fA-Za-z0-9"()@-]|-(?![0-9]))+)""",
    re.VERBOSE | re.DOTALL,
)
FAULTS = {
    "comment": "a comment that begins with /* needs */ at its end",
    "remark": "a comment that begins with // needs the end of its line after it",
    "quote": 'this string has no end; write " after it',
    "junk": "expected a word, a number or a string, found {!r}",
}
"""The groups of a pattern that are not tokens, with their messages."""


class SyntaxFault(NamedTuple):
    """A fault at a character of a text."""

    at: int
    message: str


Locate = Callable[[int], tuple[int, int]]
"""Return the line and column, in the file, of a character of the text."""


def first_line(at: int) -> tuple[int, int]:
    """The place of a character in a text that is a file's first line."""
    return 1, at + 1


class Lexicon(NamedTuple):
    """The tokens of a language."""

    word: Callable[[str], str | None]
    """The kind of a reserved word; None for any other name."""
    pattern: re.Pattern[str] = _PATTERN
    faults: Mapping[str, str] = FAULTS
    """The groups of the pattern that are not tokens, with their messages."""


def too_long(text: str) -> tuple[SyntaxFault, ...]:
    """The fault of a text that is too long; empty for others."""
    if len(text) <= MOST_CHARACTERS:
        return ()
    return (SyntaxFault(0, f"expected at most {MOST_CHARACTERS:,} characters, found {len(text):,}"),)


class Cursor(TokenCursor):
    """A position in a text that is being read, and the faults found so far."""

    def __init__(self, text: str, lexicon: Lexicon, locate: Locate = first_line) -> None:
        self.faults: list[SyntaxFault] = []
        self._locate = locate
        self._depth = 0
        super().__init__(self._read(text, lexicon))

    def _read(self, text: str, lexicon: Lexicon) -> Iterator[Token]:
        """The tokens up to the last recorded fault, and the end."""
        for token in scan(lexicon.pattern, text):
            if (message := lexicon.faults.get(token.kind)) is not None:
                self.fault(message.format(short(token.text)), token.at)
            elif token.kind == END or len(self.faults) < MOST_FAULTS:
                word = lexicon.word(token.text) if token.kind == NAME else None
                yield token if word is None else token._replace(kind=word)

    def fault(self, message: str, at: int | None = None) -> None:
        """Record a fault at a character, or at the next token."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(SyntaxFault(self.next.at if at is None else at, message))

    def lost(self, message: str) -> Exception:
        """Record a fault; return the error to raise, as reading cannot continue here."""
        self.fault(message)
        return super().lost(message)

    def named(self, expectation: str) -> tuple[str, int, int]:
        """Read a name; return it with its line and column. `expectation` describes it in the fault."""
        name = self.expect(expectation, NAME)
        return name.text, *self.place(name)

    def place(self, token: Token) -> tuple[int, int]:
        """The line and column of a token."""
        return self._locate(token.at)

    def skip_to(self, kinds: Collection[str], opening: str = "", closing: str = "") -> bool:
        """Skip to a token of these kinds, past everything nested; True if there is one."""
        depth = 0
        while self.next.kind != END:
            if not depth and self.next.kind in kinds:
                return True
            kind = self.advance().kind
            depth += (kind == opening) - (depth > 0 and kind == closing)
        return END in kinds

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Count one more level of nesting within the block."""
        self._depth += 1
        try:
            if self._depth > MOST_DEPTH:
                raise self.lost(f"nested deeper than {MOST_DEPTH} levels; give the inner part a name")
            yield
        finally:
            self._depth -= 1

    def integer(self, token: Token) -> int:
        """The value of a number; 0 if it has too many bits."""
        digits = token.text.lstrip("-").lstrip("0")
        value = int(token.text) if len(digits) <= 10 else None
        if value is None or value not in INTEGERS:
            self.fault(f"expected a number of 32 bits, found {short(token.text)}", token.at)
            return 0
        return value

    def ordered(self) -> tuple[SyntaxFault, ...]:
        """The faults, from the start of the text to its end."""
        return tuple(sorted(set(self.faults)))


def string(token: Token) -> str:
    r"""The value of a string: \" stands for a quote, and nothing else is an escape."""
    return token.text[1:-1].replace('\\"', '"')
