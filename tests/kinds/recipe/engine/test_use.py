"""Elements that are used once, reserved and replaced (N18, §1.4.1.1, §1.4.1.2)."""

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.engines import commands
from narval.core.engines.commands import MarkUsed
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

USES = action("m.a", [Input("mail", "mail", use=True)])
CONSULTS = action("m.a", [Input("mail", "mail")])
ONE = recipe("g.r", step("a"), end="a")


# --- use --------------------------------------------------------------------------------------------------


def test_N18_a_used_element_is_given_once_to_that_input_across_all_plans_of_the_recipe() -> None:
    said = Dialogue(ONE, USES)
    mails = said.add("<mail/>"), said.add("<mail/>")
    first, second = said.start("g.r"), said.start("g.r")
    assert said.inputs("a", first) == {"mail": mails[:1]}
    assert said.inputs("a", second) == {"mail": mails[1:]}
    third = said.start("g.r")
    assert said.state(third) == "failed"
    assert said.error()["message"] == "input mail has used every element that fits mail"


def test_N18_the_mark_is_made_when_the_call_is_started_in_the_same_turn() -> None:
    said = Dialogue(ONE, USES)
    mail = said.add("<mail/>")
    said.start("g.r")
    assert said.wishes(MarkUsed) == [MarkUsed(("g.r", "a", "mail"), (mail,))]
    assert said.call_of("a")


def test_N18_the_mark_stays_when_the_call_fails() -> None:
    said = Dialogue(ONE, USES)
    said.add("<mail/>")
    said.start("g.r")
    said.erred("a")
    assert said.state(said.start("g.r")) == "failed"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(recipe("g.other", step("a"), end="a"), id="recipe"),
        pytest.param(recipe("g.other", step("b", "m.a"), end="b", start="b"), id="step"),
    ],
)
def test_N18_another_recipe_or_step_is_given_the_element_too(other: str) -> None:
    said = Dialogue(ONE, other, USES)
    mail = said.add("<mail/>")
    said.start("g.r")
    run = said.start("g.other")
    (call,) = [call for of, call in said.calls.values() if of == run]
    assert call.inputs == (("mail", (mail,)),)


def test_N18_two_inputs_of_a_step_have_marks_of_their_own() -> None:
    said = Dialogue(
        ONE, action("m.a", [Input("mail", "mail", use=True), Input("copy", "mail", use=True, optional=True)])
    )
    mail = said.add("<mail/>")
    first = said.start("g.r")
    assert said.inputs("a") == {"mail": (mail,)}
    run = said.start("g.r")
    assert said.state(run) == "failed", "the other input could still take it, but this one is mandatory"
    assert said.memory.marks == {("g.r", "a", "mail"): {mail: first}}


def test_N18_marks_survive_a_new_version_of_the_recipe() -> None:
    said = Dialogue(ONE, USES)
    said.add("<mail/>")
    said.start("g.r")
    said.load(recipe("g.r", step("a"), step("b"), transition("t", "a", "b"), end="b"), action("m.b"))
    assert said.state(said.start("g.r")) == "failed"


def test_N18_what_is_not_marked_is_consulted_and_given_again() -> None:
    said = Dialogue(ONE, CONSULTS)
    mail = said.add("<mail/>")
    runs = [said.start("g.r") for _ in range(3)]
    assert [said.inputs("a", run) for run in runs] == [{"mail": (mail,)}] * 3
    assert said.memory.marks == {}


def test_N18_every_element_of_a_list_is_marked() -> None:
    said = Dialogue(ONE, action("m.a", [Input("mails", "mail", use=True, list=True, optional=True)]))
    mails = {said.add("<mail/>"), said.add("<mail/>")}
    run = said.start("g.r")
    assert said.memory.marks[("g.r", "a", "mails")] == dict.fromkeys(mails, run)
    said.start("g.r")
    assert said.calls_of("a")[-1].inputs == ()


WAITING = recipe(
    "g.w", step("a"), step("z"), transition("t", "a", "z", "use mail", "use mail[@signed]"), end="z"
)
NOTHING = (action("m.a"), action("m.z"))


def test_N18_a_condition_uses_its_element_once_by_its_position_in_the_transition() -> None:
    said = Dialogue(WAITING, *NOTHING)
    plain, signed = said.add("<mail/>"), said.add("<mail signed='1'/>")
    first = said.start("g.w")
    said.returned("a", run=first)
    assert said.memory.marks == {("g.w", "t", "#1"): {plain: first}, ("g.w", "t", "#2"): {signed: first}}
    second = said.start("g.w")
    said.returned("a", run=second)
    assert said.transitions(second) == {"t": "wait-condition"}


