"""Code of a process runs one call after another; a node that fails ends nothing (section 18)."""

from __future__ import annotations

from typing import Any

import pytest

from narval.core.definitions.prototype import Input
from narval.core.engines import commands
from narval.core.engines.events import Failure, OutputElement
from narval.kinds.process.engine.explain import waiting_for
from narval.kinds.process.language.code import mask_of
from tests.core.engines.dialogue import Dialogue, Refusal, action, recipe, step

DONE = {"effects": [{"do": "complete"}]}


def process(*nodes: str) -> str:
    return f'<process-definition name="p">{"".join(nodes)}</process-definition>'


def code(name: str, more: str = "", custom: str = "", type: str = "own") -> str:
    """A node whose type is a class of the user's."""
    return f'<node name="{name}" type="{type}" isStart="true">{more}<custom>{custom}</custom></node>'


def began(*nodes: str) -> tuple[Dialogue, int, Any]:
    said = Dialogue(process(*nodes))
    said.node_types = {"own": frozenset({"execute", "backtrack"})}
    run = said.start("p", kind="process")
    return said, run, said.states[run]


def counts(value: int) -> dict[str, Any]:
    wish = {"do": "set", "of": "process", "name": "count", "value": str(value)}
    return {"effects": [wish, {"do": "complete"}]}


def under_way(said: Dialogue, *nodes: str) -> list[str]:
    return [node for node in nodes if said.calls_of(node)]


# --- what it gives ----------------------------------------------------------------------------------------


def test_section_18_a_node_whose_type_names_its_elements_gives_no_others() -> None:
    said, run, _ = began(code("a"))
    said.node_type_gives["own"] = ("todo", "done")
    said.answer(said.call_of("a"), elements=(OutputElement(b"<letter/>"),), value=DONE)
    (error,) = said.named("error")
    assert "node a of type own gives todo or done, and gave letter" in error.text
    assert said.state(run) == "executing"
    said.says(run, "rerun", node="a")
    said.answer(said.call_of("a"), elements=(OutputElement(b"<todo/>"),), value=DONE)
    assert (said.state(run), len(said.named("todo"))) == ("completed", 1)


# --- one call after another -------------------------------------------------------------------------------


def test_section_18_code_of_parallel_nodes_runs_one_call_after_another_in_token_order() -> None:
    said, run, state = began(code("a"), code("b"), code("c"))
    for count, node in enumerate(("a", "b", "c"), 1):
        assert under_way(said, "a", "b", "c") == [node]
        assert state.environment.get("count", "0") == str(count - 1)
        said.answer(said.call_of(node), value=counts(count))
    assert said.state(run) == "completed"
    assert state.environment == {"count": "3"}


def test_section_18_what_waits_for_its_turn_says_so_and_can_be_completed_by_hand() -> None:
    said, run, state = began(code("a"), code("b"), code("c"))
    waits = {wait.id: wait.text for wait in said.engines[run].waiting_for(said.definitions[run], state, {})}
    assert waits["b"] == "other code of the process to be over (token 2)"
    said.says(run, "complete", node="b")
    said.answer(said.call_of("a"), value=DONE)
    assert under_way(said, "a", "b", "c") == ["c"]
    with pytest.raises(Refusal, match="has not failed"):
        said.says(run, "rerun", node="c")


def test_section_18_calls_of_definitions_go_on_side_by_side_and_a_nested_process_waits_for_code() -> None:
    nested = '<node name="n" type="nested" isStart="true"><custom><graphName>q</graphName></custom></node>'
    said = Dialogue(
        process(code("a"), nested), '<process-definition name="q"><node name="x" type="wait" isStart="true"/>'
        "</process-definition>",
    )  # fmt: skip
    said.node_types = {"own": frozenset({"execute"})}
    run = said.start("p", kind="process")
    assert under_way(said, "a", "n") == ["a"]
    wish = {"do": "set", "of": "process", "name": "seen", "value": "yes"}
    said.answer(said.call_of("a"), value={"effects": [wish, {"do": "complete"}]})
    assert said.call_of("n").payload == {"environment": {"seen": "yes"}, "token": 2}
    assert said.state(run) == "executing"


