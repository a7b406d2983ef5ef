"""The pages that are made from the code, by their paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.house import contributors_map, operations_page
from tests.house.pages import (
    api_names,
    demands,
    error_kinds,
    language,
    metrics,
    python_names,
    settings,
    states,
    wishes,
    words,
)
from tests.places import ROOT

Lines = Callable[[], Iterator[str]]

MADE: Mapping[Path, Lines] = {
    contributors_map.PAGE: lambda: iter([contributors_map.page().rstrip("\n")]),
    demands.PAGE: demands.lines,
    error_kinds.MODULE: error_kinds.module_lines,
    operations_page.PAGE: lambda: iter([operations_page.page().rstrip("\n")]),
    **{
        ROOT / "docs" / page.PATH: page.lines
        for page in (words, language, settings, error_kinds, states, python_names, api_names, wishes, metrics)
    },
}


def text_of(lines: Lines) -> str:
    """The text of a page, with one new line at its end."""
    return "\n".join(lines()).rstrip("\n") + "\n"


def write() -> None:
    """Write all pages anew."""
    for path, made in MADE.items():
        path.write_text(text_of(made), encoding="utf-8")
