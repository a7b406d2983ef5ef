"""The table of effects: a row for each command, and what a replayed run keeps of it."""

from __future__ import annotations

from typing import get_args

import pytest

from narval.engines.commands import Command, Outer
from narval.runtime.agent.effects import AT_ONCE, DEFERRED, EFFECTS, REPLAYED, RESTORED
from narval.runtime.store.codec import Tracked


def test_each_command_has_a_row() -> None:
    assert set(EFFECTS) == set(get_args(Command))


@pytest.mark.parametrize("command", EFFECTS, ids=lambda command: command.__name__)
def test_no_command_is_without_effect(command: type) -> None:
    assert command in AT_ONCE or command in DEFERRED


def test_outer_commands_are_handed_out_after_the_advance() -> None:
    assert set(get_args(Outer)) <= DEFERRED.keys() - AT_ONCE.keys()


def test_what_the_journal_gives_back_is_what_is_replayed() -> None:
    assert set(REPLAYED) == set(get_args(Tracked))


def test_what_is_restored_was_replayed() -> None:
    assert RESTORED.keys() <= REPLAYED.keys()
