"""Automata follow section 4: who follows whom, who is killed for it, and how a run ends (A1-A15)."""

from __future__ import annotations

import pytest

from narval.core.engines.commands import Call, CancelCall
from narval.core.engines.engine import Deaths
from narval.core.engines.events import Failure, Returned
from tests.core.engines.dialogue import action, recipe, step
from tests.kinds.automaton.engine.programs import Programs, signal

DIAMOND = """
  <state name="start" command="a"/><state name="q1" command="b"/><state name="q2" command="c"/>
  <state name="end" command="d"/>
  <transition from="start" label="0" to="q1"/><transition from="start" label="0" to="q2"/>
  <transition from="q1" label="0" to="end"/><transition from="q2" label="0" to="end"/>
"""
AROUND = DIAMOND + '<transition from="q1" label="1" to="start"/>'


def test_A3_what_is_ready_starts_in_parallel_and_a_join_waits_for_all() -> None:
    said = Programs(DIAMOND)
    assert said.running == {"start"}
    said.ends("start")
    assert said.running == {"q1", "q2"}
    said.ends("q2")
    assert said.running == {"q1"}
    said.ends("q1")
    assert said.running == {"end"}
    said.ends("end")
    assert said.told == "done"


def test_A4_an_error_kills_what_its_successor_had_started_before_that_starts_again() -> None:
    said = Programs(AROUND)
    said.ends("start")
    said.ends("q1", 1)
    (killed,) = said.wishes(CancelCall)
    assert killed.call == said.call_of("q2").call
    assert said.running == set(), "the successor waits until what was killed is gone"
    assert said.states_of["start"] == "held: programs"
    said.gone("q2")
    assert said.running == {"start"}
    said.ends("start")
    assert said.running == {"q1", "q2"}, "waiting sets were restored, and each state starts once a round"


def test_A4_waiting_sets_are_restored() -> None:
    said = Programs(AROUND)
    said.ends("start")
    said.ends("q2")
    said.ends("q1", 1)
    said.ends("start")
    said.ends("q1")
    assert said.running == {"q2"}, "the 0 of q2 in the first round counts no more"


def test_A3_a_state_that_runs_again_kills_what_is_left_of_its_successor() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="b" command="b"/>
        <transition from="start" label="0" to="b"/><transition from="start" label="0" to="start"/>""".replace(
            '<transition from="start" label="0" to="start"/>',
            '<transition from="start" label="7" to="start"/>',
        )
    )
    said.ends("start", 7)
    assert said.running == {"start"}
    said.ends("start")
    assert said.running == {"b"}


def test_A3_what_a_state_started_after_it_was_killed_is_killed_with_it() -> None:
    said = Programs("""
      <state name="start" command="a"/><state name="q1" command="b"/><state name="q2" command="c"/>
      <transition from="start" label="0" to="q1"/>
      <transition from="q1" label="0" to="start"/><transition from="q1" label="0" to="q2"/>
    """)
    said.ends("start")
    said.ends("q1")
    assert said.running == {"start", "q2"}, "start had started q1, which is killed with it, and starts q2"
    said.ends("start")
    assert said.running == set()
    said.gone("q2")
    assert said.running == {"q1"}


@pytest.mark.parametrize("successors", [("start", "alarm"), ("alarm", "start")])
def test_A4_the_order_of_transitions_does_not_matter(successors: tuple[str, str]) -> None:
    leads = "".join(f'<transition from="q" label="1" to="{name}"/>' for name in successors)
    said = Programs(f"""
      <state name="start" command="a"/><state name="q" command="b"/><state name="alarm" command="c"/>
      <transition from="start" label="0" to="q"/>{leads}
    """)
    said.ends("start")
    said.ends("q", 1)
    assert said.running == {"start", "alarm"}


@pytest.mark.parametrize("successors", [("a", "b"), ("b", "a")])
def test_A4_a_state_owns_no_successor_that_had_started_it(successors: tuple[str, str]) -> None:
    leads = "".join(f'<transition from="q" label="1" to="{name}"/>' for name in successors)
    said = Programs(f"""
      <state name="start" command="s"/><state name="a" command="a"/><state name="b" command="b"/>
      <state name="q" command="q"/>{leads}
      <transition from="start" label="0" to="a"/><transition from="a" label="0" to="b"/>
      <transition from="b" label="0" to="q"/>
    """)
    for state in ("start", "a", "b"):
        said.ends(state)
    said.ends("q", 1)
    said.ends("b")
    assert said.running == {"a", "q"}, "as q starts again, a goes on: it had started b, and that q"


def test_A5_a_status_without_a_transition_fails_the_run_and_says_where() -> None:
    said = Programs(DIAMOND)
    said.ends("start")
    said.ends("q1", 3, "line 1\nline 2")
    assert said.told == "ending"
    said.gone("q2")
    assert said.told == "failed"
    assert said.error() | {"step": "q1", "status": "3"} == said.error()
    message = "state q1 ended with status 3, and no transition leads on from there; it said last: “line 2”"
    assert said.error()["message"] == message
    assert "line 2" in said.errors()[0].xml.decode()


def test_A5_end_ends_what_still_runs() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="slow" command="b"/><state name="end" command="c"/>
        <transition from="start" label="0" to="slow"/><transition from="start" label="0" to="end"/>"""
    )
    said.ends("start")
    said.ends("end")
    assert said.told == "ending"
    said.gone("slow")
    assert said.told == "done"


