"""Transitions that wait for dates: when they may fire, what else may, what is withdrawn (N22, N25-N27)."""

from datetime import datetime

import pytest

from narval.core.definitions.action.definition import Output
from narval.core.engines.commands import CancelTimer, SetTimer, Unwatch
from narval.kinds.recipe.engine.changes import DateCome, DateSet
from tests.core.engines.dialogue import Dialogue, Heard, action, recipe, step, transition

SEVEN = '<time hours="7" minutes="0" seconds="0"/>'
EIGHT = '<time hours="8" minutes="0" seconds="0"/>'
NIGHT = "2026-03-01T01:00:00Z"


def plan(*transitions: str, end: str = "z", **attributes: str) -> tuple[Dialogue, int]:
    """A plan at one in the morning of 1 March 2026, its first step `a` under way."""
    text = "".join(transitions)
    names = [name for name in "abcyz" if f'idref="{name}"' in text]
    said = Dialogue(recipe("g.r", *(step(name) for name in names), text, end=end, **attributes))
    said.load(*(action(f"m.{name}") for name in names))
    said.now = moment(NIGHT)
    return said, said.start("g.r")


def dated(id: str, ins: str, outs: str, *conditions: str, times: str = SEVEN, priority: int = 0) -> str:
    return transition(id, ins, outs, *conditions, inside=times, priority=priority)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def dates(said: Dialogue) -> list[str]:
    """The moments that are waited for."""
    found = sorted(wake.at for _, wake in said.wakes.values())
    return [datetime.fromtimestamp(at).astimezone().isoformat() for at in found]


# --- the date ---------------------------------------------------------------------------------------------


def test_N25_the_clock_starts_once_the_in_steps_are_done() -> None:
    said, run = plan(dated("t", "a", "z"))
    assert (said.transitions(run), said.wakes) == ({"t": "wait-step"}, {})
    said.now = moment("2026-03-01T07:30:00Z")
    said.returned("a")
    assert said.transitions(run) == {"t": "wait-time"}
    tomorrow = moment("2026-03-02T07:00:00Z")
    assert said.wishes(SetTimer) == [SetTimer("2.1", tomorrow, calendar=True)]
    assert said.decided[-1] == DateSet("t", tomorrow, "2.1")


def test_N25_a_join_waits_for_the_last_of_its_in_steps() -> None:
    said, _ = plan(transition("s", "a", "b c"), dated("t", "b c", "z"))
    said.returned("a")
    said.returned("b")
    assert not said.wakes
    said.returned("c")
    assert len(said.wakes) == 1


def test_N25_when_the_date_comes_the_transition_fires() -> None:
    said, run = plan(dated("t", "a", "z"))
    said.returned("a")
    said.until("2026-03-01T06:59:59Z")
    assert said.transitions(run) == {"t": "wait-time"}
    said.until("2026-03-01T07:00:00Z")
    assert said.transitions(run) == {"t": "fired"}
    assert said.steps(run) == {"a": "history", "z": "running"}


def test_N25_a_date_within_the_second_it_is_asked_in_is_not_set_again() -> None:
    said, _ = plan(dated("t", "a", "z"))
    said.now = moment("2026-03-01T07:00:00.400Z")
    said.returned("a")
    [wake] = said.wishes(SetTimer)
    assert wake.at == moment("2026-03-02T07:00:00Z")


def test_N25_several_dates_mean_the_earliest() -> None:
    said, _ = plan(dated("t", "a", "z", times=EIGHT + SEVEN))
    said.returned("a")
    [wake] = said.wishes(SetTimer)
    assert wake.at == moment("2026-03-01T07:00:00Z")


def test_N25_the_zone_is_that_of_the_home() -> None:
    said, _ = plan(dated("t", "a", "z"))
    said.zone = "Australia/Lord_Howe"
    said.returned("a")
    [wake] = said.wishes(SetTimer)
    assert wake.at == moment("2026-03-01T07:00:00+11:00") + 86400


def test_N25_the_transition_stays_eligible_while_it_waits_for_its_conditions() -> None:
    said, run = plan(dated("t", "a", "z", "mail"))
    said.arrives("<mail/>")
    said.returned("a")
    said.until("2026-03-01T07:00:00Z")
    assert said.transitions(run) == {"t": "fired"}, "what came before the date counts"

    said, run = plan(dated("t", "a", "z", "mail"))
    said.returned("a")
    said.until("2026-03-01T07:00:00Z")
    assert said.transitions(run) == {"t": "wait-condition"}
    assert DateCome("t") in said.decided
    said.until("2026-03-09T12:00:00Z")
    assert said.wakes == {}, "the date has come, and comes no second time"
    said.arrives("<mail/>")
    assert said.transitions(run) == {"t": "fired"}


