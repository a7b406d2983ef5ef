"""Calls of definitions at other agents, as engines of every kind make them and hear of them (G33, G35)."""

from __future__ import annotations

from typing import Any

from narval.core.engines.commands import CancelCall
from narval.core.engines.events import Failure
from narval.kinds.recipe.engine import engine
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition
from tests.kinds.automaton.engine.programs import Programs

DAY = 86_400.0


def asks(inside: str = "", *more: str, **attributes: str) -> Dialogue:
    """The dialogue of a plan whose step `a` calls billing.invoice of the agent accounts."""
    written = {"type": "recipe", "agent": "accounts", "timeout": "1h", **attributes}
    return Dialogue(
        recipe("g.r", step("a", "billing.invoice", inside, **written), *more, end="z" if more else "a")
    )


def waits(said: Dialogue, run: int) -> list[str]:
    return [wait.text for wait in said.engines[run].waiting_for(said.definitions[run], said.states[run], {})]


def test_G33_the_elements_of_the_step_go_along_and_its_context_does_not() -> None:
    said = asks('<arguments><urgent/></arguments><input id="what" list="yes"><match>order</match></input>')
    orders = said.add("<order n='1'/>"), said.add("<order n='2'/>")
    said.add("<note/>")
    run = said.start("g.r")
    call = said.call_of("a")
    (urgent,) = said.named("urgent")
    assert (call.agent, call.kind, call.name) == ("accounts", "recipe", "billing.invoice")
    assert (call.inputs, call.elements, call.nearby) == ((("what", orders),), (urgent.eid,), ())
    assert waits(said, run) == ["recipe billing.invoice of accounts"]


def test_G33_a_call_for_each_element_has_the_inputs_beside_it() -> None:
    said = asks('<input id="rate"><match>rate</match></input>', foreach="order", max_parallel="1")
    rate, first, second = said.add("<rate/>"), said.add("<order n='1'/>"), said.add("<order n='2'/>")
    run = said.start("g.r")
    for order in (first, second):
        call = said.call_of("a")
        assert (call.inputs, call.elements) == ((("rate", (rate,)),), (order,))
        said.answer(call, eids=(said.add("<invoice/>"),))
    assert said.state(run) == "done"


def test_G33_what_comes_back_is_held_by_the_plan() -> None:
    following = (step("z"), transition("t", "a", "z", "invoice"))
    said = Dialogue(
        recipe("g.r", step("a", "b.invoice", type="recipe", agent="accounts", timeout="60"), *following),
        action("m.z"),
    )
    run = said.start("g.r")
    said.answer(said.call_of("a"), eids=(said.add("<invoice/>"),))
    assert said.steps(run) == {"a": "history", "z": "running"}
    assert not said.wakes, "its time limit is dropped"


def test_G33_a_failure_is_its_error_elements() -> None:
    said = asks()
    run = said.start("g.r")
    error = said.add("<error type='no-customer'><message>who?</message></error>")
    said.answer(said.call_of("a"), eids=(error,), problem=Failure("no-customer", "who?", final=True))
    assert said.state(run) == "failed"
    assert [element.eid for element in said.errors()] == [error]


def test_G33_an_input_that_finds_nothing_fails_the_step_and_says_so() -> None:
    said = asks('<input id="what"><match>order</match></input>')
    run = said.start("g.r")
    error = said.error()
    assert said.state(run) == "failed"
    assert (error["type"], error["agent"]) == ("input-missing", "accounts")
    (judged,) = engine.diagnose(said.definitions[run], said.states[run], None, said.element, said.definition)
    assert [bound.text for bound in judged.conditions] == ["order"]


def test_G33_an_input_marks_and_replaces_what_it_takes() -> None:
    said = asks('<input id="what" use="yes" outdates="yes"><match>order</match></input>')
    order = said.add("<order/>")
    said.start("g.r")
    assert said.memory.reserved == {order}
    said.answer(said.call_of("a"))
    assert order in said.memory.outdated


def test_G35_a_step_whose_time_is_over_gives_the_call_up_and_is_in_error() -> None:
    said = asks(timeout="90")
    run = said.start("g.r")
    call = said.call_of("a")
    said.passes(90)
    assert said.wishes(CancelCall) == [CancelCall(call.call)]
    said.answer(call, abandoned=True)
    assert said.state(run) == "failed"
    assert (said.error()["type"], said.error()["message"]) == (
        "timeout",
        "recipe billing.invoice of accounts did not come back within 90 s",
    )


