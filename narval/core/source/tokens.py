"""Tokens of a text, and the cursor with which the reader of a grammar reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

END = "end"
"""The kind of the last token, at the end of the text."""


class Token(NamedTuple):
    """A piece of a text: its kind, its text, and its start and end offsets."""

    kind: str
    text: str
    at: int
    end: int


class LostError(Exception):
    """The text cannot be understood up to the next place where reading can resume."""


def scan(pattern: re.Pattern[str], text: str) -> Iterator[Token]:
    """The tokens of a text, ending with END.

    The matching group of the pattern gives the kind and the text. The kind of a `mark` is the mark itself; a
    `blank` is left out.
    """
    for match in pattern.finditer(text):
        kind = match.lastgroup or ""
        if kind != "blank":
            written = match[kind]
            yield Token(written if kind == "mark" else kind, written, *match.span())
    yield Token(END, "", len(text), len(text))


class TokenCursor:
    """A position among the tokens of a text: `next` is the token to be read.

    `error` makes an error from a message and an offset, for an unexpected token.
    """

    def __init__(self, tokens: Iterable[Token], error: Callable[[str, int], Exception] = LostError) -> None:
        self._tokens = tuple(tokens)
        self._error = error
        self._at = 0
        self.next = self._tokens[0]

    def ahead(self, count: int = 1) -> Token:
        """The token `count` after the next; the end if there are fewer."""
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    @property
    def last(self) -> Token:
        """The last token read."""
        return self._tokens[self._at - 1]

    def advance(self) -> Token:
        """Read a token; the end is not passed."""
        token = self.next
        if token.kind != END:
            self._at += 1
            self.next = self._tokens[self._at]
        return token

    def accept(self, *kinds: str) -> Token | None:
        """Read a token if it is of one of these kinds."""
        return self.advance() if self.next.kind in kinds else None

    def expect(self, expectation: str, *kinds: str) -> Token:
        """Read a token of one of these kinds; `expectation` describes it in the error."""
        token = self.accept(*kinds)
        if token is None:
            raise self.unexpected(expectation)
        return token

    def shown(self) -> str:
        """The next token, for people."""
        return "the end" if self.next.kind == END else repr(short(self.next.text))

    def lost(self, message: str) -> Exception:
        """The error to raise, as reading cannot continue here."""
        return self._error(message, self.next.at)

    def unexpected(self, expectation: str) -> Exception:
        """The error to raise if something other than the next token was expected."""
        return self.lost(f"expected {expectation}, found {self.shown()}")


def short(written: str) -> str:
    """The beginning of a text; all of it if it is short."""
    return written if len(written) <= 40 else f"{written[:40]}…"
