"""Transitions that wait for a moment of their own: from when it is counted, and what gives it up (N41)."""

from datetime import datetime

from narval.core.engines.commands import CancelTimer, SetTimer
from narval.kinds.recipe.engine.changes import DateCome, DateGivenUp, DateSet
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

FRIDAY = "2026-11-20T10:00:00Z"
THREE_DAYS = '<time after="3d"/>'


def plan(*transitions: str, **attributes: str) -> tuple[Dialogue, int]:
    """A plan on a Friday at ten, its first step `a` under way."""
    text = "".join(transitions)
    names = [name for name in "abcz" if f'idref="{name}"' in text]
    said = Dialogue(recipe("g.r", *(step(name) for name in names), text, **attributes))
    said.load(*(action(f"m.{name}") for name in names))
    said.now = moment(FRIDAY)
    return said, said.start("g.r")


def dated(id: str, ins: str, outs: str, times: str = THREE_DAYS, *conditions: str, priority: int = 0) -> str:
    return transition(id, ins, outs, *conditions, inside=times, priority=priority)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_N41_the_length_is_counted_from_when_the_in_steps_had_ended() -> None:
    said, run = plan(dated("t", "a", "z"))
    said.passes(3600)
    said.returned("a")
    monday = moment("2026-11-23T11:00:00Z")
    assert said.decided[-1] == DateSet("t", monday, "2.1", said.now)
    assert said.wishes(SetTimer) == [SetTimer("2.1", monday, calendar=True)]
    said.until("2026-11-23T10:59:59Z")
    assert said.transitions(run) == {"t": "wait-time"}
    said.passes(1)
    assert said.transitions(run) == {"t": "fired"}


def test_N41_a_join_counts_from_the_last_of_its_in_steps() -> None:
    said, _ = plan(transition("s", "a", "b c"), dated("t", "b c", "z"))
    said.returned("a")
    said.returned("b")
    said.passes(86400)
    said.returned("c")
    assert [wake.at for _, wake in said.wakes.values()] == [moment("2026-11-24T10:00:00Z")]


def test_N41_of_some_weekdays_only_these_count() -> None:
    said, _ = plan(dated("t", "a", "z", '<time after="3d" weekdays="0-4"/>'))
    said.returned("a")
    assert [wake.at for _, wake in said.wakes.values()] == [moment("2026-11-25T10:00:00Z")]


def test_N41_among_several_times_the_earliest_counts() -> None:
    said, run = plan(dated("t", "a", "z", '<time hours="7" minutes="0" seconds="0"/><time after="3d"/>'))
    said.returned("a")
    assert [wake.at for _, wake in said.wakes.values()] == [moment("2026-11-21T07:00:00Z")]
    said, run = plan(dated("t", "a", "z", '<time hours="7" minutes="0" seconds="0"/><time after="2h"/>'))
    said.returned("a")
    said.until_woken()
    assert (said.now, said.transitions(run)) == (moment("2026-11-20T12:00:00Z"), {"t": "fired"})


def test_N41_an_answer_before_that_withdraws_the_wait() -> None:
    said, run = plan(transition("answer", "a", "b", "mail"), dated("late", "a", "z"))
    said.returned("a")
    said.arrives("<mail/>")
    assert said.transitions(run) == {"answer": "fired", "late": "impossible"}
    assert (len(said.wishes(CancelTimer)), said.wakes) == (1, {})


def test_N41_then_its_conditions_are_waited_for() -> None:
    said, run = plan(dated("t", "a", "z", THREE_DAYS, "mail"))
    said.returned("a")
    said.until_woken()
    assert said.transitions(run) == {"t": "wait-condition"}
    said.arrives("<mail/>")
    assert said.transitions(run) == {"t": "fired"}


def test_N41_woken_early_it_waits_for_the_same_moment() -> None:
    said, run = plan(dated("t", "a", "z"))
    said.returned("a")
    (wake,) = said.wakes
    said.now -= 7200
    said.wakes_up(wake)
    assert [wake.at for _, wake in said.wakes.values()] == [moment("2026-11-23T10:00:00Z")]
    assert said.transitions(run) == {"t": "wait-time"}


def test_N41_woken_in_another_zone_it_is_reckoned_by_that() -> None:
    said, _ = plan(dated("t", "a", "z", '<time after="1d" weekdays="0-4"/>'))
    said.now = moment("2026-11-20T23:30:00Z")
    said.returned("a")
    assert [wake.at for _, wake in said.wakes.values()] == [moment("2026-11-23T23:30:00Z")]
    said.zone = "Europe/Paris"
    said.wakes_up(*said.wakes)
    assert [wake.at for _, wake in said.wakes.values()] == [moment("2026-11-23T23:00:00Z")], (
        "it was Saturday there"
    )


def test_N41_missed_it_comes_at_the_next_start_or_is_given_up() -> None:
    for missed, state, ended in (("once", "fired", "running"), ("skip", "impossible", "done")):
        said, run = plan(dated("t", "a", "z", f'<time after="3d" missed="{missed}"/>'))
        said.returned("a")
        said.now = said.up_since = moment("2026-11-24T10:00:00Z")
        said.wakes_up(*said.wakes)
        assert (said.transitions(run), said.state(run)) == ({"t": state}, ended)
        fact = DateCome("t") if missed == "once" else DateGivenUp("t")
        assert fact in said.decided


def test_N41_one_given_up_leaves_its_rivals_alone() -> None:
    said, run = plan(
        transition("mail", "a", "b", "mail"), dated("t", "a", "z", '<time after="3d" missed="skip"/>')
    )
    said.returned("a")
    said.now = said.up_since = moment("2026-11-24T10:00:00Z")
    said.wakes_up(*said.wakes)
    assert said.transitions(run) == {"mail": "wait-condition", "t": "impossible"}
    assert said.steps(run) == {"a": "done", "b": "todo", "z": "impossible"}
    assert (said.state(run), said.errors()) == ("running", [])


def test_N41_an_error_link_that_gave_its_moment_up_lets_the_plan_fail() -> None:
    said, run = plan(dated("t", "a!", "z", '<time after="3d" missed="skip"/>'))
    said.erred("a")
    assert said.transitions(run) == {"t": "wait-time"}
    said.now = said.up_since = moment("2026-11-24T10:00:00Z")
    said.wakes_up(*said.wakes)
    assert (said.transitions(run), said.state(run)) == ({"t": "impossible"}, "failed")