def test_G35_without_a_time_limit_it_is_a_day() -> None:
    said = Dialogue(recipe("g.r", step("a", "b.c", type="recipe", agent="accounts"), end="a"))
    said.start("g.r")
    assert said.until_woken() == DAY


def test_G35_a_call_is_tried_again_under_its_id() -> None:
    said = asks(retries="1", backoff="5")
    run = said.start("g.r")
    first = said.call_of("a")
    said.answer(first, problem=Failure("undelivered", "accounts is away"))
    said.until_woken()
    assert (said.call_of("a").call, said.call_of("a").attempt) == (first.call, 2)
    said.cancel(run)
    assert said.wishes(CancelCall) == [CancelCall(first.call)]
    assert not said.wakes


# --- automata and processes ---------------------------------------------------------------------------------


def test_G33_a_state_of_an_automaton_sends_what_its_run_has() -> None:
    said = Programs('<state name="start" type="recipe" target="b.c" agent="accounts" timeout="30"/>')
    call = said.call_of("start")
    assert (call.agent, call.kind, call.name, call.nearby) == ("accounts", "recipe", "b.c", ())
    assert waits(said, said.run) == ["recipe b.c of accounts"]
    said.passes(30)
    assert said.wishes(CancelCall) == [CancelCall(call.call)]


def test_G35_a_state_without_a_time_limit_has_a_day() -> None:
    said = Programs('<state name="start" type="recipe" target="b.c" agent="accounts"/>')
    assert said.until_woken() == DAY


def node(custom: str, more: str = "", name: str = "n", type: str = "recipe") -> str:
    head = f'<node name="{name}" type="{type}" isStart="{str(name == "n").lower()}">'
    return f"{head}{more}<custom>{custom}</custom></node>"


def process(*nodes: str) -> tuple[Dialogue, int, Any]:
    said = Dialogue(f'<process-definition name="p">{"".join(nodes)}</process-definition>')
    run = said.start("p", kind="process")
    return said, run, said.states[run]


REMOTE = "<target>b.c</target><agent>accounts</agent>"


def test_G33_a_node_of_a_process_sends_what_the_tokens_before_it_produced() -> None:
    after = node(REMOTE, name="m")
    said, run, _ = process(node(REMOTE, '<arc to="m"/>'), after)
    assert waits(said, run) == ["recipe b.c of accounts (token 1)"]
    made = said.add("<invoice/>")
    said.answer(said.call_of("n"), eids=(made,))
    call = said.call_of("m")
    assert (call.agent, call.elements, call.nearby) == ("accounts", (made,), ())
    said.answer(call)
    assert said.state(run) == "completed"
    assert not said.wakes


def test_G33_a_process_of_another_agent_gets_the_attributes_of_the_token() -> None:
    said, _, state = process(node(REMOTE, type="process"))
    state.environment["who"] = "Ada"
    assert said.call_of("n").payload == {"environment": {}}


def test_G35_a_node_gives_up_a_call_whose_time_is_over() -> None:
    custom = f"{REMOTE}<timeout>20</timeout><on-error>fail</on-error>"
    said, run, _ = process(node(custom))
    call = said.call_of("n")
    said.passes(20)
    assert said.wishes(CancelCall) == [CancelCall(call.call)]
    assert said.state(run) == "executing", "until the other agent confirms that it has given it up"
    said.answer(call, abandoned=True)
    assert said.state(run) == "failed"
    assert said.error()["message"] == "recipe b.c of accounts did not come back within 20 s"


def test_G35_a_node_leaves_by_its_arc_for_errors_and_no_timer_is_left() -> None:
    said, run, _ = process(node(REMOTE, '<arc to="e" name="error"/>'), '<node name="e"/>')
    said.answer(said.call_of("n"), problem=Failure("undelivered", "accounts is away"))
    assert said.state(run) == "completed"
    assert not said.wakes


def test_G35_a_cancelled_process_gives_its_calls_up() -> None:
    said, run, _ = process(node(REMOTE))
    call = said.call_of("n")
    said.cancel(run)
    assert CancelCall(call.call) in said.wishes(CancelCall)
    assert not said.wakes