def test_section_18_code_that_undoes_waits_for_code_that_runs() -> None:
    said, run, _ = began(
        '<node name="s" type="own" isStart="true"><arc to="w"/></node>',
        '<node name="w" type="wait"/>',
        code("t"),
    )
    said.answer(said.call_of("s"), value=DONE)
    assert under_way(said, "s", "t") == ["t"]
    said.says(run, "backtrack", node="s")
    assert under_way(said, "s", "t") == ["t"]
    said.answer(said.call_of("t"), value=DONE)
    assert said.call_of("s").payload["hook"] == "backtrack"
    said.answer(said.call_of("s"), value={})
    assert said.call_of("s").payload["hook"] == "execute"


# --- a node that fails --------------------------------------------------------------------------------------


def test_section_18_the_token_stays_and_what_else_there_is_goes_on() -> None:
    said, run, state = began(code("a"), code("b", '<arc to="w"/>'), '<node name="w" type="wait"/>')
    said.erred("a", "no such file")
    error = said.error()
    assert (error["type"], error["step"], error["token"]) == ("ValueError", "a", "1")
    assert (said.state(run), list(state.failed)) == ("executing", [1])
    said.answer(said.call_of("b"), value=DONE)
    assert list(state.standing) == ["a", "w"]
    waits = {wait.id: wait.text for wait in said.engines[run].waiting_for(said.definitions[run], state, {})}
    assert waits["a"].startswith("token 1 failed")


@pytest.mark.parametrize("by_hand", [False, True])
def test_section_18_it_is_run_again_or_completed_by_hand(by_hand: bool) -> None:
    said, run, state = began(code("a"))
    said.erred("a")
    if by_hand:
        said.says(run, "complete", token=1)
    else:
        said.says(run, "rerun", token=1)
        assert not state.failed
        said.answer(said.call_of("a"), value=DONE)
    assert said.state(run) == "completed"
    assert not state.failed


def test_section_18_what_code_wants_that_cannot_be_done_is_its_failure() -> None:
    said, run, state = began(code("a"))
    said.answer(said.call_of("a"), value={"effects": [{"do": "backtrack", "token": 99}]})
    assert (said.state(run), list(state.failed)) == ("executing", [1])
    said.says(run, "rerun", token=1)
    assert under_way(said, "a") == ["a"]


@pytest.mark.parametrize("act", ["complete", "complete-with-new-token-set"])
def test_section_18_code_that_names_an_arc_that_is_not_there_has_failed(act: str) -> None:
    wishes = [
        {"do": "set", "of": "process", "name": "n", "value": "1"},
        {"do": act, "arcs": ["nope"], "count": 2},
    ]
    said, _, state = began(code("a", '<arc to="a" name="x"/>', "<retries>1</retries>"))
    said.answer(said.call_of("a"), value={"effects": wishes})
    said.until_woken()
    said.answer(said.call_of("a"), value={"effects": wishes})
    assert (said.error()["type"], list(state.failed), state.environment) == ("no-arc", [1], {})
    assert "no arc 'nope' leaves a; there is 'x'" in said.error()["message"]
    said, _, state = began(code("a", '<arc to="b" name="error"/>'), '<node name="b" type="wait"/>')
    said.answer(said.call_of("a"), value={"effects": wishes})
    assert [state.nodes[number].node for number in state.active_nodes] == ["b"]


@pytest.mark.parametrize("type", ["own", "wait"])
def test_section_18_a_token_is_let_in_once_and_only_if_it_is_held_back(type: str) -> None:
    said = Dialogue(process(code("a", type=type)))
    said.node_types = {"own": frozenset({"execute"})}
    said.listeners, said.answers_to["listener:l"] = (
        {"l": mask_of(["NODE_TOKEN_ACCEPTED"])},
        ["DELAY_NODE_EXECUTION"],
    )
    run = said.start("p", kind="process")
    (wait,) = waiting_for(said.definitions[run], said.states[run], {})
    assert wait.text == "a listener to let token 1 in (execute_token), or the token to be completed"
    said.says(run, "execute-token", token=1)
    if type == "own":
        said.answer(said.call_of("a"), value={})
    with pytest.raises(Refusal, match="is not held back before its node"):
        said.says(run, "execute-token", token=1)
    assert said.states[run].active_nodes


