"""Conditions that must last (`for`, N38): what counts, from when, and what ends the count."""

from narval.core.definitions.prototype import Input, Output
from narval.core.engines.commands import CancelTimer, SetTimer, Watch
from narval.kinds.recipe.engine.changes import DurationEnded, DurationStarted
from narval.kinds.recipe.engine.state import Satisfied
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

OPEN = "order[@state='open'] for 10m"


def plan(*transitions: str, **attributes: str) -> tuple[Dialogue, int]:
    """A plan whose first step `a` is under way; `serve` is a recipe whose step `s` replaces an order."""
    text = "".join(transitions)
    names = [name for name in "abcz" if f'idref="{name}"' in text]
    said = Dialogue(
        recipe("g.r", *(step(name) for name in names), text, **attributes),
        recipe("g.serve", step("s"), start="s", end="s"),
    )
    said.load(*(action(f"m.{name}") for name in names))
    said.load(
        action("m.s", [Input("old", ("order",), outdates=True)], [Output("new", ("order",), optional=True)])
    )
    return said, said.start("g.r")


def waiting(*conditions: str, inside: str = "", **attributes: str) -> tuple[Dialogue, int]:
    """A plan whose one transition waits for these conditions."""
    said, run = plan(transition("t", "a", "z", *conditions, inside=inside), **attributes)
    said.returned("a")
    return said, run


def replace(said: Dialogue, *xml: str) -> int:
    """A plan replaces the oldest order by others; its run."""
    run = said.start("g.serve")
    said.returned("s", *xml, run=run)
    return run


# --- from when it is counted ------------------------------------------------------------------------------


def test_N38_a_condition_holds_once_an_element_has_fitted_for_so_long() -> None:
    said, run = waiting(OPEN)
    eid = said.arrives("<order state='open'/>")
    assert said.wishes(SetTimer) == [SetTimer("3.1", said.now + 600, calendar=True)]
    assert said.decided == [DurationStarted("t", (Satisfied(1, eid, said.now),), said.now + 600, "3.1")]
    said.passes(599)
    assert said.transitions(run) == {"t": "wait-condition"}
    said.passes(1)
    assert said.transitions(run) == {"t": "fired"}
    assert said.wakes == {}


def test_N38_the_time_is_counted_from_when_the_element_was_added() -> None:
    said, run = plan(transition("t", "a", "z", OPEN))
    said.arrives("<order state='open'/>")
    said.passes(400)
    said.returned("a")
    assert said.until_woken() == 200
    assert said.transitions(run) == {"t": "fired"}

    said, run = plan(transition("t", "a", "z", OPEN))
    said.arrives("<order state='open'/>")
    said.passes(600)
    said.returned("a")
    assert said.transitions(run) == {"t": "fired"}, "it had lasted before the plan came to ask"


def test_N38_without_an_element_no_timer_is_set() -> None:
    said, _ = waiting(OPEN)
    assert said.wakes == {}
    [watch] = said.wishes(Watch)
    assert watch.or_outdated


# --- what ends the count, and what does not ---------------------------------------------------------------


def test_N38_a_new_version_that_fits_does_not_begin_the_time_anew() -> None:
    said, run = waiting(OPEN)
    began = said.now
    said.arrives("<order state='open'/>")
    said.passes(300)
    replace(said, "<order state='open' note='called'/>")
    said.passes(200)
    replace(said, "<order state='open' note='called twice'/>")
    [moment] = [timer.at for _, timer in said.wakes.values()]
    assert moment == began + 600
    said.passes(100)
    assert said.transitions(run) == {"t": "fired"}
    [took] = said.states[run].transitions["t"].took
    assert "called twice" in said.xml(took)


def test_N38_a_version_that_does_not_fit_ends_the_count_and_one_that_fits_again_begins_it() -> None:
    said, run = waiting(OPEN)
    said.arrives("<order state='open'/>")
    said.passes(300)
    replace(said, "<order state='held'/>")
    assert said.wakes == {}
    assert said.wishes(CancelTimer)
    assert DurationEnded("t") in said.decided
    said.passes(100)
    replace(said, "<order state='open'/>")
    said.passes(599)
    assert said.transitions(run) == {"t": "wait-condition"}
    said.passes(1)
    assert said.transitions(run) == {"t": "fired"}


