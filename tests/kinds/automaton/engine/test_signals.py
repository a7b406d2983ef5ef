"""Signals that interrupt a state: it is left at once, by the transition of their name (A20)."""

from __future__ import annotations

from narval.core.engines.commands import CancelCall
from narval.core.engines.events import Failure
from tests.core.engines.dialogue import action, recipe, step
from tests.kinds.automaton.engine.programs import Programs, signal

SERVE = """<state name="start" command="a" {}/><state name="tidy" command="t"/><state name="end" command="b"/>
  <transition from="start" signal="stop" to="tidy"/>
  <transition from="tidy" label="0" to="end"/>"""


def test_A20_a_signal_ends_the_program_and_leaves_by_its_transition() -> None:
    said = Programs(SERVE.format('retries="3"'))
    assert signal(said, "stop").value == {"taken_by": "start"}
    (asked,) = said.wishes(CancelCall)
    assert asked.call == said.call_of("start").call
    assert "interrupted by signal stop" in said.why("start")
    assert said.running == {"start"}, "the next begins when what was interrupted is gone"
    said.answer(said.call_of("start"), abandoned=True)
    assert said.running == {"tidy"}, "it is not tried again"
    assert said.states_of["start"] == "erred"
    said.ends("tidy")
    said.ends("end")
    assert said.told == "done"


def test_A20_what_ends_by_itself_meanwhile_is_interrupted_all_the_same() -> None:
    said = Programs(SERVE.format(""))
    signal(said, "stop")
    said.ends("start", 0)
    assert said.running == {"tidy"}


def test_A20_a_second_signal_of_the_name_finds_nothing_to_interrupt() -> None:
    said = Programs(SERVE.format(""))
    signal(said, "stop")
    assert signal(said, "stop").value == {"taken_by": None}
    said.answer(said.call_of("start"), abandoned=True)
    problem = signal(said, "stop").problem
    assert problem is not None
    assert problem.message == "stop interrupts start, and none of these is under way"
    assert said.running == {"tidy"}


def test_A20_what_waits_before_it_runs_is_left_too() -> None:
    for wait in ('<wait signal="go"/>', '<after hours="7" minutes="0" seconds="0"/>'):
        said = Programs(SERVE.format("").replace("/>", f">{wait}</state>", 1))
        assert said.running == set()
        assert signal(said, "stop").value == {"taken_by": "start"}
        assert said.running == {"tidy"}
        assert not said.wakes


def test_A20_what_waits_for_its_next_try_is_left_too() -> None:
    said = Programs(SERVE.format('retries="3"'))
    said.ends("start", 1)
    assert said.states_of["start"] == "held: back-off"
    signal(said, "stop")
    assert said.running == {"tidy"}
    assert not said.wakes


def test_A20_all_states_that_it_interrupts_are_left_and_the_others_go_on() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="b" command="b"/><state name="c" command="c"/>
        <state name="d" command="d"/><state name="x" command="x"/><state name="y" command="y"/>
        <transition from="start" label="0" to="b"/><transition from="start" label="0" to="c"/>
        <transition from="start" label="0" to="d"/>
        <transition from="b" signal="stop" to="x"/><transition from="c" signal="stop" to="y"/>"""
    )
    said.ends("start")
    assert signal(said, "stop").value == {"taken_by": "b, c"}
    for name in ("b", "c"):
        said.answer(said.call_of(name), abandoned=True)
    assert said.running == {"d", "x", "y"}


def test_A20_a_run_that_a_state_has_called_is_given_up() -> None:
    said = Programs(
        """<state name="start" target="g.r" timeout="60"/><state name="tidy" command="t"/>
        <transition from="start" signal="stop" to="tidy"/>""",
        recipe("g.r", step("a"), start="a", end="a"),
        action("m.a"),
    )
    signal(said, "stop")
    assert not said.wakes
    said.answer(said.call_of("start"), problem=Failure("run-cancelled", "no"), abandoned=True)
    assert said.running == {"tidy"}


def test_A20_a_signal_may_interrupt_one_state_and_let_another_go_on() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="b" command="b"><wait signal="stop"/></state>
        <transition from="start" signal="stop" to="b"/>"""
    )
    assert signal(said, "stop").value == {"taken_by": "start"}
    said.answer(said.call_of("start"), abandoned=True)
    assert said.states_of["b"] == "held: signal", "the one that interrupted was taken, and is not kept"
    assert signal(said, "stop").value == {"taken_by": "b"}


def test_A20_a_state_that_only_signals_lead_on_from_is_a_good_end() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="tidy" command="t"/>
        <transition from="start" signal="stop" to="tidy"/>"""
    )
    said.ends("start")
    assert said.told == "done"


def test_A20_an_interrupted_state_that_is_killed_takes_no_transition() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="b" command="b"/><state name="c" command="c"/>
        <state name="x" command="x"/>
        <transition from="start" label="0" to="b"/><transition from="start" label="0" to="c"/>
        <transition from="b" signal="stop" to="x"/><transition from="c" label="1" to="start"/>"""
    )
    said.ends("start")
    signal(said, "stop")
    said.ends("c", 1)
    said.gone("b")
    assert said.running == {"start"}
    said.ends("start")
    assert said.running == {"b", "c"}
    said.ends("b")
    assert said.states_of["x"] == "idle"
