"""Calls that are tried again, and runs that take too long (N29; N18, N19, N26, N36 where they meet it)."""

from __future__ import annotations

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.engines.commands import Call, CancelCall, CancelTimer, Finish, Release, Reserve, SetTimer
from narval.core.engines.dates import LONGEST_BACKOFF, retry_wait
from narval.core.engines.engine import Wait
from narval.core.engines.events import Failure
from narval.core.engines.registry import engine_of
from narval.kinds.recipe.engine.changes import NextTryMade, TriesReset, TryFailed
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

PLAIN = action("m.a", (), [Output("given", "thing", optional=True)])


def once(**attributes: str) -> tuple[Dialogue, int]:
    """A plan of one step under way."""
    said = Dialogue(recipe("g.r", step("a", **attributes), end="a"), PLAIN)
    return said, said.start("g.r")


def waiting_for(said: Dialogue, run: int) -> list[Wait]:
    watches = {watch: command for watch, (of, command) in said.watches.items() if of == run}
    return list(engine_of("recipe").waiting_for(said.definitions[run], said.states[run], watches))


# --- when, and how often ----------------------------------------------------------------------------------


def test_N29_a_call_that_erred_is_made_again_with_the_same_id_after_its_backoff() -> None:
    said, run = once(retries="2", backoff="10")
    first = said.call_of("a")
    said.erred("a", "no line")
    assert said.steps(run) == {"a": "running"}
    assert not said.calls
    assert not said.errors()
    assert 10 <= said.until_woken() <= 15
    again = said.call_of("a")
    assert (again.call, again.attempt) == (first.call, 2)
    said.returned("a", "<thing/>")
    assert said.state(run) == "done"


def test_N29_the_wait_doubles_and_the_last_error_becomes_the_error() -> None:
    said, run = once(retries="3", backoff="4")
    waited = []
    for number in range(3):
        said.erred("a", f"no line, {number}")
        waited.append(said.until_woken())
    assert [4 <= waited[0] <= 6, 8 <= waited[1] <= 12, 16 <= waited[2] <= 24] == [True] * 3
    said.erred("a", "no line at all")
    assert said.state(run) == "failed"
    told = said.named("error")[0]
    assert said.errors()
    assert told.attributes["tries"] == "4"
    assert told.tree().findtext("message") == "no line at all"


def test_N29_without_retries_nothing_is_tried_again_and_no_number_is_told() -> None:
    said, _ = once()
    said.erred("a")
    assert not said.wakes
    assert "tries" not in said.errors()[0].attributes


def test_N29_without_a_backoff_it_is_a_second_and_none_is_at_once() -> None:
    said, _ = once(retries="1")
    said.erred("a")
    assert 1 <= said.until_woken() <= 1.5
    said, _ = once(retries="1", backoff="0")
    said.erred("a")
    assert said.until_woken() == 0


def test_N29_jitter_is_drawn_from_the_event_and_spreads_those_that_failed_together() -> None:
    waited = [retry_wait(100.0, 1, event) for event in range(1, 2001)]
    assert waited == [retry_wait(100.0, 1, event) for event in range(1, 2001)]
    assert all(100 <= seconds <= 150 for seconds in waited)
    tenths = [sum(100 + 5 * n <= seconds < 105 + 5 * n for seconds in waited) for n in range(10)]
    assert min(tenths) > 100, tenths


def test_N29_the_wait_does_not_grow_for_ever() -> None:
    assert retry_wait(1.0, 10_000, 7) <= LONGEST_BACKOFF * 1.5
    assert 7200 <= retry_wait(7200.0, 3, 7) <= 7200 * 1.5


def test_N29_an_action_that_returns_an_error_element_is_tried_again_and_what_else_it_gave_is_dropped() -> (
    None
):
    said, run = once(retries="1")
    said.returned("a", "<thing n='1'/>", "<error type='busy'><message>later</message></error>")
    (erred,) = [change for change in said.decided if isinstance(change, TryFailed)]
    assert (erred.problem.kind, erred.problem.message) == ("busy", "later")
    assert not said.named("thing")
    assert not said.errors()
    said.until_woken()
    said.returned("a", "<thing n='2'/>")
    assert said.state(run) == "done"
    assert [element.attributes["n"] for element in said.named("thing")] == ["2"]


