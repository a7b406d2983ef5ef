"""The actions that ship: each says which parts of its inputs say where it goes (F5)."""

from __future__ import annotations

from narval.core.definitions.action.definition import Action
from narval.files.shipped import shipped_modules


def test_each_action_that_ships_says_which_parts_say_where() -> None:
    ships = shipped_modules()
    actions = [each for module in ships.load(ships.names).modules.values() for each in module.found]
    undeclared = [each.full_name for each in actions if isinstance(each, Action) and each.says_where is None]
    assert undeclared == []
