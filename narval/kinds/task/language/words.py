"""The words, marks and strings of `.task` files: keywords in any case, some of two words."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate

from narval.core.definitions.reading.lexer import FAULTS, Lexicon
from narval.core.source.tokens import Token

_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*"
_END = r"(?![A-Za-z0-9_])(?![.-][A-Za-z0-9_])"

_PATTERN = re.compile(
    rf"""(?P<blank>[ \t\r\n\f]+|/\*.*?\*/)
    |(?P<comment>/\*.*)
    |(?P<asks>(?i:WORK)\s+<work(?:\s(?:[^<>"']|"[^"]*"|'[^']*')*)?(?:/>|>.*?</work\s*>))
    |(?P<endless>(?i:WORK)\s+<work[\s/>].*)
    |(?P<name>
        (?:(?i:TASK[\s-]+(?:TYPE|CODE)|GLOBAL[\s-]+EVENT|COMPOSED[\s-]+FROM
            |COMPENSATED[\s-]+BY|COMPENSATION[\s-]+TO){_END}
        |(?i:ON)[\s]+(?:{_NAME}|[0-9]+){_END}
        |{_NAME}))
    |(?P<number>[0-9]+(?:\.[0-9]+)?)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<mark>[!=<>]=|[][(){{}}<>,;:])
    |(?P<quote>["'].*)
    |(?P<junk>(?:(?!/\*)[^ \t\r\n\fA-Za-z0-9_"'(){{}}<>,;:[\]])+)""",
    re.VERBOSE | re.DOTALL,
)

TYPE, EVENT = "TASK TYPE", "GLOBAL EVENT"

CLAUSES = (
    "USERS",
    "ROLES",
    "INVOCATION",
    "COMPENSATED BY",
    "COMPENSATION TO",
    "COMPOSED FROM",
    "TASK CODE",
    "INITIAL",
    "FINAL",
)
"""The words that begin the clauses of a type, each given once."""

STATE = "STATE"
ON = "ON"
"""The kind of `ON x`, for any x that is not in `OF_STATES`."""

OF_STATES = ("ON ASSERT", "ON LEAVING", "ON EVENT")
"""The words that begin a part of a state."""

WORK = "asks"
"""The kind of `WORK <work>…</work>`: what people are asked, in the language of work."""

STARTS = frozenset((TYPE, EVENT, *CLAUSES, WORK, STATE, ON, *OF_STATES))
"""The words that begin anything; reading can resume there after a fault."""

OPERATORS = ("AT", "BEFORE", "AFTER", "WITHIN")
QUALIFIERS = ("RELATIVE", "ABSOLUTE")
UNITS = {"HRS": 3600.0, "MINS": 60.0, "SECS": 1.0}
"""The seconds of the units of time."""

SINGLE = frozenset(
    (
        *(word for word in STARTS if " " not in word and word != WORK),
        *OPERATORS,
        *QUALIFIERS,
        *UNITS,
        *("EXPOSED", "INTERNAL", "GOTO", "SYNC", "ASYNC", "GLOBAL", "EVERY", "CONDITION", "ACTION"),
        *("AND", "OR", "IF", "ELSE"),
    )
)
"""The one-word keywords, which are not valid names."""

COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")


def word(text: str) -> str | None:
    """The kind of a keyword; None for any other word."""
    key = " ".join(re.split(r"[\s-]+", text.upper()))
    if key in STARTS or key in SINGLE:
        return key
    return ON if re.match(r"(?i:ON)\s", text) else None


LEXICON = Lexicon(word, _PATTERN, {**FAULTS, "endless": "WORK: this <work> needs </work> at its end"})


def after_on(text: str) -> str:
    """The word after an ON."""
    return text.split()[-1]


# --- strings, in quotes of either kind, a backslash before literal characters ---------------------

_PIECE = re.compile(r"\\.|[^\\]", re.DOTALL)


def content(string: Token) -> tuple[str, Callable[[int], int]]:
    """The text within the quotes, and a function that gives the place of its characters in the file."""
    inner, begin = string.text[1:-1], string.at + 1
    if "\\" not in inner:
        return inner, lambda at: begin + at
    pieces = _PIECE.findall(inner)
    places = [*accumulate(map(len, pieces), initial=begin)]
    return "".join(piece[-1] for piece in pieces), lambda at: places[min(at, len(places) - 1)]


def quoted(text: str) -> str:
    """A text as a string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