def test_N29_the_last_try_keeps_what_it_gave_beside_its_error() -> None:
    said, run = once(retries="1")
    for _ in range(2):
        said.returned("a", "<thing/>", "<error type='busy'/>")
        if said.wakes:
            said.until_woken()
    assert said.state(run) == "failed"
    assert len(said.named("thing")) == 1


# --- what is not tried again ------------------------------------------------------------------------------


def test_N29_outputs_that_do_not_fit_are_not_tried_again() -> None:
    said, run = once(retries="5")
    said.returned("a", "<other/>")
    assert said.state(run) == "failed"
    assert said.error()["type"] == "bad-output"


def test_N29_a_problem_that_is_final_is_not_tried_again() -> None:
    said, run = once(retries="5")
    said.answer(said.call_of("a"), problem=Failure("gone", "no such mailbox", final=True))
    assert said.state(run) == "failed"


def test_N29_an_input_that_is_missing_is_not_tried_again() -> None:
    said = Dialogue(recipe("g.r", step("a", retries="5"), end="a"), action("m.a", [Input("mail", "email")]))
    assert said.state(said.start("g.r")) == "failed"


def test_N29_a_call_that_was_given_up_is_not_tried_again() -> None:
    said, run = once(retries="5")
    said.answer(said.call_of("a"), abandoned=True)
    assert said.state(run) == "failed"


# --- what it keeps while it waits (N18) -------------------------------------------------------------------


def test_N18_a_retry_keeps_its_assignment_its_marks_and_its_reservations() -> None:
    takes = action("m.a", [Input("mail", "email", use=True), Input("count", "count", outdates=True)])
    said = Dialogue(recipe("g.r", step("a", retries="2"), end="a"), takes)
    mail, count = said.add("<email/>"), said.add("<count/>")
    run = said.start("g.r")
    given = said.call_of("a").inputs
    said.erred("a")
    (wake,) = said.wishes(SetTimer)
    assert set(wake.keeps) == {mail, count}
    assert not said.wishes(Release)
    said.arrives("<email nearer='no'/>")
    assert count in said.memory.reserved
    said.until_woken()
    assert said.call_of("a").inputs == given
    assert not said.wishes(Reserve)
    said.returned("a")
    assert said.state(run) == "done"
    assert count in said.memory.outdated


def test_N18_a_step_elsewhere_waits_while_what_it_needs_is_reserved_by_a_call_that_will_be_tried_again() -> (
    None
):
    takes = action("m.a", [Input("count", "count", outdates=True)])
    said = Dialogue(recipe("g.r", step("a", retries="1"), end="a"), takes)
    said.add("<count/>")
    first = said.start("g.r")
    second = said.start("g.r")
    assert said.steps(second) == {"a": "ready"}
    said.erred("a", run=first)
    assert said.steps(second) == {"a": "ready"}
    said.until_woken()
    said.erred("a", run=first)
    assert said.steps(second) == {"a": "running"}


# --- foreach (N19) ----------------------------------------------------------------------------------------

GREETS = action("m.a", [Input("to", "address")], [Output("mail", "mail")])


def greeting(**attributes: str) -> tuple[Dialogue, int, list[int]]:
    said = Dialogue(recipe("g.r", step("a", foreach="address", **attributes), end="a"), GREETS)
    addresses = [said.add("<address/>") for _ in range(3)]
    return said, said.start("g.r"), addresses


def test_N19_each_call_of_a_foreach_is_tried_again_on_its_own() -> None:
    said, run, (first, second, third) = greeting(retries="1", backoff="5")
    said.erred("a", given=first)
    said.returned("a", "<mail/>", given=second)
    said.returned("a", "<mail/>", given=third)
    assert said.steps(run) == {"a": "running"}
    said.until_woken()
    assert dict(said.call_of("a").inputs)["to"] == (first,)
    said.returned("a", "<mail/>")
    assert said.state(run) == "done"
    assert len(said.named("mail")) == 3


def test_N19_a_call_that_waits_keeps_its_place_under_max_parallel() -> None:
    said, _, (first, second, third) = greeting(retries="1", max_parallel="1")
    said.erred("a", given=first)
    assert not said.calls
    said.until_woken()
    said.returned("a", "<mail/>", given=first)
    said.returned("a", "<mail/>", given=second)
    said.returned("a", "<mail/>", given=third)


