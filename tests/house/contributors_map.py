"""The contributor's map: `python -m tests.house.contributors_map` writes the map from the packages."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.code import PACKAGE
from tests.house.rooms import PACKAGES
from tests.places import ROOT

PAGE = ROOT / "docs" / "contributing" / "map.md"

HEAD = """\
# The house, room by room

Made from the packages by `python -m tests.house.contributors_map`; a test compares. Each line is the first
sentence of a module. The rooms stand in the order in which they may import: from those above alone; those of
a kind stand in its folder. [design.md](../explanation/design.md) gives the reasons.

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


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for name in PACKAGES:
        parts += section(PACKAGE / name, 2)
    return "".join(parts)


def section(folder: Path, depth: int) -> list[str]:
    """The modules of a package, then its packages."""
    name = folder.relative_to(PACKAGE)
    parts = [f"\n{'#' * depth} {name}/\n\n{first_sentence(folder / '__init__.py')}\n"]
    files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    if files:
        parts.append("\n| room | |\n|---|---|\n")
        parts += [f"| `{path.stem}` | {first_sentence(path)} |\n" for path in files]
    for package in sorted(path for path in folder.iterdir() if is_package(path)):
        parts += section(package, min(depth + 1, 4))
    return parts


def is_package(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*.py")) and "migrations" not in path.parts


def first_sentence(path: Path) -> str:
    """The first sentence of the docstring of a file, on one line."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")[0].split())
    end = text.find(". ")
    return (text if end < 0 else text[: end + 1]).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