def test_section_18_retries_come_first_and_wait_longer_each_time() -> None:
    custom = "<retries>2</retries><backoff>4</backoff>"
    said, run, state = began(code("a", '<arc name="error" to="b"/>', custom), '<node name="b" type="wait"/>')
    waited = []
    for _ in range(2):
        said.erred("a")
        assert not said.errors()
        assert under_way(said, "a") == []
        waited.append(said.until_woken())
    assert 4 <= waited[0] < 6.5 < 8 <= waited[1] < 12.5
    said.erred("a")
    assert len(said.errors()) == 1
    assert list(state.standing) == ["b"]
    assert said.state(run) == "executing"


def test_section_18_a_retry_is_the_same_call_with_the_same_element_and_counts_the_tries() -> None:
    pay = action("m.pay", [Input("order", "order", use=True, outdates=True)])
    custom = "<target>m.pay</target><retries>2</retries><backoff>4</backoff>"
    said = Dialogue(pay, process(code("a", "", custom, type="action")))
    order = said.add("<order/>")
    run = said.start("p", kind="process")
    said.add("<order/>")
    tries = []
    for _ in range(2):
        tries.append(said.call_of("a"))
        said.erred("a")
        assert said.in_force[run].reserved == {order: None}
        said.until_woken()
    tries.append(said.call_of("a"))
    assert [call.attempt for call in tries] == [1, 2, 3]
    assert len({call.call for call in tries}) == 1
    assert {call.inputs for call in tries} == {(("order", (order,)),)}
    said.returned("a")
    assert said.state(run) == "completed"
    assert (said.in_force[run].reserved, order in said.memory.outdated) == ({}, True)


def test_section_18_a_process_that_ends_between_two_tries_frees_what_the_call_had() -> None:
    pay = action("m.pay", [Input("order", "order", outdates=True)])
    said = Dialogue(pay, process(code("a", "", "<target>m.pay</target><retries>2</retries>", type="action")))
    said.add("<order/>")
    run = said.start("p", kind="process")
    said.erred("a")
    said.cancel(run)
    assert said.state(run) == "cancelled"
    assert not said.wishes(commands.CancelCall)
    assert not said.in_force[run].reserved


def test_section_18_a_failure_that_is_final_is_not_tried_again() -> None:
    said, _, state = began(code("a", custom="<retries>2</retries>"))
    said.answer(said.call_of("a"), problem=Failure("bad-property", "it has none", final=True))
    assert list(state.failed) == [1]


def test_section_18_a_process_fails_where_its_node_says_so_and_nothing_else_can_happen() -> None:
    said, run, _ = began(code("a", custom="<on-error>fail</on-error>"), code("b"))
    said.erred("a")
    assert said.state(run) == "executing"
    said.answer(said.call_of("b"), value=DONE)
    assert said.state(run) == "failed"
    assert said.finished[run].error == said.errors()[0].eid


def test_section_18_every_start_node_begins_whatever_another_does() -> None:
    said, run, state = began(code("a", custom="<timeout>soon</timeout>"), code("b"))
    assert (said.state(run), list(state.failed)) == ("executing", [1])
    assert under_way(said, "a", "b") == ["b"]


WAITING = recipe("g.r", step("s"), start="s", end="s"), action("m.s")


def test_section_18_a_run_that_takes_too_long_is_cancelled_and_has_failed() -> None:
    custom = "<target>g.r</target><timeout>5</timeout><retries>1</retries><backoff>2</backoff>"
    said = Dialogue(*WAITING, process(code("a", "", custom, type="recipe")))
    run = said.start("p", kind="process")
    first = said.call_of("a")
    said.passes(5)
    assert said.wishes(commands.CancelCall) == [commands.CancelCall(first.call)]
    said.answer(first, problem=Failure("run-cancelled", "it was cancelled", final=True))
    said.passes(4)
    assert said.call_of("a").call != first.call
    said.passes(5)
    assert (said.error()["type"], list(said.states[run].failed)) == ("timeout", [1])
    assert not said.wakes


def test_section_18_a_run_that_ends_in_time_leaves_no_time_limit() -> None:
    custom = "<target>g.r</target><timeout>5</timeout>"
    for how in ("returned", "erred", "cancelled"):
        said = Dialogue(*WAITING, process(code("a", "", custom, type="recipe")))
        run = said.start("p", kind="process")
        assert said.wakes
        if how == "cancelled":
            said.cancel(run)
        else:
            getattr(said, how)("a")
        assert not said.wakes