def test_N38_an_element_that_is_replaced_by_nothing_ends_the_count() -> None:
    said, run = waiting(OPEN)
    said.arrives("<order state='open'/>")
    said.passes(300)
    replace(said)
    assert said.wakes == {}
    said.arrives("<order state='open'/>")
    assert said.until_woken() == 600
    assert said.transitions(run) == {"t": "fired"}


def test_N38_an_element_that_was_forgotten_does_not_last() -> None:
    said, run = waiting(OPEN)
    said.forgets(said.arrives("<order state='open'/>"))
    said.passes(600)
    assert said.transitions(run) == {"t": "wait-condition"}
    assert said.wakes == {}


def test_N38_what_was_replaced_may_be_forgotten_meanwhile() -> None:
    said, run = waiting(OPEN)
    first = said.arrives("<order state='open'/>")
    said.passes(500)
    replace(said, "<order state='open' note='called'/>")
    said.forgets(first)
    said.passes(100)
    assert said.transitions(run) == {"t": "fired"}


def test_N38_an_order_that_a_call_is_replacing_is_taken_once_the_call_is_back() -> None:
    said, run = waiting(OPEN)
    said.arrives("<order state='open'/>")
    said.passes(590)
    serving = said.start("g.serve")
    said.passes(100)
    assert said.transitions(run) == {"t": "wait-condition"}, "it is reserved"
    said.erred("s", run=serving)
    assert said.transitions(run) == {"t": "fired"}, "the call failed: it has lasted all along"

    said, run = waiting(OPEN)
    said.arrives("<order state='open'/>")
    said.passes(590)
    serving = said.start("g.serve")
    said.passes(100)
    said.returned("s", "<order state='open' note='called'/>", run=serving)
    assert said.transitions(run) == {"t": "fired"}


# --- which element ----------------------------------------------------------------------------------------


def test_N38_of_several_elements_the_first_to_have_lasted_is_taken() -> None:
    said, run = waiting(OPEN)
    first = said.arrives("<order state='open' id='1'/>")
    said.passes(100)
    said.arrives("<order state='open' id='2'/>")
    said.passes(500)
    assert said.states[run].transitions["t"].took == (first,)


def test_N38_one_that_carries_on_an_older_one_is_before_an_element_with_a_lower_number() -> None:
    said, run = plan(transition("t", "a", "z", OPEN))
    said.arrives("<order state='open' id='1'/>")
    said.passes(100)
    said.arrives("<order state='open' id='2'/>")
    said.passes(100)
    replace(said, "<order state='open' id='1' note='called'/>")
    said.passes(3600)
    said.returned("a")
    [took] = said.states[run].transitions["t"].took
    assert "called" in said.xml(took)


def test_N38_when_the_first_goes_the_next_counts() -> None:
    said, _ = waiting(OPEN)
    first = said.arrives("<order state='open'/>")
    said.passes(100)
    second = said.arrives("<order state='open'/>")
    assert said.decided == [], "nothing changes by it"
    said.outdated(first)
    assert [satisfied.eid for satisfied in said.states[1].transitions["t"].satisfied] == [second]
    assert said.until_woken() == 600


def test_N38_what_a_condition_has_used_counts_for_it_no_more() -> None:
    remind = transition("t", "a", "z", f"use {OPEN}")
    said, run = plan(remind)
    said.load(
        action("m.z", [Input("old", ("order",), outdates=True)], [Output("new", ("order",))]),
    )
    said.returned("a")
    said.arrives("<order state='open'/>")
    said.passes(600)
    said.returned("z", "<order state='open' reminded='1'/>", run=run)
    again = said.start("g.r")
    said.returned("a", run=again)
    assert said.until_woken() == 600, "the reminded order has its ten minutes from its reminder"
    assert said.transitions(again) == {"t": "fired"}