@pytest.mark.parametrize("label", ["1", "*"])
def test_A5_end_may_lead_on_by_errors(label: str) -> None:
    said = Programs(
        f"""<state name="start" command="a"/><state name="end" command="b"/>
        <transition from="start" label="0" to="end"/><transition from="end" label="{label}" to="start"/>"""
    )
    said.ends("start")
    said.ends("end", 1)
    said.ends("start")
    said.ends("end")
    assert said.told == "done"


def test_A5_any_final_state_will_do_and_the_others_may_finish() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="b" command="b"/><state name="c" command="c"/>
        <transition from="start" label="0" to="b"/><transition from="start" label="0" to="c"/>"""
    )
    said.ends("start")
    said.ends("b")
    assert said.told == "running"
    said.ends("c")
    assert said.told == "done"


def test_A11_a_run_that_can_no_longer_end_fails_with_the_reason() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="b" command="b"/><state name="c" command="c"/>
        <state name="end" command="d"/>
        <transition from="start" label="0" to="b"/><transition from="start" label="0" to="c"/>
        <transition from="b" label="0" to="end"/><transition from="c" label="0" to="end"/>
        <transition from="c" label="1" to="b"/>"""
    )
    said.ends("start")
    said.ends("b")
    said.ends("c", 1)
    said.ends("b")
    assert said.told == "failed"
    assert "end waits for 0 of c" in said.error()["message"]


@pytest.mark.parametrize(
    ("label", "how"),
    [("signal", "SIGTERM"), ("SIGKILL", "SIGKILL"), ("timeout", "timeout"), ("*", 9), ("*", "SIGHUP")],
)
def test_A2_labels_name_signals_time_limits_and_anything(label: str, how: int | str) -> None:
    said = Programs(
        f"""<state name="start" command="a"/><state name="b" command="b"/>
        <transition from="start" label="{label}" to="b"/><transition from="start" label="0" to="b"/>"""
    )
    said.ends("start", how)
    assert said.running == {"b"}


