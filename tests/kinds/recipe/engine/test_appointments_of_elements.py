"""Transitions that wait for a date that an element holds: moved with it, given up with it (N45)."""

from datetime import datetime

from narval.core.definitions.prototype import Input, Output
from narval.core.engines.commands import AddToContext, CancelTimer, SetTimer, Unwatch, Watch
from narval.kinds.recipe.engine.changes import DateCome, DateGivenUp, DateSet
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

NINE = "2026-11-25T09:00:00Z"
BEFORE = '<time at="$a/@start" before="15m"/>'


def plan(*transitions: str, **attributes: str) -> tuple[Dialogue, int]:
    """A plan at nine, its first step `a` under way, which gives meetings; `move` is a recipe whose step `m`
    replaces one.
    """
    text = "".join(transitions)
    names = [name for name in "abcz" if f'idref="{name}"' in text]
    said = Dialogue(
        recipe("g.r", *(step(name) for name in names), text, **attributes),
        recipe("g.move", step("m"), start="m", end="m"),
    )
    many = [Output("meeting", ("meeting",), list=True, optional=True)]
    said.load(*(action(f"m.{name}", [], many if name == "a" else []) for name in names))
    said.load(
        action(
            "m.m",
            [Input("old", ("meeting",), outdates=True)],
            [*many, Output("note", ("note",), optional=True)],
        )
    )
    said.now = moment(NINE)
    return said, said.start("g.r")


def waiting(times: str = BEFORE, *conditions: str, start: str = "2026-11-25T10:00Z") -> tuple[Dialogue, int]:
    """A plan whose one transition waits for a meeting."""
    said, run = plan(transition("t", "a", "z", *conditions, inside=times))
    said.returned("a", f"<meeting start='{start}'/>")
    return said, run


def replace(said: Dialogue, *xml: str) -> int:
    """A plan replaces the oldest meeting by others; its run."""
    run = said.start("g.move")
    said.returned("m", *xml, run=run)
    return run


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def wakes(said: Dialogue) -> list[str]:
    found = sorted(timer.at for _, timer in said.wakes.values())
    return [datetime.fromtimestamp(at).astimezone().isoformat()[11:16] for at in found]


# --- the date ------------------------------------------------------------------------------------------


def test_N45_it_comes_so_long_before_the_date_of_an_element() -> None:
    said, run = waiting()
    (meeting,) = said.named("meeting")
    at = moment("2026-11-25T09:45Z")
    assert said.decided[-1] == DateSet("t", at, "2.1", said.now, (("a", (meeting.eid,)),), "2.2")
    assert said.wishes(SetTimer) == [SetTimer("2.1", at, calendar=True)]
    assert said.wishes(Watch) == [Watch("2.2", (), (), elements=(meeting.eid,))]
    said.until("2026-11-25T09:44:59Z")
    assert said.transitions(run) == {"t": "wait-time"}
    said.passes(1)
    assert (said.transitions(run), said.watches) == ({"t": "fired"}, {})


def test_N45_after_it_or_at_it_and_by_the_calendar() -> None:
    for times, expected in (
        ('<time at="$a/@start" after="1h"/>', "2026-11-25T11:00Z"),
        ('<time at="$a/@start"/>', "2026-11-25T10:00Z"),
        ('<time at="concat($a/@start, \'\')" after="3d" weekdays="0-4"/>', "2026-11-30T10:00Z"),
    ):
        said, _ = waiting(times)
        assert [timer.at for _, timer in said.wakes.values()] == [moment(expected)], times
    said, _ = waiting('<time at="$a/@start" before="1d" weekdays="0-4"/>', start="2026-11-30T10:00Z")
    assert [timer.at for _, timer in said.wakes.values()] == [moment("2026-11-27T10:00Z")]


def test_N45_dates_are_local_have_an_offset_or_are_midnight() -> None:
    for start, expected in (
        ("2026-11-25T12:00", "2026-11-25T11:00Z"),
        ("2026-11-25T12:00-05:00", "2026-11-25T17:00Z"),
        (" 2026-11-26 ", "2026-11-25T23:00Z"),
        ("2027-03-28T02:30", "2027-03-28T01:00Z"),
    ):
        said, _ = plan(transition("t", "a", "z", inside='<time at="$a/@start"/>'))
        said.zone = "Europe/Paris"
        said.returned("a", f"<meeting start='{start}'/>")
        assert [timer.at for _, timer in said.wakes.values()] == [moment(expected)], start


