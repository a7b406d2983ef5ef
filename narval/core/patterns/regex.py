"""Regular expressions of XPath 3.1, run by RE2, whose time is linear in the text.

A regular expression is matched against texts from strangers, in the daemon's loop. Python's matcher
backtracks, which may take quadratic or exponential time. RE2 passes over a text once. What it cannot do that
way (back references to a group, a hundred thousand repetitions) is refused when the pattern is read. XPath
writes regular expressions as XML Schema does; they are translated here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import re2
from elementpath.regex import RegexError as ClassError
from elementpath.regex.character_classes import CharacterClass

from narval.core.patterns.budget import Work
from narval.core.patterns.syntax import ExpressionError

_MEMORY = 4 * 1024 * 1024
"""The most bytes RE2 keeps for one expression: enough for all states of a light one."""
_LIGHT = 16
"""The most instructions, classes counted as one, of an expression that RE2 always runs at full speed."""
_A_SEARCH = 5
_LONGEST = 2_000
_SINGLE = frozenset("nrt\\|.?*+(){}-[]^$")
_CLASSES = frozenset("sSdDwWiIcC")
_COUNT = re.compile(r"\{\d{1,4}(?:,\d{0,4})?\}")
_PROPERTY = re.compile(r"\{([A-Za-z0-9-]{1,60})\}")
_REPLACEMENT = re.compile(r"\\[\\$]|\$\d|[^\\$]")
_FLAGS = frozenset("smixq")


class Regex:
    """A compiled regular expression of XPath 3.1."""

    __slots__ = ("_capturing", "_goes_on", "_plain", "weight")

    def __init__(self, text: str, flags: str = "") -> None:
        """Compile a text. Raises ExpressionError, with the offset, if it is invalid or cannot run in time."""
        wrong = next((at for at, flag in enumerate(flags) if flag not in _FLAGS), None)
        if wrong is not None:
            raise ExpressionError(f"expected flags of 's', 'm', 'i', 'x' and 'q', found {flags[wrong]!r}", 0)
        if len(text) > _LONGEST:
            message = f"expected a regular expression of at most {_LONGEST:,} characters, found {len(text):,}"
            raise ExpressionError(message, 0)
        if "q" in flags:
            written, skeleton, self._goes_on = re2.escape(text), "a" * len(text), True
        else:
            translation = _Translation(text, flags)
            written, skeleton = translation.result()
            self._goes_on = translation.is_sequence
        modes = "".join(flag for flag in "smi" if flag in flags)
        around = f"(?{modes})" if modes else ""
        self._plain = _compiled(around + written, never_capture=True)
        self._capturing = _compiled(around + written, never_capture=False)
        self.weight: int = _compiled(skeleton, never_capture=True).programsize
        """The instructions of the expression, each of its classes counted as one."""

    @property
    def matches_nothing(self) -> bool:
        """True if it matches the empty text."""
        return self._plain.search(b"") is not None

    def matches(self, text: str, work: Work) -> bool:
        """True if it matches somewhere in a text; raises WorkError."""
        data = text.encode()
        self._count(len(data), work)
        return self._plain.search(data) is not None

    def tokens(self, text: str, work: Work) -> list[str]:
        """The parts of a text between the matches; raises WorkError."""
        data, end, parts = text.encode(), 0, []
        for match in self._matches(self._plain, data, work):
            parts.append(data[end : match.start()].decode())
            end = match.end()
        return [*parts, data[end:].decode()] if data else []

    def replaced(self, text: str, replacement: Callable[[Any], bytes], work: Work) -> str:
        """The text with each match replaced by the result of `replacement`; raises WorkError."""
        data, end, parts = text.encode(), 0, []
        for match in self._matches(self._capturing, data, work):
            made = replacement(match)
            work.read(len(made) + 4096)
            parts += [data[end : match.start()], made]
            end = match.end()
        return b"".join([*parts, data[end:]]).decode()

    def replacement(self, text: str, *, literal: bool) -> Callable[[Any], bytes]:
        """The function that makes the replacement of a match; raises ExpressionError."""
        if literal:
            made = text.encode()
            return lambda match: made
        parts: list[bytes | int] = []
        at = 0
        while at < len(text):
            piece = _REPLACEMENT.match(text, at)
            if piece is None:
                raise ExpressionError("expected $ with a digit, \\$ or \\\\ in the replacement", at)
            at = piece.end()
            if piece[0][0] != "$":
                parts.append(piece[0][-1].encode())
                continue
            group = int(piece[0][1:])
            while at < len(text) and text[at].isascii() and text[at].isdigit():
                if group * 10 + int(text[at]) > self._capturing.groups:
                    break
                group, at = group * 10 + int(text[at]), at + 1
            parts.append(group)
        groups = self._capturing.groups
        return lambda match: b"".join(
            part if isinstance(part, bytes) else (match[part] or b"") if part <= groups else b""
            for part in parts
        )

    def _matches(self, regex: Any, data: bytes, work: Work) -> Iterator[Any]:
        """The matches in a text, from left to right.

        Each search may read to the end. Those of a greedy sequence (`_goes_on`) hardly read beyond their
        match: if another match started there, the first would have included it.
        """
        self._count(len(data), work)
        for match in regex.finditer(data):
            self._count(0 if self._goes_on else len(data) - match.end(), work)
            yield match

    def _count(self, size: int, work: Work) -> None:
        """Count one search through `size` bytes: 4 ns a byte, or the time of RE2 without its states."""
        work.add(_A_SEARCH + (size // 256 if self.weight <= _LIGHT else size * self.weight // 64))


@lru_cache(maxsize=512)
def regex(text: str, flags: str = "") -> Regex:
    """The regular expression for a text, cached; raises ExpressionError."""
    return Regex(text, flags)


def _compiled(written: str, *, never_capture: bool) -> Any:
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = _MEMORY, False, never_capture
    try:
        return re2.compile(written.encode(), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "it cannot be read"
        raise ExpressionError(f"not a regular expression: {reason}", 0) from None


class _Translation:
    """An XPath regular expression translated for RE2, and its skeleton: the same with `a` for each class.

    `is_sequence` if it has no groups, alternatives, counts, anchors or lazy repetitions.
    """

    def __init__(self, text: str, flags: str) -> None:
        self.is_sequence = True
        self._text, self._at = text, 0
        self._dot = "." if "s" in flags else r"[^\n\r]"
        self._spaced = "x" in flags
        self._written: list[str] = []
        self._skeleton: list[str] = []

    def result(self) -> tuple[str, str]:
        while self._at < len(self._text):
            self._piece(self._text[self._at])
        return "".join(self._written), "".join(self._skeleton)

    def _piece(self, character: str) -> None:
        """Translate the next piece."""
        text, at = self._text, self._at
        if character == "[":
            self._emit_class(self._bracket())
        elif character == "\\":
            self._escape()
        elif character == ".":
            self._take(1, self._dot, "a")
        elif character == "(":
            if text.startswith("(?", at) and not text.startswith("(?:", at):
                raise ExpressionError("not a regular expression: after '(?' only ':' can stand", at)
            opening = text[at : at + 3] if text.startswith("(?:", at) else "("
            self._take(len(opening), opening, opening)
            self.is_sequence = False
        elif character in ")|^$":
            self._take(1, character, character)
            self.is_sequence = False
        elif character in "*+?":
            self.is_sequence = self.is_sequence and not text.startswith("?", at + 1)
            self._take(1, character, character)
        elif character == "{":
            self.is_sequence = False
            count = _COUNT.match(text, at)
            if count is None:
                raise ExpressionError("not a regular expression: expected '{' and a number of times", at)
            self._take(len(count[0]), count[0], count[0])
        elif character in "]}":
            raise ExpressionError(f"not a regular expression: {character!r} closes nothing", at)
        elif self._spaced and character in " \t\n\r":
            self._at += 1
        else:
            self._take(1, re2.escape(character), "a")

    def _take(self, length: int, written: str, skeleton: str) -> None:
        self._at += length
        self._written.append(written)
        self._skeleton.append(skeleton)

    def _escape(self) -> None:
        """Translate an escape outside brackets."""
        start, escaped = self._at, self._escaped()
        if len(escaped) == 2 and escaped[1] in _SINGLE:
            letter = escaped[1]
            self._take(0, escaped if letter in "nrt" else re2.escape(letter), "a")
        else:
            self._emit_class(_class_of(escaped, start))

    def _escaped(self) -> str:
        """Skip an escape, and return it."""
        at = self._at
        letter = self._text[at + 1 : at + 2]
        if letter in ("p", "P"):
            name = _PROPERTY.match(self._text, at + 2)
            if name is None:
                raise ExpressionError(f"not a regular expression: expected \\{letter}{{…}}", at)
            self._at = name.end()
            return self._text[at : self._at]
        if letter.isdigit():
            raise ExpressionError("a regular expression cannot refer back to a group here", at)
        if not letter or (letter not in _SINGLE and letter not in _CLASSES):
            raise ExpressionError(f"not a regular expression: unknown escape \\{letter}", at)
        self._at += 2
        return self._text[at : self._at]

    def _bracket(self, depth: int = 0) -> CharacterClass:
        """Skip a class in brackets, and return it."""
        text, start = self._text, self._at
        if depth > 8:
            raise ExpressionError("not a regular expression: classes nested too deep", start)
        self._at += 1
        negative = text.startswith("^", self._at)
        self._at += negative
        begin = self._at
        while not text.startswith(("]", "-["), self._at):
            if self._at >= len(text):
                raise ExpressionError("not a regular expression: a class that is not closed", start)
            if text[self._at] == "[":
                raise ExpressionError("not a regular expression: '[' within a class is written \\[", self._at)
            if text[self._at] == "\\":
                self._escaped()
            else:
                self._at += 1
        if self._at == begin:
            raise ExpressionError("not a regular expression: an empty class", start)
        characters = _class_of(text[begin : self._at], start)
        if negative:
            characters.complement()
        if text.startswith("-[", self._at):
            self._at += 1
            characters -= self._bracket(depth + 1)
            if not text.startswith("]", self._at):
                raise ExpressionError("not a regular expression: expected ']' here", self._at)
        self._at += 1
        return characters

    def _emit_class(self, characters: CharacterClass) -> None:
        positive, negative = _ranges(characters.positive.codepoints), _ranges(characters.negative.codepoints)
        if not characters.negative:
            written = f"[{positive}]" if positive else r"[^\x{0}-\x{10FFFF}]"
        else:
            written = f"(?:[{positive}]|[^{negative}])" if positive else f"[^{negative}]"
        self._take(0, written, "a")


def _class_of(written: str, at: int) -> CharacterClass:
    try:
        return CharacterClass(written, "1.1")
    except (ClassError, ValueError, LookupError, TypeError) as error:
        raise ExpressionError(f"not a regular expression: {error}", at) from None


def _ranges(codepoints: Any) -> str:
    """Code points, and pairs of them (the second is one past the last), as RE2 writes them in brackets."""
    return "".join(
        rf"\x{{{point:X}}}" if isinstance(point, int) else rf"\x{{{point[0]:X}}}-\x{{{point[1] - 1:X}}}"
        for point in codepoints
    )