def test_A2_the_most_precise_label_counts() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="b" command="b"/><state name="c" command="c"/>
        <transition from="start" label="signal" to="b"/><transition from="start" label="SIGHUP" to="c"/>
        <transition from="start" label="*" to="start"/>"""
    )
    said.ends("start", "SIGHUP")
    assert said.running == {"c"}


def test_A7_retries_wait_and_then_the_status_counts() -> None:
    said = Programs(
        """<state name="start" command="a" retries="1" backoff="2"/><state name="b" command="b"/>
        <transition from="start" label="4" to="b"/>"""
    )
    said.ends("start", 4)
    assert said.states_of["start"] == "held: back-off"
    assert 2 <= said.until_woken() <= 3
    assert said.running == {"start"}
    said.ends("start", 4)
    assert said.running == {"b"}


def test_A7_max_visits_ends_an_endless_loop() -> None:
    said = Programs(
        """<state name="start" command="a" max-visits="3"/>
        <transition from="start" label="1" to="start"/>"""
    )
    for _ in range(3):
        assert said.running == {"start"}
        said.ends("start", 1)
    assert said.told == "failed"
    assert said.error()["type"] == "max-visits"


def test_A7_quick_deaths_in_a_row_are_slowed_and_only_these() -> None:
    said = Programs('<state name="start" command="a"/><transition from="start" label="*" to="start"/>')
    for _ in range(20):
        said.ends("start", "SIGKILL")
        assert said.running == {"start"}, "at first it is started again at once"
    said.ends("start", 78, "starting\nconfig missing\n")
    assert said.states_of["start"] == "held: quick"
    assert "several times in a row; it ended with 78, and said last: “config missing”" in said.why("start")
    assert 0.1 <= said.until_woken() <= 0.15
    said.ends("start", "SIGKILL")
    assert 0.2 <= said.until_woken() <= 0.3
    said.passes(5)
    said.ends("start", "SIGKILL")
    assert said.running == {"start"}, "what has lived for a while is started again at once"


def test_A7_what_waits_for_a_date_before_each_start_is_not_slowed() -> None:
    check = '<state name="start" command="a"><after seconds="*/5"/></state>'
    said = Programs(f'{check}<transition from="start" label="10" to="start"/>')
    for _ in range(30):
        said.passes(5)
        assert said.running == {"start"}, "its dates pace it"
        said.ends("start", 10)


def test_A7_what_dies_again_and_again_is_told_until_it_stays_up() -> None:
    said = Programs('<state name="start" command="a"/><transition from="start" label="*" to="start"/>')

    def deaths() -> Deaths | None:
        return next(wait.deaths for wait in said.waits if wait.what == "call")

    said.passes(5)
    for _ in range(2):
        said.ends("start", 78, "config missing\n")
        assert deaths() is None
        said.passes(5)
    said.ends("start", 78, "config missing\n")
    words = "it ended with 78, and said last: “config missing”"
    assert deaths() == Deaths(3, said.now - 10, said.now, said.now + 600, words)
    said.passes(601)
    said.ends("start", 78)
    assert deaths() is None, "it had stayed up"


def test_A7_a_state_that_waits_for_a_date_does_not_die_again() -> None:
    said = Programs(
        """<state name="start" command="a"><after seconds="*/5"/></state>
        <transition from="start" label="*" to="start"/>"""
    )
    for _ in range(5):
        said.until_woken()
        said.ends("start", 1)
    said.until_woken()
    assert all(wait.deaths is None for wait in said.waits)


def test_A8_contenders_are_tried_in_order_until_one_succeeds() -> None:
    said = Programs(
        """<state name="start">
        <command command="scp x">one</command><command command="ftp y">two</command></state>"""
    )
    assert said.call_of("start").program.words == ("scp", "x")
    said.ends("start", 1)
    assert (said.call_of("start").program.words, said.call_of("start").program.text) == (("ftp", "y"), "two")
    said.ends("start")
    assert said.told == "done"


def test_A8_when_all_have_failed_the_status_of_the_last_counts() -> None:
    said = Programs(
        """<state name="start"><command command="x"/><command command="y"/></state>
        <state name="b" command="b"/>
        <transition from="start" label="2" to="b"/>"""
    )
    said.ends("start", 1)
    said.ends("start", 2)
    assert said.running == {"b"}


def test_A9_a_skipped_state_counts_as_0() -> None:
    said = Programs(DIAMOND)
    said.answer(said.call_of("start"), value={"status": 0, "skipped": 1})
    assert said.running == {"q1", "q2"}
    assert "up to date" in said.engines[said.run].explain(
        said.definitions[said.run], said.states[said.run], "start"
    )


def test_A9_what_is_up_to_date_is_skipped_without_a_program_and_needs_no_room() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="b" command="b" creates="x"/>
        <state name="c" command="c" creates="y"/><state name="end" command="d"/>
        <transition from="start" label="0" to="b"/><transition from="b" label="0" to="c"/>
        <transition from="c" label="0" to="end"/>""",
        attributes='max-parallel="1"',
    )
    said.files = {"x"}
    said.ends("start")
    assert said.states_of == {"start": "done", "b": "done", "c": "running", "end": "idle"}
    said.ends("c")
    said.ends("end")
    assert said.told == "done"


def test_A9_a_circle_of_states_that_are_up_to_date_does_not_hold_the_daemon() -> None:
    said = Programs(
        """<state name="start" command="a" creates="x"/>
        <state name="b" command="b" creates="x"><wait signal="go"/></state>
        <transition from="start" label="0" to="b"/><transition from="b" label="0" to="start"/>"""
    )
    said.files = {"x"}
    signal(said, "go")
    assert said.running == {"start"}


def test_A10_a_state_waits_for_its_date() -> None:
    said = Programs('<state name="start" command="a"><after hours="7" minutes="0" seconds="0"/></state>')
    assert said.running == set()
    said.passes(7 * 3600)
    assert said.running == {"start"}


