"""Steps in error and what takes them up; plans that cannot go on (N26, N27, §1.4.4, §1.5.2, §2.4)."""

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.engines.commands import Call
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition


def plan(*transitions: str, **targets: str) -> tuple[Dialogue, int]:
    """A plan of the steps `a` … `f` and `z` that a transition names, each of which may give anything."""
    text = "".join(transitions)
    names = [name for name in "abcdefz" if f'idref="{name}"' in text]
    said = Dialogue(recipe("g.r", *(step(name) for name in names), text))
    gives = [Output("given", "*", list=True, optional=True)]
    said.load(*(action(f"m.{name}", (), gives) for name in names))
    return said, said.start("g.r")


# --- N26: errors that are taken up ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["raises", "returns an error element"])
def test_N26_an_error_link_fires_at_once(how: str) -> None:
    said, run = plan(transition("well", "a", "b", priority=9), transition("ill", "a!", "z"))
    if how == "raises":
        said.erred("a", "no such file")
    else:
        said.returned("a", "<error type='mine'/>")
    assert said.transitions(run) == {"well": "impossible", "ill": "fired"}
    assert said.steps(run) == {"a": "history", "b": "impossible", "z": "running"}
    assert len(said.errors()) == 1


def test_N26_what_an_action_raised_becomes_an_error_element_that_names_plan_step_and_action() -> None:
    said, run = plan(transition("ill", "a!", "z"))
    call = said.call_of("a")
    said.erred("a", "no such file")
    error = said.error()
    assert error["type"] == "ValueError"
    assert error["message"] == "no such file"
    assert (error["plan"], error["step"], error["action"]) == (str(run), "a", "m.a")
    assert error["call"] == call.call


def test_N26_the_error_link_of_a_step_that_is_done_is_impossible() -> None:
    # figure 1.12, right panel
    said, run = plan(transition("ill", "a!", "b"), transition("well", "a", "z"))
    said.returned("a")
    assert said.transitions(run) == {"ill": "impossible", "well": "fired"}
    assert said.steps(run)["b"] == "impossible"


def test_N26_an_error_link_of_a_done_step_is_impossible_even_when_nothing_else_may_fire() -> None:
    said, run = plan(transition("ill", "a!", "b"), transition("well", "a", "z", "mail"))
    said.returned("a")
    assert said.transitions(run) == {"ill": "impossible", "well": "wait-condition"}


def test_N26_the_condition_of_an_error_link_may_take_the_error_itself() -> None:
    said, run = plan(
        transition("other", "a!", "b", "error[@type='Other']", priority=2),
        transition("ours", "a!", "z", "error[@type='ValueError']", priority=1),
    )
    said.erred("a")
    assert said.transitions(run) == {"other": "impossible", "ours": "fired"}


def test_N10_a_step_in_error_stands_for_its_errors() -> None:
    """A link whose condition names it does not take an error of somebody else."""
    said, run = plan(transition("ill", "a!", "z", "error[@call=$a/@call]"))
    said.add("<error type='older' call='other'/>")
    said.erred("a")
    assert said.transitions(run) == {"ill": "fired"}


def test_N10_an_error_link_whose_condition_asks_more_of_the_step_does_not_take_another_error() -> None:
    said, run = plan(transition("ill", "a!", "z", "error[@type=$a/@type and @call!=$a/@call]"))
    said.add("<error type='KeyError' call='other'/>")
    said.erred("a")
    assert said.transitions(run) == {"ill": "fail"}
    assert said.state(run) == "failed"


def test_N26_the_step_it_leads_to_is_given_the_error_of_this_step_before_any_other() -> None:
    said, _ = plan(transition("ill", "a!", "z"))
    said.load(action("m.z", [Input("error", "error")]))
    older = said.add("<error type='older'/>")
    said.drop_calls()
    said.start("g.r", [older])
    said.erred("a")
    ((mine,),) = said.inputs("z").values()
    assert said.memory.element(mine).attributes["type"] == "ValueError"


def test_N26_an_error_that_nothing_takes_up_fails_the_plan() -> None:
    said, run = plan(transition("well", "a", "z"))
    said.erred("a", "no such file")
    assert said.state(run) == "failed"
    assert said.steps(run) == {"a": "error", "z": "impossible"}
    assert said.finished[run].error == said.errors()[0].eid


