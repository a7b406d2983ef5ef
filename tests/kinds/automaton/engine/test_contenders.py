"""The commands of a state: each is tried as often as it says before the next has its turn (A21)."""

from __future__ import annotations

import pytest

from narval.core.engines.commands import Call
from narval.core.engines.events import Failure
from tests.kinds.automaton.engine.programs import Programs

TWO = """<state name="start" {}>
    <command command="first" retries="2" backoff="10"/><command command="second"/>
  </state>
  <state name="b" command="b"/><transition from="start" label="7" to="b"/>"""


def called(said: Programs) -> str:
    """The command that runs."""
    (call,) = [call for call in said.calls_of("start") if call.call in said.states[said.run].calls]
    assert call.program is not None
    return str(call.program.words[0])


def test_A21_a_command_is_tried_again_and_then_the_next_one_has_its_turn() -> None:
    said = Programs(TWO.format(""))
    for least in (10, 20):
        assert called(said) == "first"
        said.ends("start", 1)
        assert said.states_of["start"] == "held: back-off"
        assert least <= said.until_woken() <= 1.5 * least
    assert called(said) == "first"
    said.ends("start", 1)
    assert called(said) == "second", "at once: it is another way"
    said.ends("start", 7)
    assert said.running == {"b"}


def test_A21_one_that_succeeds_at_last_is_enough() -> None:
    said = Programs(TWO.format(""))
    said.ends("start", 1)
    said.until_woken()
    said.ends("start")
    assert said.states_of["start"] == "done"


def test_A21_why_tells_which_command_is_tried_again() -> None:
    said = Programs(TWO.format(""))
    said.ends("start", 1)
    assert said.why("start") == "it waits for another attempt: first has failed 1 time; it ended with 1 (try)"
    said.until_woken()
    said.ends("start", 1)
    assert "first has failed 2 times" in said.why("start")


def test_A21_the_retries_of_the_state_begin_with_the_first_command_anew() -> None:
    said = Programs(TWO.format('retries="1" backoff="60"'))
    told = []
    for _ in range(8):
        told.append(called(said))
        said.ends("start", 7)
        if said.running == {"b"}:
            break
        if not said.running:
            said.until_woken()
    assert told == ["first", "first", "first", "second"] * 2
    assert said.running == {"b"}


def test_A21_each_visit_begins_anew() -> None:
    said = Programs(TWO.format("") + '<transition from="b" label="1" to="start"/>')
    said.ends("start", 1)
    said.until_woken()
    said.ends("start", 1)
    said.until_woken()
    said.ends("start", 1)
    said.ends("start", 7)
    said.ends("b", 1)
    said.ends("start", 1)
    assert said.states_of["start"] == "held: back-off"
    said.until_woken()
    assert called(said) == "first"


def test_A21_another_way_by_a_transition_is_taken_once_the_only_command_has_failed_so_often() -> None:
    said = Programs(
        """<state name="start"><command command="a" retries="1" backoff="0"/></state>
        <state name="other" command="o"/><transition from="start" label="*" to="other"/>"""
    )
    said.ends("start", "timeout")
    said.until_woken()
    said.ends("start", "SIGSEGV")
    assert said.running == {"other"}


@pytest.mark.parametrize("status", [1, "timeout"])
def test_A21_without_retries_the_next_command_follows_at_once(status: int | str) -> None:
    said = Programs('<state name="start"><command command="x"/><command command="y"/></state>')
    said.ends("start", status)
    (asked,) = said.wishes(Call)
    assert asked.program.words == ("y",)


def test_A12_what_is_not_to_be_repeated_after_a_restart_is_not_tried_again() -> None:
    said = Programs(TWO.format('retries="3" on-restart="error"').replace('"7"', '"1"'))
    said.answer(said.call_of("start"), problem=Failure("interrupted", "the daemon stopped", final=True))
    assert said.running == {"b"}
