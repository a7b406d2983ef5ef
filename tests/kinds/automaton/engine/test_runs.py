"""What an automaton says of its runs as a whole: how long they may take, and what follows (A17, A18)."""

from __future__ import annotations

from narval.core.engines.commands import CancelCall, SetTimer, Start
from tests.kinds.automaton.engine.programs import Programs

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


ONE = '<state name="start" command="a"/>'


def test_A18_when_a_run_is_done_another_begins_with_what_it_began_with() -> None:
    said = Programs(ONE, attributes='restart="yes"')
    said.passes(5)
    said.ends("start")
    assert said.told == "done"
    assert said.wishes(Start) == [Start("g.a")]


def test_A18_runs_that_take_no_time_begin_once_a_second() -> None:
    said = Programs(ONE, attributes='restart="yes"')
    began = said.now
    said.ends("start")
    assert said.wishes(Start) == [Start("g.a", at=began + 1)]


def test_A18_after_failures_in_a_row_the_next_run_begins_later_and_later() -> None:
    said = Programs(ONE, attributes='restart="yes" timeout="60"')
    said.ends("start", 1)
    assert said.wishes(Start) == [Start("g.a", at=said.now + 1, attempt=1)]
    said.run = said.start("g.a", attempt=3, kind="automaton")
    said.passes(60)
    said.gone("start")
    assert said.wishes(Start) == [Start("g.a", at=said.now + 8, attempt=4)], "given up is a failure too"
    said.run = said.start("g.a", attempt=1000, kind="automaton")
    said.ends("start", 1)
    assert said.wishes(Start) == [Start("g.a", at=said.now + 300, attempt=1001)]


def test_A18_a_run_that_somebody_cancels_is_the_last() -> None:
    said = Programs(ONE, attributes='restart="yes"')
    said.cancel(said.run)
    said.gone("start")
    assert said.told == "cancelled"
    assert said.wishes(Start) == []


def test_A18_without_restart_nothing_follows() -> None:
    said = Programs(ONE)
    said.ends("start")
    assert said.wishes(Start) == []


def test_A19_the_processes_of_a_run_are_counted_together_those_of_a_state_by_themselves() -> None:
    said = Programs(TWO.replace('command="b"', 'command="b" processes="2"'), attributes='processes="8"')
    first = said.call_of("start").program
    said.ends("start")
    last = said.call_of("end").program
    assert (first.run_processes, first.processes) == (8, None)
    assert (last.run_processes, last.processes) == (8, 2)


def times(said: Programs) -> dict[str, tuple[float | None, float | None, float, float]]:
    """Of each state: since when it is what it is, its last success, the seconds it waited and ran."""
    parts = said.engines[said.run].parts(said.definitions[said.run], said.states[said.run])["states"]
    return {
        part["id"]: (part["since"], part["succeeded"], part["seconds"]["held"], part["seconds"]["running"])
        for part in parts
    }


def test_of_each_state_its_last_success_is_known_and_how_long_it_waited_and_ran() -> None:
    said = Programs(
        """<state name="start" command="a" retries="1" backoff="60"><wait signal="go"/></state>
        <state name="end" command="b"/>
        <transition from="start" label="0" to="start"/><transition from="start" label="3" to="end"/>"""
    )
    began = said.now
    said.passes(20)
    assert times(said) == {"start": (began, None, 0, 0), "end": (None, None, 0, 0)}
    said.says(said.run, "go")
    said.passes(5)
    said.ends("start")
    assert times(said)["start"] == (began + 25, began + 25, 20, 5)
    said.says(said.run, "go")
    said.passes(7)
    said.ends("start", 3)
    assert said.states_of["start"] == "held: back-off"
    waited = said.until_woken()
    said.ends("start", 3)
    assert times(said)["start"] == (said.now, began + 25, round(20 + waited, 3), 12)
    assert times(said)["end"] == (said.now, None, 0, 0)
    said.passes(1)
    said.cancel(said.run)
    said.gone("end")
    assert times(said)["end"] == (said.now, None, 0, 1)
