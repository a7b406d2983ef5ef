"""The contributor's map is as the packages are."""

from __future__ import annotations

from tests.house.contributors_map import PAGE, page


def test_the_map_is_made_from_the_packages() -> None:
    again = "write it again: python -m tests.house.contributors_map"
    assert PAGE.read_text(encoding="utf-8") == page(), again