def test_N24_an_element_before_the_date_wakes_nobody() -> None:
    said, run = plan(dated("t", "a", "z", "mail"))
    said.returned("a")
    said.arrives("<mail/>")
    assert (said.heard, said.transitions(run)) == ([], {"t": "wait-time"})


def test_N25_a_date_gone_for_ever_leaves_the_plan_stuck_and_it_says_why() -> None:
    said, run = plan(dated("t", "a", "z", times='<time years="2020"/>'))
    said.returned("a")
    assert (said.state(run), said.transitions(run)) == ("failed", {"t": "fail"})
    assert said.steps(run) == {"a": "done", "z": "impossible"}
    assert "none of its dates ever comes again" in said.errors()[0].text


SHAPES = {
    "alone": (dated("t", "a", "z"),),
    "to several": (dated("t", "a", "b z"),),
    "from several": (transition("s", "a", "b c"), dated("t", "b c", "z")),
    "after a choice": (dated("s", "a", "b"), dated("r", "a", "c", "never"), dated("t", "b", "z")),
    "rivals": (dated("s", "a", "y"), dated("t", "a", "z", priority=1)),
    "one rival": (dated("t", "a b", "z"), transition("r", "b", "y", "never"), transition("s", "a", "b")),
    "a condition": (dated("t", "a", "z", "mail"),),
    "another date": (dated("t", "a", "z", times=SEVEN + EIGHT),),
    "an appointment": (dated("t", "a", "z", times=SEVEN + '<time after="3d"/>'),),
    "an error": (transition("s", "a", "y"), dated("t", "a!", "z")),
}
"""The ways in which transitions may wait for dates, by what else they wait for."""


