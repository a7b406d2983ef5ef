"""The pages made from the code are as the code is: words, settings, states, errors, operations, the map …"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.pages.all import MADE, text_of
from tests.house.pages.error_kinds import rows, uses
from tests.house.pages.states import TITLES, states


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.stem)
def test_a_page_is_made_from_the_code(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == text_of(MADE[path]), "write it again: make pages"


def test_the_states_of_each_kind_of_runs_are_drawn() -> None:
    assert [kind for kind, _ in states()] == list(TITLES)


def test_kinds_of_errors_are_found_with_their_messages() -> None:
    found = {kind: message for kind, message, _ in rows(uses(), ("ActionError",))}
    assert found["`bad-pause`"].startswith("expected a pause of 0 to … seconds, got …")
