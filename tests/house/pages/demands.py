"""The page of demands: its text is written by hand, and the tests of each demand are added to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from tests.house.pages.tables import DEMAND
from tests.places import DOCS, ROOT

PAGE = DOCS / "contributing" / "demands.md"

MOST_NAMED = 3
"""The tests that are named of one demand; of more their number is given."""

ROW = re.compile(rf"^\| ({DEMAND}|section \d+) \| (.*?) \|(?: ?(.*?) ?\|)?$", re.MULTILINE)
CITED = re.compile(rf"(?<![\w/.@#-])({DEMAND})(?![\w.@])|test((?:_{DEMAND})+)_")


class DemandRow(NamedTuple):
    """A demand: its number, and what it says."""

    number: str
    text: str

    @property
    def is_excused(self) -> bool:
        """True of a row that says why no test cites it: it is struck, not met yet, or measured."""
        return self.text.startswith(("~~", "*")) or "*Measured" in self.text


def rows() -> Iterator[DemandRow]:
    """The demands in the order of the page."""
    for number, text, _ in ROW.findall(PAGE.read_text(encoding="utf-8")):
        if not number.startswith("section"):
            yield DemandRow(number, text)


def numbers(text: str) -> Iterator[str]:
    """The numbers of demands that a text cites, in names of tests too."""
    for plain, several in CITED.findall(text):
        yield from [plain] if plain else several.strip("_").split("_")


@cache
def tests_of() -> Mapping[str, list[str]]:
    """The files of tests that cite each demand, by their path below tests, without the suffix."""
    cited: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = str(path.relative_to(ROOT / "tests").with_suffix(""))
        if name in OWN:
            continue
        for number in dict.fromkeys(numbers(path.read_text(encoding="utf-8"))):
            cited.setdefault(number, []).append(name)
    return cited


OWN = frozenset({"house/test_demands", "house/pages/demands", "house/pages/tables"})
"""The tests of this page, whose numbers are examples."""


def text_with_tests(text: str, cited: Mapping[str, Sequence[str]]) -> str:
    """A text of the page whose rows name the tests."""
    return ROW.sub(lambda row: _row(row[1], row[2], cited.get(row[1], ())), text)


def _row(number: str, text: str, names: Sequence[str]) -> str:
    if number.startswith("section"):
        return f"| {number} | {text} |"
    shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMED])
    more = f", and {len(names) - MOST_NAMED}" if len(names) > MOST_NAMED else ""
    return f"| {number} | {text} | {shown}{more}{' ' if shown else ''}|"


def lines() -> Iterator[str]:
    """The lines of the page as it is, with the tests of each demand."""
    yield from text_with_tests(PAGE.read_text(encoding="utf-8"), tests_of()).splitlines()
