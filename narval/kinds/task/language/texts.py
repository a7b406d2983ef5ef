"""The strings of `.task` files: in quotes of either kind, a backslash before what is taken as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate

from narval.core.source.tokens import Token

_PIECE = re.compile(r"\\.|[^\\]", re.DOTALL)


def content(string: Token) -> tuple[str, Callable[[int], int]]:
    """The text within the quotes, and a function that gives the place in the file of a character of it."""
    inner, begin = string.text[1:-1], string.at + 1
    if "\\" not in inner:
        return inner, lambda at: begin + at
    pieces = _PIECE.findall(inner)
    places = [*accumulate(map(len, pieces), initial=begin)]
    return "".join(piece[-1] for piece in pieces), lambda at: places[min(at, len(places) - 1)]


def quoted(text: str) -> str:
    """A text as a string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