# --- several conditions, rivals, dates, variables ---------------------------------------------------------


def test_N38_all_conditions_hold_at_once() -> None:
    said, run = waiting(OPEN, "stock for 1h", "shift")
    said.arrives("<order state='open'/>")
    said.arrives("<stock/>")
    assert said.wakes == {}, "time alone would change nothing: there is no shift"
    said.passes(1800)
    said.arrives("<shift/>")
    assert said.until_woken() == 1800
    assert said.transitions(run) == {"t": "fired"}
    assert len(said.states[run].transitions["t"].took) == 3


def test_N38_two_conditions_want_two_elements_that_have_lasted() -> None:
    said, run = waiting(OPEN, OPEN)
    said.arrives("<order state='open'/>")
    assert said.wakes == {}
    said.passes(700)
    said.arrives("<order state='open'/>")
    assert said.until_woken() == 600
    assert said.transitions(run) == {"t": "fired"}


def test_N38_a_rival_that_holds_at_once_is_not_kept_waiting() -> None:
    late, paid = transition("late", "a", "b", OPEN, priority=9), transition("paid", "a", "z", "payment")
    said, run = plan(late, paid, transition("u", "b", "z"))
    said.returned("a")
    said.arrives("<order state='open'/>")
    said.arrives("<payment/>")
    assert said.transitions(run) == {"late": "impossible", "paid": "fired", "u": "impossible"}
    assert (said.wakes, said.watches) == ({}, {})

    said, run = plan(late, paid, transition("u", "b", "z"))
    said.returned("a")
    said.arrives("<order state='open'/>")
    said.passes(600)
    assert said.transitions(run)["late"] == "fired"
    assert said.watches == {}


def test_N38_a_date_and_a_condition_that_lasts() -> None:
    said, run = waiting(OPEN, inside="<time hours='1' minutes='0' seconds='0'/>")
    said.arrives("<order state='open'/>")
    said.until("1970-01-01T01:00:00Z")
    assert said.transitions(run) == {"t": "fired"}, "it had lasted when the date came"

    said, run = waiting(OPEN, inside="<time hours='1' minutes='0' seconds='0'/>")
    said.until("1970-01-01T00:55:00Z")
    said.arrives("<order state='open'/>")
    said.until("1970-01-01T01:04:59Z")
    assert said.transitions(run) == {"t": "wait-condition"}
    said.until("1970-01-01T01:05:00Z")
    assert said.transitions(run) == {"t": "fired"}


def test_N38_a_variable_that_gets_its_elements_is_judged_anew() -> None:
    text = transition("t", "a", "z", "order[@id = $b/@id] for 10m")
    fork = transition("f", "c", "a b")
    said = Dialogue(recipe("g.r", *map(step, "abcz"), fork, text, start="c"))
    said.load(*(action(f"m.{name}") for name in "acz"), action("m.b", [], [Output("id", ("which",))]))
    run = said.start("g.r")
    said.returned("c")
    said.arrives("<order id='7'/>")
    said.returned("a")
    assert said.wakes == {}
    said.passes(100)
    said.returned("b", "<which id='7'/>")
    assert said.until_woken() == 500
    assert said.transitions(run)["t"] == "fired"


# --- moments ----------------------------------------------------------------------------------------------


def test_N38_a_timer_that_is_told_early_is_set_anew() -> None:
    said, run = waiting(OPEN)
    said.arrives("<order state='open'/>")
    said.now -= 50
    [timer] = said.wakes
    said.wakes_up(timer)
    assert said.transitions(run) == {"t": "wait-condition"}
    assert said.until_woken() == 650, "the clock was set back: the moment is the same"
    assert said.transitions(run) == {"t": "fired"}


def test_N38_a_plan_that_ends_takes_its_timer_back() -> None:
    said, run = waiting(OPEN)
    said.arrives("<order state='open'/>")
    said.cancel(run)
    assert (said.state(run), said.wakes, said.watches) == ("cancelled", {}, {})