@pytest.mark.parametrize("restart", ["no", "yes", "parallel"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given", ["<mail/>", "<error/>"])
def test_N25_what_waits_for_dates_alone_goes_on_as_if_all_had_been_looked_at(
    shape: str, restart: str, given: str
) -> None:
    assert whole_plan(shape, restart, given) == whole_plan(shape, restart, given, short=False)


def whole_plan(shape: str, restart: str, given: str, *, short: bool = True) -> list[Heard]:
    """All that a plan decides whose first step gives an element, by the short way or without it."""
    said, run = plan(*SHAPES[shape], restart=restart)
    said.load(action("m.a", (), [Output("any", "*", list=True, optional=True)]))
    for each in () if short else said.definitions[run].transitions.values():
        each.dated = False
    decided: list[Heard] = []
    said.returned("a", given)
    for _ in range(6):
        decided += said.heard
        if calls := [call for of, call in said.calls.values() if of == run]:
            said.answer(calls[0])
        elif said.wakes:
            said.until_woken()
    return decided


# --- choice -----------------------------------------------------------------------------------------------


def test_N22_of_a_date_and_an_element_the_first_to_come_is_taken_and_the_other_withdrawn() -> None:
    said, run = plan(dated("late", "a", "b"), transition("mail", "a", "z", "mail"), transition("u", "b", "z"))
    said.returned("a")
    assert said.transitions(run)["late"] == "wait-time"
    said.arrives("<mail/>")
    assert said.transitions(run) == {"late": "impossible", "mail": "fired", "u": "impossible"}
    assert [type(command) for command in said.wished if isinstance(command, CancelTimer | Unwatch)] == [
        Unwatch,
        CancelTimer,
    ]
    assert said.wakes == {}

    said, run = plan(dated("late", "a", "b"), transition("mail", "a", "z", "mail"), transition("u", "b", "z"))
    said.returned("a")
    said.until("2026-03-01T07:00:00Z")
    assert said.transitions(run) == {"late": "fired", "mail": "impossible", "u": "wait-step"}
    assert said.watches == {}


def test_N22_what_may_fire_at_once_does_though_a_date_has_the_higher_priority() -> None:
    said, run = plan(dated("late", "a", "b", priority=9), transition("now", "a", "z"))
    said.returned("a")
    assert said.transitions(run) == {"late": "impossible", "now": "fired"}
    assert said.wishes(SetTimer) == [], "no date is set that would be withdrawn at once"


def test_N22_when_a_date_comes_a_rival_of_higher_priority_is_tried_first() -> None:
    said, run = plan(
        dated("seven", "a", "z"), dated("also", "a", "b", priority=1), transition("u", "b", "z", priority=1)
    )
    said.returned("a")
    said.until("2026-03-01T07:00:00Z")
    assert said.transitions(run) == {"seven": "impossible", "also": "fired", "u": "wait-step"}
    assert said.wakes == {}


def test_N22_priority_decides_of_two_with_one_date_though_that_of_the_higher_was_set_later() -> None:
    said, run = plan(
        transition("s", "a", "b c"), dated("low", "b", "z"), dated("high", "b c", "y", priority=1),
        transition("u", "y", "z"),
    )  # fmt: skip
    said.returned("a")
    said.returned("b")
    assert said.transitions(run)["low"] == "wait-time"
    said.now = moment("2026-03-01T06:00:00Z")
    said.returned("c")
    said.until("2026-03-01T07:00:00Z")
    assert (said.transitions(run)["low"], said.transitions(run)["high"]) == ("impossible", "fired")
    assert said.wakes == {}


def test_N22_two_dates_of_one_choice_the_earlier_is_taken() -> None:
    said, run = plan(
        dated("eight", "a", "b", times=EIGHT, priority=9), dated("seven", "a", "z"), transition("u", "b", "z")
    )
    said.returned("a")
    assert len(said.wakes) == 2
    said.until("2026-03-01T07:00:00Z")
    assert said.transitions(run) == {"eight": "impossible", "seven": "fired", "u": "impossible"}
    assert said.wakes == {}


def test_N22_a_date_that_lacks_its_element_leaves_the_choice_open() -> None:
    said, run = plan(
        dated("seven", "a", "b", "mail"), dated("eight", "a", "z", times=EIGHT), transition("u", "b", "z")
    )
    said.returned("a")
    said.until("2026-03-01T07:30:00Z")
    assert said.transitions(run)["seven"] == "wait-condition"
    said.until("2026-03-01T08:00:00Z")
    assert said.transitions(run) == {"seven": "impossible", "eight": "fired", "u": "impossible"}


# --- errors, and the end ----------------------------------------------------------------------------------


def test_N26_an_error_may_be_taken_up_at_a_date() -> None:
    said, run = plan(transition("t", "a", "z"), dated("later", "a!", "b"), transition("u", "b", "z"))
    said.erred("a")
    assert (said.state(run), said.transitions(run)["later"]) == ("running", "wait-time")
    said.until("2026-03-01T07:00:00Z")
    assert said.transitions(run)["later"] == "fired"
    assert said.steps(run) == {"a": "history", "b": "running", "z": "todo"}


def test_N26_an_error_whose_conditions_do_not_hold_at_its_date_fails_the_plan() -> None:
    said, run = plan(
        transition("t", "a", "z"), dated("later", "a!", "b", "remedy"), transition("u", "b", "z")
    )
    said.erred("a")
    said.until("2026-03-01T07:00:00Z")
    assert (said.state(run), said.transitions(run)["later"]) == ("failed", "fail")


def test_N26_an_error_link_that_holds_at_once_goes_before_one_with_a_date() -> None:
    said, run = plan(
        transition("t", "a", "z"), dated("later", "a!", "b"), transition("now", "a!", "c"),
        transition("u", "b", "z"), transition("v", "c", "z"),
    )  # fmt: skip
    said.erred("a")
    assert said.transitions(run)["now"] == "fired"
    assert said.transitions(run)["later"] == "impossible"


def test_N27_a_plan_that_is_over_waits_for_no_date() -> None:
    said, run = plan(transition("s", "a", "b z"), dated("t", "b", "c"))
    said.returned("a")
    said.returned("b")
    assert len(said.wakes) == 1
    said.returned("z")
    assert (said.state(run), said.wakes) == ("done", {})

    said, run = plan(dated("t", "a", "z"))
    said.returned("a")
    said.cancel(run)
    assert (said.state(run), said.wakes) == ("cancelled", {})


# --- missed dates, and a clock that is set ----------------------------------------------------------------


def missed(times: str, *, date: str, since: str, told: str) -> tuple[Dialogue, int]:
    """A plan that waits for `date`, and is told of it late: somebody is at work again since `since`."""
    said, run = plan(dated("t", "a", "z", times=times))
    said.returned("a")
    [wake] = said.wishes(SetTimer)
    assert wake.at == moment(date)
    said.up_since, said.now = moment(since), moment(told)
    said.wakes_up(wake.wake)
    return said, run


SKIPPED = '<time hours="7" minutes="0" seconds="0" missed="skip"/>'


def test_N25_a_missed_date_fires_once_at_start() -> None:
    said, run = missed(
        SEVEN, date="2026-03-01T07:00:00Z", since="2026-03-04T12:00:00Z", told="2026-03-04T12:00:01Z"
    )
    assert (said.transitions(run), said.wakes) == ({"t": "fired"}, {})


def test_N25_a_missed_date_may_be_dropped_and_the_next_is_set() -> None:
    said, run = missed(
        SKIPPED, date="2026-03-01T07:00:00Z", since="2026-03-04T12:00:00Z", told="2026-03-04T12:00:01Z"
    )
    assert said.transitions(run) == {"t": "wait-time"}
    assert [wake.at for wake in said.wishes(SetTimer)] == [moment("2026-03-05T07:00:00Z")]
    said.until("2026-03-05T07:00:00Z")
    assert said.transitions(run) == {"t": "fired"}


def test_N25_a_date_that_is_only_told_late_is_not_missed() -> None:
    said, run = missed(SKIPPED, date="2026-03-01T07:00:00Z", since=NIGHT, told="2026-03-01T07:20:00Z")
    assert said.transitions(run) == {"t": "fired"}


def test_N25_of_several_dates_one_that_may_be_dropped_does_not_drop_the_others() -> None:
    noon = '<time hours="12" minutes="0" seconds="0"/>'
    said, run = missed(
        SKIPPED + noon, date="2026-03-01T07:00:00Z", since="2026-03-01T11:00:00Z", told="2026-03-01T11:00:01Z"
    )
    assert said.transitions(run) == {"t": "wait-time"}, "noon is yet to come"
    said, run = missed(
        SKIPPED + noon, date="2026-03-01T07:00:00Z", since="2026-03-01T13:00:00Z", told="2026-03-01T13:00:01Z"
    )
    assert said.transitions(run) == {"t": "fired"}, "noon was missed, and is made up for"


def test_N25_a_date_dropped_for_one_that_has_just_come_is_not_late() -> None:
    said, run = missed(
        SKIPPED,
        date="2026-03-01T07:00:00Z",
        since="2026-03-02T06:59:59.500Z",
        told="2026-03-02T07:00:00.200Z",
    )
    assert said.transitions(run) == {"t": "fired"}


def test_N25_a_dropped_date_that_was_the_last_leaves_the_plan_stuck() -> None:
    said, run = missed(
        '<time years="2026" monthdays="1" months="3" hours="7" minutes="0" seconds="0" missed="skip"/>',
        date="2026-03-01T07:00:00Z", since="2026-03-04T12:00:00Z", told="2026-03-04T12:00:01Z",
    )  # fmt: skip
    assert (said.state(run), said.transitions(run)) == ("failed", {"t": "fail"})


def test_N25_told_early_a_plan_works_its_date_out_anew() -> None:
    said, run = plan(dated("t", "a", "z"))
    said.now = moment("2026-03-01T12:00:00Z")
    said.returned("a")
    [wake] = said.wishes(SetTimer)
    assert wake.at == moment("2026-03-02T07:00:00Z")
    said.now = moment("2026-02-20T12:00:00Z")
    said.wakes_up(wake.wake)
    assert said.transitions(run) == {"t": "wait-time"}
    assert [timer.at for timer in said.wishes(SetTimer)] == [moment("2026-02-21T07:00:00Z")]


def test_N25_a_moment_of_nobody_changes_nothing() -> None:
    said, run = plan(dated("t", "a", "z"))
    said.returned("a")
    said.in_force[run].wakes["other"] = SetTimer("other", said.now)
    said.wakes_up("other")
    assert (said.decided, said.wished) == ([], [])


# --- what is told of it -----------------------------------------------------------------------------------


def test_N25_a_plan_says_what_date_it_waits_for() -> None:
    said, run = plan(dated("t", "a", "z", "mail"))
    said.returned("a")
    engine, definition, state = said.engines[run], said.definitions[run], said.states[run]
    [wait] = engine.waiting_for(definition, state, {})
    assert (wait.id, wait.what, wait.until) == ("t", "time", moment("2026-03-01T07:00:00Z"))
    assert "its date has not come" in engine.explain(definition, state, "t")
    [judged] = engine.diagnose(definition, state, "t", said.element, said.definition)
    assert (judged.what, judged.until, len(judged.conditions)) == ("time", wait.until, 1)
    assert 'state="wait-time"' in said.memory.element(run).xml.decode()
