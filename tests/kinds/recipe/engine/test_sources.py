"""Sources of a step: each of several lives and dies by itself (N28, N36, N20)."""

from __future__ import annotations

from narval.core.definitions.prototype import Input, Output
from narval.core.engines.commands import CancelCall
from narval.core.engines.dates import SOURCE_REST
from tests.core.engines.dialogue import Dialogue, action, recipe, step

WATCHES = action("m.a", [Input("address", "address")], [Output("mail", "mail", list=True)], source=True)


def watching(restart: str = "yes") -> tuple[Dialogue, int, int, int]:
    """A plan with a source for each of two elements; what it says, itself, and those two."""
    said = Dialogue(recipe("g.r", step("a", foreach="address"), end="a", restart=restart), WATCHES)
    first, second = said.add("<address/>"), said.add("<address/>")
    return said, said.start("g.r"), first, second


def gives(said: Dialogue, given: int, *xml: str) -> None:
    """The source of an element yields."""
    said.produced("a", *xml, given=given)


def is_given_up(said: Dialogue, given: int) -> None:
    """The source of an element has been given up, as was asked."""
    said.answer(said.call_of("a", given=given), abandoned=True)


def kinds(said: Dialogue) -> list[str]:
    return [error.attributes["type"] for error in said.errors()]


def test_N20_N28_a_source_that_gives_what_does_not_fit_begins_again_while_another_works() -> None:
    said, run, first, second = watching()
    for _ in range(3):
        call = said.call_of("a", given=first).call
        gives(said, first, "<other/>")
        assert said.wishes(CancelCall) == [CancelCall(call)]
        gives(said, first, "<mail n='late'/>")
        assert said.named("mail") == [], "it was given up"
        is_given_up(said, first)
        assert said.steps(run) == {"a": "running"}
        gives(said, second, "<mail/>")
        said.forgets(*(mail.eid for mail in said.named("mail")))
        assert said.until_woken() == SOURCE_REST
        assert said.call_of("a", given=first).attempt > 1
    assert kinds(said) == ["bad-output"], "the same trouble is told once"


def test_N20_N28_the_last_source_that_gives_what_does_not_fit_fails_the_plan() -> None:
    said, run, first, second = watching()
    said.erred("a", given=first)
    gives(said, second, "<other/>")
    is_given_up(said, second)
    assert said.state(run) == "failed"
    assert not [of for of, _ in said.wakes.values() if of == run]


def test_N20_N36_without_restart_the_other_sources_go_on_and_are_followed() -> None:
    said, run, first, second = watching("no")
    gives(said, first, "<other/>")
    is_given_up(said, first)
    third = said.arrives("<address/>")
    assert [said.call_of("a", given=eid).step for eid in (second, third)] == ["a", "a"]
    for eid in (second, third):
        said.returned("a", given=eid)
    assert (said.state(run), kinds(said)) == ("failed", ["bad-output"])


def test_N20_N36_a_spoilt_source_whose_element_is_replaced_is_not_begun_again() -> None:
    said, run, first, second = watching()
    gives(said, first, "<other/>")
    call = said.call_of("a", given=first)
    said.outdated(first)
    assert said.wishes(CancelCall) == []
    said.answer(call, abandoned=True)
    assert said.wakes == {}
    assert said.steps(run) == {"a": "running"}
    said.cancel(run)
    assert [wish.call for wish in said.wishes(CancelCall)] == [said.call_of("a", given=second).call]


def test_N20_N28_what_it_gives_last_counts_as_well() -> None:
    said, run, first, _ = watching()
    said.returned("a", "<other/>", given=first)
    assert said.steps(run) == {"a": "running"}
    assert said.until_woken() == SOURCE_REST


# --- one source, without foreach --------------------------------------------------------------------------


def one(**attributes: str) -> tuple[Dialogue, int, int]:
    """A plan with one source, begun for the first of two elements; what it says, itself, and that element."""
    said = Dialogue(recipe("g.r", step("a", **attributes), end="a"), WATCHES)
    address = said.add("<address at='1'/>")
    return said, said.start("g.r"), address


def test_N36_a_source_begins_anew_when_what_it_was_given_is_replaced() -> None:
    said, run, first = one()
    call = said.call_of("a")
    said.add("<address at='2'/>")
    said.outdated(first)
    assert said.wishes(CancelCall) == [CancelCall(call.call)]
    said.answer(call, abandoned=True)
    assert dict(said.call_of("a").inputs) == {"address": (first + 2,)}
    assert said.steps(run) == {"a": "running"}
    said.outdated(first + 2)
    said.answer(said.call_of("a"), abandoned=True)
    assert said.calls == {}, "it waits for one"
    third = said.arrives("<address at='3'/>")
    assert dict(said.call_of("a").inputs) == {"address": (third,)}
    said.arrives("<address at='4'/>")
    assert said.decided == [], "it has one"
    said.returned("a")
    assert (said.state(run), said.watches) == ("done", {})


def test_N29_N36_a_source_that_waits_for_another_try_begins_with_what_replaced_its_element() -> None:
    said, run, first = one(retries="5", backoff="60")
    said.erred("a")
    second = said.add("<address at='2'/>")
    said.outdated(first)
    assert dict(said.call_of("a").inputs) == {"address": (second,)}
    assert said.wakes == {}
    said.cancel(run)
    assert said.watches == {}


def test_N36_a_source_that_someone_gave_up_ends_and_is_not_begun_again() -> None:
    said, run, _ = one()
    said.answer(said.call_of("a"), abandoned=True)
    assert said.state(run) == "done"


def test_N36_one_source_that_gives_what_does_not_fit_fails_the_plan_at_once() -> None:
    said, run, _ = one()
    said.produced("a", "<other/>")
    assert (said.state(run), said.watches) == ("failed", {})