def test_N26_conditions_that_do_not_hold_fail_the_plan_and_nothing_waits_for_them() -> None:
    said, run = plan(transition("ill", "a!", "z", "mail"))
    said.erred("a")
    assert said.transitions(run) == {"ill": "fail"}
    assert said.state(run) == "failed"
    assert said.watches == {}


def test_N26_the_error_link_whose_conditions_hold_is_taken_though_a_better_one_does_not() -> None:
    said, run = plan(transition("one", "a!", "b", "mail", priority=5), transition("two", "a!", "z"))
    said.erred("a")
    assert said.transitions(run) == {"one": "impossible", "two": "fired"}


def test_N26_it_is_judged_when_the_other_in_steps_have_ended_until_then_the_plan_goes_on() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("ill", "b! c", "z"),
        transition("on", "c", "d", "never", priority=-1),
    )
    said.returned("a")
    said.erred("b")
    assert (said.state(run), said.steps(run)["b"]) == ("running", "error")
    said.returned("c")
    assert said.transitions(run)["ill"] == "fired"
    assert said.steps(run) == {
        "a": "history",
        "b": "history",
        "c": "history",
        "d": "impossible",
        "z": "running",
    }


def test_N26_an_error_is_unhandled_when_the_other_in_step_ends_otherwise() -> None:
    said, run = plan(transition("fork", "a", "b c"), transition("ill", "b! c", "z"))
    said.returned("a")
    said.erred("b", "first")
    said.erred("c", "second")
    assert said.transitions(run)["ill"] == "impossible"
    assert said.state(run) == "failed"
    assert said.finished[run].error == said.errors()[0].eid


def test_N26_an_error_is_unhandled_when_the_other_in_step_goes_another_way() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("ill", "b! c", "z"),
        transition("away", "c", "d", priority=9),
    )
    said.returned("a")
    said.erred("b")
    said.returned("c")
    assert said.transitions(run)["ill"] == "impossible"
    assert (said.state(run), said.steps(run)["d"]) == ("failed", "ready"), "nothing more is begun"


def test_N26_an_error_is_unhandled_when_the_other_in_step_can_never_run() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("c1", "c", "d", "never"),
        transition("c2", "c", "e"),
        transition("ill", "b! d", "z"),
    )
    said.returned("a")
    said.erred("b")
    assert said.state(run) == "running"
    said.returned("c")
    assert said.transitions(run)["ill"] == "impossible"
    assert said.state(run) == "failed"


def test_N26_several_steps_may_be_handled_by_one_transition() -> None:
    said, run = plan(transition("fork", "a", "b c"), transition("ill", "b! c!", "z"))
    said.returned("a")
    said.erred("c")
    assert said.state(run) == "running"
    said.erred("b")
    assert said.transitions(run)["ill"] == "fired"


def test_N26_of_two_handlers_the_second_may_still_take_what_the_first_did_not() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("first", "b!", "d", "mail"),
        transition("then", "b! c", "z"),
        transition("past", "d", "e"),
    )
    said.returned("a")
    said.erred("b")
    assert said.transitions(run)["first"] == "fail"
    assert said.state(run) == "running"
    assert (said.steps(run)["d"], said.steps(run)["e"]) == ("impossible", "impossible"), "N22: it spreads"
    assert said.transitions(run)["past"] == "impossible"
    said.returned("c")
    assert said.transitions(run)["then"] == "fired"


def test_N26_an_error_in_a_side_branch_fails_the_plan_and_running_steps_are_waited_for() -> None:
    said, run = plan(transition("fork", "a", "b c"), transition("on", "c", "z"))
    said.returned("a")
    said.erred("b")
    assert said.state(run) == "failed-end"
    said.returned("c")
    assert said.steps(run) == {"a": "history", "b": "error", "c": "done", "z": "todo"}
    assert said.transitions(run)["on"] == "wait-step", "nothing fires any more"
    assert said.state(run) == "failed"


def test_N26_an_end_step_in_error_may_be_taken_up_but_the_plan_has_no_end_then() -> None:
    said, run = plan(transition("on", "a", "z"), transition("ill", "z!", "b"))
    said.returned("a")
    said.erred("z")
    assert said.steps(run)["b"] == "running"
    said.returned("b")
    assert said.state(run) == "failed"
    assert said.errors()[-1].attributes["type"] == "stuck"