def test_N19_a_call_that_spoils_the_step_ends_the_tries_of_the_others() -> None:
    said, run, (first, second, third) = greeting(retries="9")
    said.returned("a", "<other/>", given=first)
    said.erred("a", given=second)
    assert not said.wakes
    said.returned("a", "<mail/>", given=third)
    assert said.state(run) == "failed"


def test_N29_the_calls_that_were_tried_in_vain_are_all_told() -> None:
    said, run, addresses = greeting(retries="1")
    for eid in addresses:
        said.erred("a", given=eid)
    said.passes(10)
    for eid in addresses:
        said.erred("a", given=eid)
    assert said.state(run) == "failed"
    assert [element.attributes.get("tries") for element in said.errors()] == ["2", "2", "2"]


# --- recipes as targets -----------------------------------------------------------------------------------


def nested(**attributes: str) -> tuple[Dialogue, int]:
    said = Dialogue(
        recipe("g.inner", step("a"), end="a"),
        recipe("g.r", step("b", "g.inner", type="recipe", **attributes), start="b", end="b"),
        PLAIN,
    )
    return said, said.start("g.r")


def test_N29_a_recipe_that_failed_is_run_again_as_a_new_run_for_the_same_call() -> None:
    said, run = nested(retries="1")
    call = said.call_of("b")
    first = said.begins("b")
    said.erred("a", run=first)
    said.answers(first)
    assert said.steps(run) == {"b": "running"}
    said.until_woken()
    assert said.call_of("b").call == call.call
    second = said.begins("b")
    assert second != first
    said.returned("a", "<thing/>", run=second)
    said.answers(second)
    assert said.state(run) == "done"


def test_N29_a_run_that_outlives_the_time_limit_of_its_step_is_given_up() -> None:
    said, run = nested(timeout="60")
    inner = said.begins("b")
    said.passes(59)
    assert not said.wishes(CancelCall)
    said.passes(2)
    (abandoned,) = said.wishes(CancelCall)
    said.cancel(inner)
    said.answer(said.call_of("b"), abandoned=True)
    assert abandoned.call == said.errors()[0].attributes["call"]
    assert said.state(run) == "failed"
    assert said.errors()[0].attributes["type"] == "timeout"


def test_N29_a_run_that_is_back_in_time_leaves_no_moment_behind() -> None:
    said, run = nested(timeout="60")
    inner = said.begins("b")
    said.returned("a", run=inner)
    said.answers(inner)
    assert said.state(run) == "done"
    assert len(said.wishes(CancelTimer)) == 1


def test_N29_each_try_of_a_run_has_its_own_time_limit() -> None:
    said, run = nested(timeout="60", retries="1", backoff="5")
    for number in range(2):
        inner = said.begins("b")
        said.passes(61)
        said.cancel(inner)
        said.answer(said.call_of("b"), abandoned=True)
        if not number:
            said.until_woken()
    assert said.state(run) == "failed"
    assert said.errors()[0].attributes["tries"] == "2"


def test_N29_a_run_that_ended_just_as_its_time_ran_out_counts_as_given_up() -> None:
    said, run = nested(timeout="60")
    inner = said.begins("b")
    said.passes(61)
    said.returned("a", "<thing/>", run=inner)
    said.answer(said.call_of("b"), abandoned=True, eids=said.finished[inner].eids)
    assert said.state(run) == "failed"


def test_N29_a_run_that_someone_cancelled_is_not_run_again() -> None:
    said, run = nested(retries="3")
    inner = said.begins("b")
    said.cancel(inner)
    said.answer(said.call_of("b"), problem=Failure("run-cancelled", "it was cancelled", final=True))
    assert said.state(run) == "failed"


# --- sources (N36) ----------------------------------------------------------------------------------------

WATCHES = action("m.a", (), [Output("thing", "thing", list=True)], source=True)


def source(*parts: str, **attributes: str) -> tuple[Dialogue, int]:
    said = Dialogue(
        recipe("g.r", step("s"), step("a", **attributes), step("z"), *parts, start="s"),
        WATCHES,
        action("m.s"),
        action("m.z"),
    )
    run = said.start("g.r")
    said.returned("s")
    return said, run


BOTH = (transition("watch", "s", "a z"),)


def test_N36_a_source_that_breaks_is_begun_again_and_its_tries_count_from_what_it_last_gave() -> None:
    said, _ = source(*BOTH, retries="2", backoff="8")
    for _ in range(2):
        said.erred("a", "the line went dead")
        said.until_woken()
    assert said.call_of("a").attempt == 3
    said.produced("a", "<thing/>")
    assert [type(change) for change in said.decided] == [TriesReset]
    said.produced("a", "<thing/>")
    assert not said.decided
    said.erred("a", "the line went dead")
    assert 8 <= said.until_woken() <= 12
    assert said.call_of("a").attempt == 2