def test_N18_a_condition_without_use_takes_its_element_again() -> None:
    said = Dialogue(
        recipe("g.w", step("a"), step("z"), transition("t", "a", "z", "mail")), action("m.a"), action("m.z")
    )
    said.add("<mail/>")
    for _ in range(2):
        run = said.start("g.w")
        said.returned("a", run=run)
        assert said.transitions(run) == {"t": "fired"}


# --- outdates ---------------------------------------------------------------------------------------------

COUNTS = action("m.a", [Input("counter", "counter", outdates=True)], [Output("counter", "counter")])


def test_N18_an_outdated_element_is_replaced_once_the_output_is_accepted() -> None:
    said = Dialogue(ONE, COUNTS)
    old = said.add("<counter n='1'/>")
    said.start("g.r")
    assert said.memory.reserved == {old}
    said.returned("a", "<counter n='2'/>")
    assert said.memory.reserved == set()
    assert said.memory.outdated == {old}
    said.start("g.r")
    (given,) = said.inputs("a")["counter"]
    assert said.xml(given) == '<counter n="2"/>', "as a global variable would have it"


def test_N18_no_input_or_condition_anywhere_takes_an_outdated_element() -> None:
    other = recipe("g.other", step("b"), step("c"), transition("t", "b", "c", "*[@n]"), start="b", end="c")
    said = Dialogue(ONE, other, COUNTS, action("m.b", [Input("any", "*[@n]", optional=True)]), action("m.c"))
    said.add("<counter n='1'/>")
    said.start("g.r")
    said.returned("a", "<counter/>")
    run = said.start("g.other")
    assert said.inputs("b") == {}
    said.returned("b")
    assert said.transitions(run) == {"t": "wait-condition"}


def test_N18_what_is_reserved_is_given_to_nobody_else() -> None:
    other = recipe("g.other", step("b"), step("c"), transition("t", "b", "c", "counter"), start="b", end="c")
    said = Dialogue(ONE, other, COUNTS, action("m.b"), action("m.c"))
    counter = said.add("<counter n='1'/>")
    said.start("g.r")
    run = said.start("g.other")
    said.returned("b")
    assert said.transitions(run) == {"t": "wait-condition"}
    said.erred("a")
    assert said.transitions(run) == {"t": "fired"}, "once released it wakes those who wait"
    assert list(said.context(run)) == [counter]


def test_N18_a_step_whose_only_candidates_are_reserved_stays_ready_and_waits() -> None:
    said = Dialogue(ONE, COUNTS)
    said.add("<counter n='1'/>")
    first, second = said.start("g.r"), said.start("g.r")
    assert (said.state(second), said.steps(second)) == ("running", {"a": "ready"})
    assert said.calls_of("a", second) == []
    said.returned("a", "<counter n='2'/>", run=first)
    (given,) = said.inputs("a", second)["counter"]
    assert said.xml(given) == '<counter n="2"/>', "no update is lost"


def test_N18_a_reservation_is_released_on_error_and_the_waiting_step_goes_on() -> None:
    said = Dialogue(ONE, COUNTS)
    counter = said.add("<counter n='1'/>")
    first, second = said.start("g.r"), said.start("g.r")
    said.erred("a", run=first)
    assert said.memory.outdated == set()
    assert said.inputs("a", second) == {"counter": (counter,)}


@pytest.mark.parametrize("bad", [["<page/>"], [], ["<error/>"]])
def test_N18_a_reservation_is_released_when_the_output_is_not_accepted(bad: list[str]) -> None:
    said = Dialogue(ONE, COUNTS)
    said.add("<counter n='1'/>")
    said.start("g.r")
    said.returned("a", *bad)
    assert (said.memory.reserved, said.memory.outdated) == (set(), set())


def test_N18_of_several_waiting_steps_one_goes_on_and_the_others_wait_again() -> None:
    said = Dialogue(ONE, COUNTS)
    said.add("<counter n='1'/>")
    runs = [said.start("g.r") for _ in range(3)]
    said.returned("a", "<counter n='2'/>", run=runs[0])
    assert [said.steps(run)["a"] for run in runs] == ["done", "running", "ready"]
    said.returned("a", "<counter n='3'/>", run=runs[1])
    said.returned("a", "<counter n='4'/>", run=runs[2])
    assert [said.state(run) for run in runs] == ["done"] * 3
    assert said.xml(said.named("counter")[-1].eid) == '<counter n="4"/>'


def test_N18_a_step_does_not_wait_for_a_reservation_when_something_else_is_missing() -> None:
    said = Dialogue(
        ONE, action("m.a", [Input("counter", "counter", outdates=True), Input("page", "page")]), COUNTS
    )
    said.load(recipe("g.keeps", step("a"), end="a"))
    said.add("<counter/>")
    said.start("g.keeps")
    said.load(action("m.a", [Input("counter", "counter", outdates=True), Input("page", "page")]))
    run = said.start("g.r")
    assert said.state(run) == "failed"
    assert said.error()["input"] == "counter page"