# --- N26: plans called by a step --------------------------------------------------------------------------


def calling(inner: str, *more: str) -> tuple[Dialogue, int, int]:
    """A plan whose step `a` calls another; what is said of errors there leads to `z`."""
    outer = recipe("g.out", step("a", "g.in", type="recipe"), step("z"), transition("t", "a!", "z", *more))
    said = Dialogue(outer, inner, action("m.z"), action("m.b"), action("m.c"), action("m.d"))
    run = said.start("g.out")
    return said, run, said.begins("a")


ONE = recipe("g.in", step("b"), start="b", end="b")


def test_N26_a_failed_child_puts_the_calling_step_in_error_with_the_childs_error_elements() -> None:
    said, run, inner = calling(ONE, "error[@step='b']")
    said.erred("b")
    (error,) = said.errors()
    said.answers(inner)
    assert said.steps(run) == {"a": "history", "z": "running"}
    assert said.errors() == [error], "no other is made of it"
    assert error.eid in set(said.context(run))


def test_N3_N26_the_errors_of_a_child_join_the_context_of_its_caller() -> None:
    said, run, inner = calling(ONE)
    said.erred("b")
    said.answers(inner)
    assert list(said.context(run)) == [said.errors()[0].eid]


def test_N26_a_child_that_fails_by_itself_tells_the_error_that_says_why() -> None:
    said, run, inner = calling(recipe("g.in", step("b", "m.gone"), start="b", end="b"))
    said.answers(inner)
    assert said.steps(run)["a"] == "history"
    assert said.finished[inner].eids == (said.errors()[0].eid,)


def test_N26_a_child_that_is_stuck_tells_the_error_that_says_so() -> None:
    stuck = recipe("g.in", step("b"), step("c"), transition("t", "b!", "c"), start="b", end="c")
    said, run, inner = calling(stuck)
    said.returned("b")
    assert said.finished[inner].eids == (said.errors()[0].eid,)
    said.answers(inner)
    assert said.steps(run)["z"] == "running"
    assert len(said.errors()) == 1


def test_N26_errors_that_the_child_handled_are_not_told() -> None:
    inner = recipe(
        "g.in",
        *(step("b"), step("c"), step("d", "m.gone")),
        *(transition("t", "b!", "c"), transition("u", "c", "d")),
        start="b",
        end="d",
    )
    said, _, run = calling(inner)
    said.erred("b", "handled")
    said.returned("c")
    (handled, reason) = said.errors()
    assert said.finished[run].eids == (reason.eid,)
    assert said.finished[run].error == reason.eid
    assert handled.eid not in said.finished[run].eids


def test_N26_all_errors_of_a_child_with_several_are_told() -> None:
    inner = recipe(
        "g.in",
        *(step("b"), step("c"), step("d"), step("e", "m.b")),
        *(transition("t", "b", "c d"), transition("u", "c d", "e")),
        start="b",
        end="e",
    )
    said, outer, run = calling(inner)
    said.returned("b")
    said.erred("c", "one")
    said.erred("d", "two")
    assert said.finished[run].eids == tuple(element.eid for element in said.errors())
    said.answers(run)
    assert said.steps(outer)["a"] == "history"


def test_N26_a_child_that_was_cancelled_is_an_error_of_the_calling_step() -> None:
    inner = recipe("g.in", step("b"), step("c"), transition("t", "b", "c"), start="b", end="c")
    said, outer, run = calling(inner)
    said.load(action("m.b", (), [Output("mail", "mail")]))
    said.returned("b", "<mail/>")
    said.cancel(run)
    said.answers(run)
    assert said.steps(outer) == {"a": "history", "z": "running"}
    assert said.error()["type"] == "run-cancelled"
    assert (said.error()["recipe"], said.error()["target"]) == ("g.out", "g.in")


# --- N27: plans that cannot go on -------------------------------------------------------------------------