def test_N45_a_moment_gone_by_when_it_is_set_comes_at_once_or_is_dropped() -> None:
    said, run = waiting(start="2026-11-25T09:10Z")
    assert (said.transitions(run), said.wakes, DateCome("t") in said.decided) == ({"t": "fired"}, {}, True)
    said, run = waiting('<time at="$a/@start" before="15m" missed="skip"/>', start="2026-11-25T09:10Z")
    assert (said.transitions(run), said.state(run)) == ({"t": "impossible"}, "done")
    assert DateGivenUp("t") in said.decided


def test_N45_one_that_comes_at_once_goes_before_a_rival_of_less_priority() -> None:
    said, run = plan(
        transition("mail", "a", "b", "mail"), transition("t", "a", "z", inside=BEFORE, priority=1)
    )
    said.add("<mail/>")
    said.returned("a", "<meeting start='2026-11-25T09:10Z'/>")
    assert said.transitions(run) == {"mail": "impossible", "t": "fired"}


def test_N45_gone_by_it_waits_for_its_conditions_alone() -> None:
    said, run = waiting(BEFORE, "mail", start="2026-11-25T09:10Z")
    assert said.transitions(run) == {"t": "wait-condition"}
    replace(said, "<meeting start='2026-11-25T18:00Z'/>")
    said.arrives("<mail/>")
    assert said.transitions(run) == {"t": "fired"}


# --- an element that is replaced --------------------------------------------------------------------------


def test_N45_it_is_set_anew_when_the_element_is_replaced() -> None:
    said, run = waiting()
    replace(said, "<note/>", "<meeting start='2026-11-25T15:00Z'/>")
    _, new = said.named("meeting")
    assert wakes(said) == ["14:45"]
    assert [watch.elements for _, watch in said.watches.values()] == [(new.eid,)]
    (followed,) = [heard for heard in said.heard if heard.run == run]
    assert [type(command) for command in followed.commands] == [
        CancelTimer,
        Unwatch,
        AddToContext,
        Watch,
        SetTimer,
    ]
    assert new.eid in said.memory.contexts.of(run), "it is near to what follows"
    replace(said, "<meeting start='2026-11-25T16:00Z'/>")
    assert wakes(said) == ["15:45"]
    said.until_woken()
    assert said.transitions(run) == {"t": "fired"}


def test_N45_moved_to_the_past_it_comes_at_once() -> None:
    said, run = waiting()
    replace(said, "<meeting start='2026-11-25T09:10Z'/>")
    assert (said.transitions(run), said.wakes, said.watches) == ({"t": "fired"}, {}, {})


def test_N45_an_element_that_was_replaced_before_stands_for_its_successor() -> None:
    said, run = plan(transition("s", "a", "b"), transition("t", "b", "z", inside=BEFORE))
    said.returned("a", "<meeting start='2026-11-25T10:00Z'/>")
    replace(said, "<meeting start='2026-11-25T15:00Z'/>")
    replace(said, "<meeting start='2026-11-25T16:00Z'/>")
    said.returned("b", run=run)
    assert wakes(said) == ["15:45"]


def test_N45_of_an_element_and_a_date_the_earlier_counts() -> None:
    said, _ = waiting(BEFORE + '<time hours="12" minutes="0" seconds="0"/>')
    assert wakes(said) == ["09:45"]
    replace(said, "<meeting start='2026-11-25T15:00Z'/>")
    assert wakes(said) == ["12:00"]


# --- an element that counts no more -----------------------------------------------------------------------


def test_N45_it_is_given_up_with_its_element_and_the_plan_is_done() -> None:
    said, run = waiting()
    (meeting,) = said.named("meeting")
    said.outdated(meeting.eid)
    assert DateGivenUp("t", (meeting.eid,)) in said.decided
    assert (said.transitions(run), said.steps(run)["z"], said.state(run)) == (
        {"t": "impossible"},
        "impossible",
        "done",
    )
    assert (said.errors(), said.wakes, said.watches) == ([], {}, {})


def test_N45_replaced_by_an_element_of_another_name_it_is_given_up() -> None:
    said, run = waiting()
    replace(said, "<note/>")
    assert said.state(run) == "done"


