"""docs/reference/monitor.md has a line for each route, with its command, and its pictures are there (M99)."""

from __future__ import annotations

import re

import pytest

from narval.surfaces.http.page import PageRoute
from narval.surfaces.web.site import NAVIGATION, PAGES
from tests.places import ROOT

TEXT = (ROOT / "docs" / "reference" / "monitor.md").read_text(encoding="utf-8")
PICTURES = ROOT / "docs" / "reference" / "pictures"


def named(text: str) -> str:
    """A path or a command with its parameters as the page writes them."""
    return re.sub(r"\{(\w+)(:\w+)?\}", lambda found: "A" if found[1] == "agent" else found[1].upper(), text)


@pytest.mark.parametrize("route", PAGES, ids=lambda route: route.name)
def test_M99_every_route_has_a_line(route: PageRoute) -> None:
    lines = [line for line in TEXT.splitlines() if f"`{named(route.path)}`" in line]
    assert lines
    if route.command:
        assert any(f"`{named(route.command)}`" in line for line in lines), named(route.command)


def test_M91_the_keys_of_the_page_are_those_of_the_header() -> None:
    (line,) = (line for line in TEXT.splitlines() if line.startswith("`?` lists them"))
    assert re.findall(r"`(g \w)`", line) == [key for *_, key in NAVIGATION]


def test_M99_each_picture_is_there_small_and_shown() -> None:
    shown = re.findall(r"\]\(pictures/([\w-]+\.webp)\)", TEXT)
    sizes = {path.name: path.stat().st_size for path in PICTURES.iterdir()}
    assert sorted(shown) == sorted(sizes)
    assert max(sizes.values()) <= 120_000
    assert sum(sizes.values()) <= 1_500_000
