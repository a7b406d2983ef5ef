"""Lexer of texts within definitions: names, quoted strings, whole numbers, comments.

Rubric and JoinLang share it. A fault is an offset and a message; the reader of the file gives it its place
there. A fault never stops the reading, and no text raises anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

MOST_FAULTS = 100
"""A text with more faults than this is not read on."""

MOST_DEPTH = 60
"""The depth to which parentheses and conditions may be nested in a text."""

MOST_TERMS = 150
"""The depth to which a syntax tree may be nested: a term of a long `or` lies within all that follow it."""

MOST_CHARACTERS = 20_000
"""A longer text is not read."""

INTEGERS = range(-(2**31), 2**31)
"""The numbers that there are: 32 bits."""

NAME, NUMBER, STRING, END = "name", "number", "string", "end"

_LEXEME = re.compile(
    r"""(?P<blank>[ \t\r\n\f]+)
    |(?P<comment>/\*.*?\*/|//[^\r\n]*[\r\n])
    |(?P<open>/\*|//)
    |(?P<name>[A-Za-z][A-Za-z0-9._]*)
    |(?P<number>-?[0-9]+)
    |(?P<string>"(?:\\"|[^"\\]|\\(?!"))*")
    |(?P<mark>[()@])
    |(?P<quote>")
    |(?P<junk>(?:(?!/[/*])[^ \t\r\n\fA-Za-z0-9"()@-]|-(?![0-9]))+)""",
    re.VERBOSE | re.DOTALL,
)


class SyntaxFault(NamedTuple):
    """A fault at a character of a text."""

    at: int
    message: str


Locate = Callable[[int], tuple[int, int]]
"""The line and column of a character of the text in its file."""


def first_line(at: int) -> tuple[int, int]:
    """The place of a character in a text that is a file's first line."""
    return 1, at + 1


class Lexeme(NamedTuple):
    """A word, number, string or mark: `kind` is one of those above, or the word or mark itself."""

    kind: str
    text: str
    at: int


def too_long(text: str) -> tuple[SyntaxFault, ...]:
    """The fault of a text that is too long to be read; none for others."""
    if len(text) <= MOST_CHARACTERS:
        return ()
    return (SyntaxFault(0, f"expected at most {MOST_CHARACTERS:,} characters, found {len(text):,}"),)


class LostError(Exception):
    """The text cannot be understood up to the next place where reading can begin again."""


def split(
    text: str, word: Callable[[str], str | None], lexemes_of: re.Pattern[str] = _LEXEME
) -> tuple[list[Lexeme], list[SyntaxFault]]:
    """The lexemes of a text, an END last, and what is none; `word` gives the kind of a reserved word.

    `lexemes_of` has the groups of the pattern above: another language has other marks.
    """
    lexemes: list[Lexeme] = []
    faults: list[SyntaxFault] = []
    at = 0
    while at < len(text) and len(faults) < MOST_FAULTS:
        found = lexemes_of.match(text, at)
        assert found is not None  # the junk takes what nothing else does
        assert found.lastgroup is not None
        kind, written = found.lastgroup, found[0]
        if kind == "open":
            wanted = "*/ at its end" if written == "/*" else "the end of its line after it"
            faults.append(SyntaxFault(at, f"a comment that begins with {written} needs {wanted}"))
            at = len(text)
        elif kind == "quote":
            faults.append(SyntaxFault(at, 'this string has no end; write " after it'))
            at = len(text)
        elif kind == "junk":
            message = f"expected a word, a number or a string, found {_short(written)!r}"
            faults.append(SyntaxFault(at, message))
        elif kind == "name":
            lexemes.append(Lexeme(word(written) or NAME, written, at))
        elif kind == "mark":
            lexemes.append(Lexeme(written, written, at))
        elif kind not in ("blank", "comment"):
            lexemes.append(Lexeme(kind, written, at))
        at = max(at, found.end())
    lexemes.append(Lexeme(END, "", len(text)))
    return lexemes, faults


class Cursor:
    """A position in a text that is being read, and the faults found so far."""

    def __init__(
        self,
        text: str,
        word: Callable[[str], str | None],
        locate: Locate,
        lexemes_of: re.Pattern[str] = _LEXEME,
    ) -> None:
        self._lexemes, self.faults = split(text, word, lexemes_of)
        self._locate = locate
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> Lexeme:
        """The lexeme to be read now."""
        return self._lexemes[self._at]

    @property
    def after(self) -> Lexeme:
        """The one behind it."""
        return self._lexemes[min(self._at + 1, len(self._lexemes) - 1)]

    def advance(self) -> Lexeme:
        """Read a lexeme; the end stays where it is."""
        read = self.next
        if read.kind != END:
            self._at += 1
        return read

    def accept(self, *kinds: str) -> Lexeme | None:
        """Read a lexeme if it is of one of those kinds."""
        return self.advance() if self.next.kind in kinds else None

    def expect(self, wanted: str, *kinds: str) -> Lexeme:
        """Read a lexeme of one of those kinds; `wanted` describes it in the fault."""
        read = self.accept(*kinds)
        if read is None:
            raise self.lost(f"expected {wanted}, found {self.shown()}")
        return read

    def shown(self) -> str:
        """The lexeme to be read now, for people."""
        kind, written, _ = self.next
        return "the end" if kind == END else f"{_short(written)!r}"

    def fault(self, message: str, at: int | None = None) -> None:
        """Note a fault at a character, or at the next lexeme."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(SyntaxFault(self.next.at if at is None else at, message))

    def lost(self, message: str) -> LostError:
        """Note a fault; return the error to raise, as reading cannot go on here."""
        self.fault(message)
        return LostError()

    def named(self, wanted: str) -> tuple[str, int, int]:
        """Read a name; return it with its line and column. `wanted` describes it in the fault."""
        name = self.expect(wanted, NAME)
        return name.text, *self.place(name)

    def place(self, lexeme: Lexeme) -> tuple[int, int]:
        """The line and column of a lexeme."""
        return self._locate(lexeme.at)

    def skip_to(self, kinds: Collection[str], opening: str = "", closing: str = "") -> bool:
        """Skip up to a lexeme of those kinds, past all that is nested; True if there is one."""
        depth = 0
        while self.next.kind != END:
            if not depth and self.next.kind in kinds:
                return True
            kind = self.advance().kind
            depth += (kind == opening) - (depth > 0 and kind == closing)
        return END in kinds

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Count one more level of nesting while this lasts."""
        self._depth += 1
        try:
            if self._depth > MOST_DEPTH:
                raise self.lost(f"nested deeper than {MOST_DEPTH} levels; give the inner part a name")
            yield
        finally:
            self._depth -= 1

    def integer(self, lexeme: Lexeme) -> int:
        """The value of a number; 0 when it has too many bits."""
        digits = lexeme.text.lstrip("-").lstrip("0")
        value = int(lexeme.text) if len(digits) <= 10 else None
        if value is None or value not in INTEGERS:
            self.fault(f"expected a number of 32 bits, found {_short(lexeme.text)}", lexeme.at)
            return 0
        return value

    def ordered(self) -> tuple[SyntaxFault, ...]:
        """The faults, from the beginning of the text to its end."""
        return tuple(sorted(set(self.faults)))


def string(lexeme: Lexeme) -> str:
    r"""The value of a string: \" stands for a quote, and nothing else is an escape."""
    return lexeme.text[1:-1].replace('\\"', '"')


def _short(written: str) -> str:
    return written if len(written) <= 40 else f"{written[:40]}…"