def test_N18_a_step_waits_for_a_reservation_if_its_inputs_compete_for_what_is_free() -> None:
    takes = action("m.b", [Input("any", "mail"), Input("signed", "mail[@signed]")])
    replaces = action("m.a", [Input("mail", "mail[not(@signed)]", outdates=True)])
    other = recipe("g.two", step("b"), start="b", end="b")
    said = Dialogue(ONE, other, replaces, takes)
    plain, signed = said.add("<mail/>"), said.add("<mail signed='1'/>")
    said.start("g.r")
    run = said.start("g.two")
    assert (said.state(run), said.steps(run)) == ("running", {"b": "ready"})
    said.erred("a")
    assert said.inputs("b", run) == {"any": (plain,), "signed": (signed,)}


def test_N18_a_step_does_not_wait_for_a_reservation_that_would_not_help() -> None:
    both = [Input("one", "mail[@signed]"), Input("two", "mail[@signed]"), Input("any", "mail")]
    other = recipe("g.two", step("b"), start="b", end="b")
    replaces = action("m.a", [Input("mail", "mail[not(@signed)]", outdates=True)])
    said = Dialogue(ONE, other, replaces, action("m.b", both))
    said.add("<mail/>")
    said.add("<mail signed='1'/>")
    said.start("g.r")
    assert said.state(said.start("g.two")) == "failed"


def test_N18_a_step_does_not_wait_when_nothing_is_reserved() -> None:
    inputs = [Input("one", "mail[@signed]"), Input("last", "mail", list=True, newest=1)]
    said = Dialogue(ONE, action("m.a", inputs))
    said.add("<mail/>")
    said.add("<mail signed='1'/>")
    assert said.state(said.start("g.r")) == "failed", "the newest mail cannot go to both"


def test_N18_what_no_call_needed_after_all_is_reserved_no_more() -> None:
    each = recipe("g.r", step("a", foreach="address"), step("z"), transition("t", "a!", "z"))
    inputs = [
        Input("to", "address"),
        Input("last", "mail[@to = $to/@name]"),
        Input("count", "counter", outdates=True),
    ]
    said = Dialogue(each, action("m.a", inputs), action("m.z"))
    said.add("<address name='x'/>")
    said.add("<counter/>")
    run = said.start("g.r")
    assert said.steps(run)["z"] == "running", "no call could be made"
    assert (said.memory.reserved, [*said.in_force[run].reserved]) == (set(), [])


def test_N18_two_reservations_of_one_step_are_all_or_nothing() -> None:
    both = action(
        "m.a", [Input("one", "x", outdates=True), Input("two", "y", outdates=True)], [Output("x", "x")]
    )
    said = Dialogue(ONE, recipe("g.x", step("b"), end="b", start="b"), both)
    said.load(action("m.b", [Input("one", "x", outdates=True)]))
    said.add("<x/>")
    y = said.add("<y/>")
    holder = said.start("g.x")
    waiting = said.start("g.r")
    assert said.steps(waiting) == {"a": "ready"}
    assert y not in said.memory.reserved, "a step that waits holds nothing that others wait for"
    said.erred("b", run=holder)
    assert said.steps(waiting) == {"a": "running"}


def test_N18_use_and_outdates_together() -> None:
    said = Dialogue(ONE, action("m.a", [Input("mail", "mail", use=True, outdates=True)]))
    mail = said.add("<mail/>")
    said.start("g.r")
    said.erred("a")
    assert said.memory.reserved == set()
    assert said.state(said.start("g.r")) == "failed", "it was given once"
    assert set(said.memory.marks[("g.r", "a", "mail")]) == {mail}


def test_N18_a_plan_that_is_cancelled_while_a_step_waits_for_a_reservation_waits_no_more() -> None:
    said = Dialogue(ONE, COUNTS)
    said.add("<counter/>")
    first, second = said.start("g.r"), said.start("g.r")
    said.cancel(second)
    assert said.watches == {}
    said.returned("a", "<counter/>", run=first)
    assert said.steps(second) == {"a": "ready"}


def test_N18_a_plan_that_ends_while_a_step_waits_for_a_reservation_waits_no_more() -> None:
    forks = recipe("g.f", step("s"), step("a"), step("z"), transition("t", "s", "a z"), start="s")
    said = Dialogue(ONE, forks, COUNTS, action("m.s"), action("m.z"))
    said.add("<counter/>")
    said.start("g.r")
    run = said.start("g.f")
    said.returned("s")
    assert said.steps(run) == {"s": "history", "a": "ready", "z": "running"}
    said.returned("z")
    assert said.state(run) == "done"
    assert said.wishes(commands.Unwatch)