def test_A10_a_state_waits_for_a_signal_and_what_comes_with_it_is_given_to_programs() -> None:
    said = Programs(
        """<state name="start" command="a"><wait signal="go"/>
        <env name="WHO" select="@name"><match>person</match></env></state>"""
    )
    assert said.running == set()
    assert signal(said, "stop").problem is not None
    answer = signal(said, "go", b'<person name="ann"/>')
    assert (answer.problem, answer.value) == (None, {"taken_by": "start"})
    assert said.running == {"start"}
    assert said.inputs("start") == {"WHO": (said.named("person")[0].eid,)}


def test_A10_a_signal_that_comes_early_is_kept() -> None:
    said = Programs(
        """<state name="start" command="a"/><state name="b" command="b"><wait signal="go"/></state>
        <transition from="start" label="0" to="b"/>"""
    )
    assert signal(said, "go").value == {"taken_by": None}
    said.ends("start")
    assert said.running == {"b"}


def test_A14_no_more_run_than_may() -> None:
    states = "".join(
        f'<state name="s{n}" command="x"/><transition from="start" label="0" to="s{n}"/>' for n in range(5)
    )
    said = Programs(f'<state name="start" command="a"/>{states}', attributes='max-parallel="2"')
    said.ends("start")
    assert said.running == {"s0", "s1"}
    said.ends("s0")
    assert said.running == {"s1", "s2"}
    for name in ("s1", "s2", "s3", "s4"):
        said.ends(name)
    assert said.told == "done"


def test_A15_a_state_calls_a_recipe_and_its_end_is_a_status() -> None:
    said = Programs(
        """<state name="start" target="g.r"/><state name="well" command="w"/><state name="ill" command="i"/>
        <transition from="start" label="0" to="well"/><transition from="start" label="1" to="ill"/>""",
        recipe("g.r", step("a"), start="a", end="a"),
        action("m.a"),
    )
    child = said.begins("start")
    said.returned("a", run=child)
    said.answers(child)
    assert said.running == {"well"}


def test_A7_a_run_that_takes_too_long_is_tried_again_though_it_was_cancelled() -> None:
    start = '<state name="start" target="g.r" timeout="5" retries="1" backoff="2"/>'
    said = Programs(start, recipe("g.r", step("a"), end="a"), action("m.a"))
    said.passes(5)
    late = said.call_of("start")
    said.answer(late, problem=Failure("run-cancelled", "it was cancelled", final=True))
    said.passes(10)
    assert said.call_of("start").call != late.call


def test_A15_a_run_that_fails_is_status_1_and_one_that_takes_too_long_a_timeout() -> None:
    text = """<state name="start" target="g.r" timeout="5"/><state name="late" command="l"/>
        <state name="ill" command="i"/>
        <transition from="start" label="timeout" to="late"/><transition from="start" label="1" to="ill"/>"""
    called = recipe("g.r", step("a"), start="a", end="a"), action("m.a")
    failed, late = Programs(text, *called), Programs(text, *called)
    failed.answer(failed.call_of("start"), problem=Failure("run-failed", "no"))
    assert failed.running == {"ill"}
    late.passes(5)
    assert [command.call for command in late.wishes(CancelCall)] == [late.call_of("start").call]
    late.answer(late.call_of("start"), abandoned=True, problem=Failure("run-cancelled", "no"))
    assert late.running == {"late"}


def test_A4_a_cancelled_run_is_over_when_its_programs_are_gone() -> None:
    said = Programs(DIAMOND)
    said.ends("start")
    said.cancel(said.run)
    assert said.told == "ending"
    said.cancel(said.run)
    said.gone("q1", "q2")
    assert said.told == "cancelled"


def test_a_call_that_nobody_waits_for_says_nothing() -> None:
    said = Programs(DIAMOND)
    said.tell(said.run, Returned(2000, said.now, "no.such", value={"status": 0}))
    assert said.running == {"start"}


def test_A13_values_never_reach_a_command_line() -> None:
    said = Programs(
        """<env name="A" value="1"/><state name="start" command="sh -c 'echo $B'" directory="/srv">
        <env name="B" value="; rm -rf /"/>text</state>"""
    )
    (call,) = said.wishes(Call)
    assert call.program.words == ("sh", "-c", "echo $B")
    assert dict(call.program.environment) == {"A": "1", "B": "; rm -rf /"}
    assert (call.program.directory, call.kind) == ("/srv", "program")