def test_N27_a_plan_of_which_no_transition_can_fire_fails_with_an_error_that_says_why() -> None:
    said, run = plan(transition("t", "a", "b"), transition("u", "b!", "z"))
    said.returned("a")
    said.returned("b")
    assert said.state(run) == "failed"
    error = said.error()
    assert error["type"] == "stuck"
    assert error["message"] == (
        "no transition can fire any more, and the end step z is impossible; step 'b' leads nowhere, and a "
        'plan has one end, \'z\': lead both to one step, such as <step id="end" type="action" '
        'target="basic.nothing"/>, and make that the end_step'
    )
    detail = said.errors()[0].tree().findtext("detail")
    assert detail == "transition u is impossible: it can no longer fire: b is done (wanted: error)"


def test_N27_a_dead_end_is_no_failure_while_another_branch_can_go_on() -> None:
    said, run = plan(transition("fork", "a", "b c"), transition("on", "c", "z", "mail"))
    said.returned("a")
    said.returned("b")
    said.returned("c")
    assert said.state(run) == "running"
    said.arrives("<mail/>")
    said.returned("z")
    assert said.state(run) == "done"


def test_N27_a_plan_fails_as_soon_as_its_last_branch_is_dead() -> None:
    said, run = plan(transition("fork", "a", "b c"), transition("t", "b! c", "z"))
    said.returned("a")
    said.returned("b")
    assert said.state(run) == "running"
    said.returned("c")
    assert said.state(run) == "failed"


def test_N27_a_plan_that_waits_for_a_condition_that_cannot_lead_to_the_end_still_waits() -> None:
    # §2.4: it fails when all its transitions are impossible; this one is not.
    said, run = plan(
        transition("fork", "a", "b c"), transition("side", "b", "d", "mail"), transition("t", "c!", "z")
    )
    said.returned("a")
    said.returned("c")
    said.returned("b")
    assert said.state(run) == "running"
    said.arrives("<mail/>")
    said.returned("d")
    assert said.state(run) == "failed"


def test_N27_a_plan_is_over_when_its_end_step_is_done_and_is_in_end_while_side_branches_run() -> None:
    said, run = plan(transition("fork", "a", "b z"), transition("more", "b", "c"))
    said.returned("a")
    said.returned("z")
    assert said.state(run) == "end"
    assert run not in said.finished
    said.returned("b", "<page/>")
    assert said.wishes(Call) == [], "nothing further fires"
    assert said.state(run) == "done"
    assert said.steps(run) == {"a": "history", "b": "done", "c": "todo", "z": "done"}
    (page,) = said.named("page")
    assert said.finished[run].eids == (page.eid,), "its output is kept"
    assert page.eid in set(said.context(run))


def test_N27_a_side_branch_that_errs_after_the_end_does_not_fail_the_plan() -> None:
    said, run = plan(transition("fork", "a", "b z"))
    said.returned("a")
    said.returned("z")
    said.erred("b")
    assert said.state(run) == "done"
    assert said.finished[run].error is None
    assert len(said.errors()) == 1


def test_N27_a_bad_output_after_the_end_does_not_fail_the_plan() -> None:
    said, run = plan(transition("fork", "a", "b z"))
    said.load(action("m.b", (), [Output("page", "page")]))
    said.returned("a")
    said.returned("z")
    said.returned("b", "<mail/>")
    assert (said.state(run), said.steps(run)["b"]) == ("done", "failed")


def test_N27_steps_that_start_together_all_start_even_when_one_is_the_end_and_done_at_once() -> None:
    said = Dialogue(
        recipe("g.r", step("a"), step("z", foreach="mail"), step("b"), transition("t", "a", "z b")),
        *(action("m.a"), action("m.b"), action("m.z", [Input("mail", "mail", optional=True)])),
    )
    run = said.start("g.r")
    said.returned("a")
    assert said.steps(run) == {"a": "history", "z": "done", "b": "running"}
    assert said.state(run) == "end"


def test_N27_a_failing_plan_waits_for_its_running_steps_and_keeps_what_they_give() -> None:
    said, run = plan(transition("fork", "a", "b c d"), transition("join", "b c d", "z"))
    said.returned("a")
    said.erred("b")
    said.returned("c", "<page/>")
    assert said.state(run) == "failed-end"
    said.erred("d", "second")
    assert said.state(run) == "failed"
    assert said.finished[run].error == said.errors()[0].eid, "the first reason stays"
    assert {element.eid for element in said.named("page")} <= set(said.context(run))