def test_N45_given_up_before_it_was_set() -> None:
    said, run = plan(transition("s", "a", "b"), transition("t", "b", "z", inside=BEFORE))
    said.returned("a", "<meeting start='2026-11-25T10:00Z'/>")
    (meeting,) = said.named("meeting")
    said.outdated(meeting.eid)
    said.returned("b", run=run)
    assert (said.transitions(run)["t"], said.state(run)) == ("impossible", "done")


def test_N45_another_date_of_the_transition_remains() -> None:
    said, run = waiting(BEFORE + '<time after="3d"/>')
    (meeting,) = said.named("meeting")
    said.outdated(meeting.eid)
    assert (said.transitions(run), wakes(said), said.watches) == ({"t": "wait-time"}, ["09:00"], {})
    said.until_woken()
    assert said.transitions(run) == {"t": "fired"}


def test_N45_its_rivals_and_other_branches_go_on() -> None:
    said, run = plan(
        transition("mail", "a", "b", "mail"),
        transition("t", "a", "c", inside=BEFORE),
        transition("e", "b", "z"),
    )
    said.returned("a", "<meeting start='2026-11-25T10:00Z'/>")
    (meeting,) = said.named("meeting")
    said.outdated(meeting.eid)
    assert (said.state(run), said.steps(run)["c"]) == ("running", "impossible")
    said.arrives("<mail/>")
    said.returned("b")
    said.returned("z")
    assert said.state(run) == "done"


def test_N45_of_several_elements_those_that_are_left_count() -> None:
    said, run = plan(transition("t", "a", "z", inside=BEFORE))
    said.returned("a", "<meeting start='2026-11-25T10:00Z'/>", "<meeting start='2026-11-25T12:00Z'/>")
    first, _ = said.named("meeting")
    said.outdated(first.eid)
    assert (wakes(said), said.transitions(run)) == (["11:45"], {"t": "wait-time"})


# --- what is no date --------------------------------------------------------------------------------------


def test_N45_a_text_that_is_no_date_fails_the_plan_and_is_named() -> None:
    said, run = waiting(start="soon")
    (meeting,) = said.named("meeting")
    error = said.error()
    assert (said.state(run), error["type"]) == ("failed", "no-date")
    assert error["message"] == (
        "the date of transition t cannot be computed: expected $a/@start to give a date and time such as "
        "2026-11-25T10:00+01:00 or 2026-11-25T10:00, or a date, got 'soon'; "
        f"$a is element {meeting.eid}"
    )


def test_N45_without_an_element_there_is_no_date() -> None:
    said, run = plan(transition("t", "a", "z", inside=BEFORE))
    said.returned("a")
    assert said.error()["message"].endswith("got ''; $a is no element")
    assert said.state(run) == "failed"


def test_N45_a_new_version_without_a_date_fails_the_plan() -> None:
    said, run = waiting()
    replace(said, "<meeting/>")
    assert (said.state(run), said.error()["type"], said.wakes, said.watches) == ("failed", "no-date", {}, {})


def test_N45_an_answer_withdraws_the_wait_and_the_watch() -> None:
    said, run = plan(transition("mail", "a", "b", "mail"), transition("t", "a", "z", inside=BEFORE))
    said.returned("a", "<meeting start='2026-11-25T10:00Z'/>")
    said.arrives("<mail/>")
    assert (said.transitions(run)["t"], said.wakes, said.watches) == ("impossible", {}, {})
    said, run = waiting()
    said.cancel(run)
    assert (said.wakes, said.watches) == ({}, {})


def test_N45_a_plan_that_fails_for_want_of_a_date_waits_for_nothing_else() -> None:
    said, run = plan(
        transition("t", "a", "z", inside=BEFORE),
        transition("mail", "a", "b", "mail"),
        transition("e", "b", "c"),
    )
    said.returned("a", "<meeting start='soon'/>")
    assert (said.state(run), said.wakes, said.watches) == ("failed", {}, {})


def test_N45_a_rival_that_uses_the_element_waits_for_its_new_version() -> None:
    said, run = plan(
        transition("t", "a", "z", inside=BEFORE), transition("off", "a", "b", "off[@of = $a/@start]")
    )
    said.returned("a", "<meeting start='2026-11-25T10:00Z'/>")
    replace(said, "<meeting start='2026-11-25T15:00Z'/>")
    said.arrives("<off of='2026-11-25T10:00Z'/>")
    assert said.transitions(run) == {"t": "wait-time", "off": "wait-condition"}
    said.arrives("<off of='2026-11-25T15:00Z'/>")
    assert said.transitions(run) == {"t": "impossible", "off": "fired"}
