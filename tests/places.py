"""Where things are in this repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The repository."""

DOCS = ROOT / "docs"
"""The pages of documentation, in folders by purpose."""


def page(name: str) -> str:
    """The text of the one page of this file name, in whichever folder of the documentation it is."""
    (found,) = DOCS.rglob(name)
    return found.read_text(encoding="utf-8")
