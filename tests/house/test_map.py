"""The pages made from the code are as the code is: the contributor's map, the reference of operations."""

from __future__ import annotations

from tests.house import contributors_map, operations_page


def test_the_map_is_made_from_the_packages() -> None:
    again = "write it again: python -m tests.house.contributors_map"
    assert contributors_map.PAGE.read_text(encoding="utf-8") == contributors_map.page(), again


def test_the_reference_of_operations_is_made_from_their_table() -> None:
    again = "write it again: python -m tests.house.operations_page"
    assert operations_page.PAGE.read_text(encoding="utf-8") == operations_page.page(), again
