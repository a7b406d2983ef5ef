"""The contributor's map: `python -m tests.house.contributors_map` writes the map from the packages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.code import PACKAGE
from tests.house.rooms import PACKAGES
from tests.places import ROOT

PAGE = ROOT / "docs" / "contributing" / "map.md"

HEAD = """\
# The house, room by room

A room is a package. `python -m tests.house.contributors_map` makes this page from the packages, and a test
compares. The size of a room is in lines, rounded, and includes the rooms within it. What a room is for is the
first sentence of its `__init__.py`; the first sentence of a module says what the module has.

A room imports only from rooms above it. The rooms of a kind stand in its folder.
[Two pictures](two-pictures.md) follow a turn and a call through the rooms.
[design.md](../explanation/design.md) gives the reasons.

To add …

| | touch |
|---|---|
| a kind | a folder in `kinds/`, a row in `core/kinds.py` |
| a trigger of transitions | `language/vocabulary.py` and `engine/transitions/` of `kinds/recipe/`, a page |
| a command of engines | a struct in `core/engines/commands.py`, a row in `core/engines/effects.py` |
| an operation | a function marked `@operation` with its scope in `ask/`: every surface has it |
| an act on work items | a row and a function in `kinds/work/engine/`, one in `kinds/work/operations/` |
| a kind of message | a function and a row in `daemon/messages/kinds.py` |
| a setting of an agent | a field and a reader in `files/agents/settings.py`, a row in agents.md |
| a database | a module in `store/` |
"""

CITED = re.compile(r" \((?:[A-Z]{1,2}\d|section \d)[^)]*\)")
"""Demands that a docstring cites: the map says what a room is for without them."""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for name in PACKAGES:
        parts.append(f"\n## {name}/\n\n| room | lines | what it is for |\n|---|---|---|\n")
        parts += rows(PACKAGE / name)
    return "".join(parts)


def rows(folder: Path) -> Iterator[str]:
    """The row of a package, and those of the packages within it."""
    text = CITED.sub("", first_sentence(folder / "__init__.py"))
    yield f"| `{folder.relative_to(PACKAGE)}/` | {rounded(lines_within(folder)):,} | {text} |\n"
    for package in sorted(path for path in folder.iterdir() if is_package(path)):
        yield from rows(package)


def is_package(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*.py")) and "migrations" not in path.parts


def lines_within(folder: Path) -> int:
    """The number of lines of code, docstrings and comments in a package and the packages within it."""
    return sum(path.read_text("utf-8").count("\n") for path in folder.rglob("*.py"))


def rounded(lines: int) -> int:
    """A number to its first digit, or to half of that where it is 1 or 2: an edit seldom alters it."""
    unit = int(10 ** (len(str(lines)) - 1))
    step = unit if lines >= 3 * unit else unit // 2
    return round(lines / step) * step


def first_sentence(path: Path) -> str:
    """The first sentence of the docstring of a file, on one line."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")[0].split())
    end = text.find(". ")
    return (text if end < 0 else text[: end + 1]).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
