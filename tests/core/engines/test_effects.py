"""The table of effects: a row for each command, and the acts that rows name."""

from __future__ import annotations

from typing import get_args

import pytest

from narval.agent.effects import TurnEffects
from narval.core.engines.commands import (
    Call,
    CancelTimer,
    Command,
    Inner,
    Outdate,
    Outer,
    Release,
    Reserve,
    Unwatch,
)
from narval.core.engines.effects import EFFECTS, InForce
from narval.core.engines.events import TimerFired
from tests.core.engines.dialogue import Dialogue

ACTS = {effect.act for effect in EFFECTS.values() if effect.act}


def test_each_command_has_a_row() -> None:
    assert set(EFFECTS) == set(get_args(Command)) == {*get_args(Inner), *get_args(Outer)}


@pytest.mark.parametrize("command", EFFECTS, ids=lambda command: command.__name__)
def test_no_command_is_without_effect(command: type) -> None:
    effect = EFFECTS[command]
    assert effect.facts is not None or effect.in_force is not None or effect.act


def test_every_act_is_done_by_turns_and_dialogues() -> None:
    assert set(dir(TurnEffects)) & set(dir(Dialogue)) >= ACTS
    assert set(dir(TurnEffects)) >= {effect.admit for effect in EFFECTS.values() if effect.admit}


def test_outer_commands_change_no_memory_and_wait_until_all_is_decided() -> None:
    for command in get_args(Outer):
        assert EFFECTS[command].facts is None
        assert not EFFECTS[command].at_once


def test_what_is_in_force_brings_itself_in_force_again() -> None:
    run, again = InForce(), InForce()
    EFFECTS[Call].in_force(run, Call("1.1", "action", "m.a", "a"))
    for command in run.commands():
        EFFECTS[type(command)].in_force(again, command)
    assert again.calls == run.calls


def test_what_takes_back_a_request_may_follow_the_end_of_a_run() -> None:
    run, other = InForce(), InForce()
    for each in (run, other):
        each.rest()
    for command in (Release((1,)), Outdate((1,)), CancelTimer("t"), Unwatch("w"), Reserve(())):
        EFFECTS[type(command)].in_force(run, command)
    run.note(TimerFired(1, 0.0, "t"))
    with pytest.raises(TypeError, match="ended"):
        run.reserved.update({1: None})
    assert not other.reserved, "all that have ended share it"
