"""Tables in Markdown, and what readers of values say that they expect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

DEMAND = r"(?:N|A|KA|K|P|TA|T|M|G)[1-9]\d{0,2}"
"""The number of a demand, as docs/contributing/demands.md has them."""
CITATION = re.compile(rf"\s+\({DEMAND}(?:(?:,| to| and)\s+{DEMAND})*\)")

BAD_TEXTS = ("\x00 \x00", "-", "")
BAD_VALUES = (object(), {"\x00": 0}, "\x00", [], -1)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of a table."""
    names = tuple(head)
    yield row(names)
    yield "|" + "---|" * len(names)
    yield from map(row, rows)


def row(cells: Iterable[str]) -> str:
    """A line of a table; bars within its cells stay there."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def code(text: object) -> str:
    """A text as code."""
    return f"`{text}`"


def codes(words: Iterable[object], otherwise: str = "") -> str:
    """Words as code, with commas between them."""
    return ", ".join(map(code, words)) or otherwise


def expected(read: Callable[[Any], object], bad: Iterable[object]) -> str:
    """The words in which a reader refuses what it cannot read; "" if it takes anything.

    `bad` are values of which one at least is refused.
    """
    for value in bad:
        try:
            read(value)
        except ValueError as error:
            return str(error.args[0])
    return ""


def without_citations(text: str) -> str:
    """A docstring as users read it, without the numbers of demands that it cites in brackets."""
    return CITATION.sub("", text)


def paragraph(text: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(text.strip().split("\n\n")[0].split())
