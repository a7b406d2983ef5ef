"""What an automaton says of its runs as a whole: how long they may take (A17)."""

from __future__ import annotations

from narval.engines.commands import CancelCall, SetTimer
from tests.engines.automaton.programs import Programs

TWO = """<state name="start" command="a"/><state name="end" command="b"/>
  <transition from="start" label="0" to="end"/>"""


def test_A17_a_run_that_takes_too_long_is_given_up_with_what_runs() -> None:
    said = Programs(TWO, attributes='timeout="60"')
    assert said.given_up == said.now + 60
    said.passes(40)
    said.ends("start")
    assert said.running == {"end"}, "the moment is that of the whole run"
    said.passes(20)
    assert [asked.call for asked in said.wishes(CancelCall)] == [said.call_of("end").call]
    assert said.told == "ending"
    said.gone("end")
    assert said.told == "failed"
    assert (said.error()["type"], said.error()["message"]) == (
        "timeout",
        "g.a was not over within 60 s: it was at end",
    )


def test_A17_what_waits_is_given_up_too() -> None:
    said = Programs('<state name="start" command="a"><wait signal="go"/></state>', attributes='timeout="60"')
    said.passes(60)
    assert said.told == "failed"
    assert said.error()["message"].endswith("it was at start")


def test_A17_a_run_that_is_over_in_time_is_not_woken() -> None:
    said = Programs(TWO, attributes='timeout="60"')
    said.ends("start")
    said.ends("end")
    assert said.told == "done"
    assert not said.wakes


def test_A17_no_limit_is_no_timer() -> None:
    assert not Programs(TWO).wishes(SetTimer)