def test_N36_a_source_that_waits_for_its_next_try_ends_with_its_plan() -> None:
    said, run = source(*BOTH, retries="2", backoff="8")
    said.erred("a", "the line went dead")
    said.returned("z")
    assert said.state(run) == "done"
    assert len(said.wishes(CancelTimer)) == 1


def test_N36_a_source_that_breaks_while_its_plan_ends_is_let_go() -> None:
    said, run = source(*BOTH, retries="2")
    said.returned("z")
    assert said.state(run) == "end"
    said.erred("a", "the line went dead")
    assert said.state(run) == "done"
    assert not said.wakes


# --- the end of the plan ----------------------------------------------------------------------------------


def test_N27_a_side_branch_that_waits_for_another_try_runs_to_its_end() -> None:
    said = Dialogue(
        recipe("g.r", step("s"), step("a", retries="1"), step("z"), *BOTH, start="s"),
        PLAIN,
        action("m.s"),
        action("m.z"),
    )
    run = said.start("g.r")
    said.returned("s")
    said.erred("a")
    said.returned("z")
    assert said.state(run) == "end"
    said.until_woken()
    said.returned("a", "<thing/>")
    assert said.state(run) == "done"
    assert len(said.named("thing")) == 1


@pytest.mark.parametrize("moment", ["while it waits", "during the second try"])
def test_N29_a_cancelled_plan_tries_nothing_again(moment: str) -> None:
    said, run = once(retries="2")
    said.erred("a")
    if moment == "while it waits":
        said.cancel(run)
        assert len(said.wishes(CancelTimer)) == 1
        assert not said.wishes(CancelCall)
    else:
        said.until_woken()
        said.cancel(run)
        assert len(said.wishes(CancelCall)) == 1
    assert said.state(run) == "cancelled"


def test_N29_a_cancelled_plan_waits_for_no_time_limit() -> None:
    said, run = nested(timeout="60", retries="1")
    said.begins("b")
    said.cancel(run)
    assert len(said.wishes(CancelTimer)) == 1
    assert len(said.wishes(Finish)) == 1


def test_N26_an_error_link_fires_only_when_the_tries_are_used_up() -> None:
    said = Dialogue(
        recipe("g.r", step("a", retries="1"), step("z"), transition("ill", "a!", "z")), PLAIN, action("m.z")
    )
    run = said.start("g.r")
    said.erred("a")
    assert said.transitions(run) == {"ill": "wait-step"}
    said.until_woken()
    said.erred("a")
    assert said.transitions(run) == {"ill": "fired"}


# --- why --------------------------------------------------------------------------------------------------


def test_N29_why_tells_the_next_try_when_it_is_and_what_went_wrong() -> None:
    said, run = once(retries="2", backoff="10")
    said.erred("a", "no line")
    (told,) = waiting_for(said, run)
    assert (told.id, told.what) == ("a", "try")
    assert told.until is not None
    assert 110 <= told.until <= 115
    assert told.text == "action m.a, attempt 2 of 3 after ValueError: no line"
    said.until_woken()
    (told,) = waiting_for(said, run)
    assert (told.text, told.until) == ("action m.a, attempt 2 of 3", None)


def test_N29_of_many_calls_that_wait_why_tells_the_first_and_how_many() -> None:
    said, run, (first, second, _) = greeting(retries="2", backoff="10")
    said.erred("a", given=first)
    said.erred("a", given=second)
    under_way, resting = waiting_for(said, run)
    assert len(under_way.calls) == 1
    assert resting.text.endswith("(the first of 2 calls that will be tried again)")
    reason = engine_of("recipe").explain(said.definitions[run], said.states[run], "a")
    assert reason is not None
    assert "3 of its calls" in reason
    assert "2 of them will be tried again" in reason


def test_N29_the_journal_has_each_try() -> None:
    said, _ = once(retries="1")
    said.erred("a", "no line")
    assert [type(change) for change in said.decided] == [TryFailed]
    said.until_woken()
    assert [type(change) for change in said.decided] == [NextTryMade]
    assert [call.attempt for call in said.wishes(Call)] == [2]
