"""Token sets, attributes, walks over tokens, and what is told of a process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from lxml import etree

from narval.core.definitions.prototype import Output
from narval.core.engines.events import Failure, OutputElement
from narval.core.engines.registry import engine_of
from narval.core.errors import InternalError
from narval.kinds.process.engine.changes import EVENT_OF_CHANGE, ProcessChange, ProcessCompleted
from narval.kinds.process.engine.engine import token_view
from narval.kinds.process.engine.tokens.views import environment_of
from narval.kinds.process.language.code import ALL_EVENTS
from tests.core.engines.dialogue import Dialogue, Refusal, action, decided

DIAMOND = """<process-definition name="p">
  <node name="a" type="wait" isStart="true"><arc to="b"/><arc to="c"/></node>
  <node name="b"><arc to="d"/></node>
  <node name="c"><arc to="d"/></node>
  <node name="d" type="wait" joinType="labelAnd"><custom><size unit="cm">5</size></custom></node>
</process-definition>"""


def diamond() -> tuple[Dialogue, int, Any]:
    said = Dialogue(DIAMOND)
    run = said.start("p", kind="process", environment={"who": "ada"})
    said.says(run, "complete", node="a")
    return said, run, said.states[run]


def test_section_8_attributes_of_a_token_lie_over_those_of_the_process() -> None:
    said, run, state = diamond()
    said.says(run, "environment", node="d", set={"who": "eve", "size": 3})
    assert dict(environment_of(state, state.nodes[state.newest["d"]])) == {"who": "eve", "size": "3"}
    assert state.environment == {"who": "ada"}
    said.says(run, "environment", node="d", set={"who": None})
    assert environment_of(state, state.nodes[state.newest["d"]])["who"] == "ada"


def test_section_17_a_child_has_what_its_parents_had_when_it_came_to_be() -> None:
    said, run, state = diamond()
    said.says(run, "environment", token=1, set={"late": "yes"})
    assert state.nodes[state.newest["d"]].environment == {}


C_WAITS = ('<node name="c">', '<node name="c" type="wait">')


def test_section_8_of_several_parents_the_later_wins() -> None:
    said = Dialogue(
        DIAMOND.replace('name="b"', 'name="b" type="wait"').replace('name="c"', 'name="c" type="wait"')
    )
    run = said.start("p", kind="process")
    said.says(run, "complete", node="a")
    for node in ("b", "c"):
        said.says(run, "environment", node=node, set={"from": node, node: True})
    said.says(run, "complete", node="c")
    said.says(run, "complete", node="b")
    state = said.states[run]
    assert state.nodes[state.newest["d"]].environment == {"from": "c", "b": "true", "c": "true"}


# --- token sets -------------------------------------------------------------------------------------------

SET = """<process-definition name="p">
  <node name="s" type="wait" isStart="true"><arc to="m"/></node>
  <node name="m" type="wait"><arc to="z"/><arc name="in" to="n"/></node>
  <node name="n" type="wait"><arc to="z"/></node>
  <node name="z" type="wait" joinType="{join}">{param}</node>
</process-definition>"""


def a_set(join: str = "tokenSet", param: str = "", count: int = 2, **more: Any) -> tuple[Dialogue, int, Any]:
    said = Dialogue(SET.format(join=join, param=param))
    run = said.start("p", kind="process")
    said.says(run, "complete", node="s", set={"name": "outer", "count": count, **more})
    said.says(run, "execute")
    return said, run, said.states[run]


def test_section_2_a_new_set_is_completed_without_running_the_queue() -> None:
    said = Dialogue(SET.format(join="or", param=""))
    run = said.start("p", kind="process")
    answer = said.says(run, "complete", node="s", set={"name": "outer", "count": 3})
    assert answer["state"] == "executing"
    assert said.states[run].queue.first is not None
    (wait,) = said.engines[run].waiting_for(said.definitions[run], said.states[run], {})
    assert wait.what == "person"


def test_section_2_without_arcs_there_is_no_set() -> None:
    said = Dialogue(SET.format(join="or", param=""))
    run = said.start("p", kind="process")
    answer = said.says(run, "complete", node="s", arcs=[], set={"name": "outer", "count": 3})
    assert answer["set"] is None
    assert not said.states[run].sets


def test_section_8_members_have_their_own_attributes_and_places_that_are_none_have_none() -> None:
    said, run, state = a_set(count=2, members={"group": ["x", "y", "z"]}, environment={"deadline": 3})
    (token_set,) = state.sets
    assert state.sets[token_set].members == {0: {"group": "x"}, 1: {"group": "y"}}
    with pytest.raises(Refusal, match="no member 2") as caught:
        said.says(run, "environment", of_set="outer", index=2, set={"a": 1})
    assert caught.value.kind == "no-set-member"
    said.says(run, "environment", of_set="outer", index=1, set={"a": 1})
    said.says(run, "environment", of_set="outer", set={"deadline": None})
    assert (state.sets[token_set].members[1], state.sets[token_set].environment) == (
        {"group": "y", "a": "1"},
        {},
    )


def test_section_7_what_waits_is_joined_when_the_last_other_member_merges_elsewhere() -> None:
    said = Dialogue("""<process-definition name="p">
      <node name="s" type="wait" isStart="true"><arc to="a"/><arc to="c"/></node>
      <node name="a" type="wait" joinType="tokenSet"/>
      <node name="c" type="wait" joinType="first" isStart="true"/>
    </process-definition>""")
    run = said.start("p", kind="process")
    said.says(run, "complete", node="s", set={"name": "S", "count": 2}, asynchronous=False)
    assert sorted(said.states[run].standing) == ["a", "c"]


def test_section_7_a_set_within_a_set_joins_by_itself_or_with_the_one_that_is_named() -> None:
    params = (("", 2, 1), ("<join>outer</join>", 3, 0), ("<join>unknown</join>", 2, 1))
    for param, parents, sets in params:
        said, run, state = a_set(param=param)
        first, second = state.standing["m"]
        answer = said.says(run, "complete", token=first, arcs=["in"], set={"name": "inner", "count": 2})
        said.says(run, "execute")
        assert state.sets[answer["set"]].level == 2
        said.says(run, "complete", token=second)
        for token in tuple(state.standing["n"]):
            said.says(run, "complete", token=token)
        passed = [token for token in state.nodes.values() if token.node == "z"]
        assert [(len(token.parents), len(token.sets)) for token in passed] == [(parents, sets)], param


def test_section_7_the_outer_set_is_passed_on_when_the_inner_one_ends() -> None:
    said, run, state = a_set()
    first, _ = state.standing["m"]
    said.says(run, "complete", token=first, arcs=["in"], set={"name": "inner", "count": 2})
    said.says(run, "execute")
    for token in tuple(state.standing["n"]):
        said.says(run, "complete", token=token)
    (outer, *_) = state.sets
    assert state.nodes[state.newest["z"]].sets == {outer: 0}


@pytest.mark.parametrize(("join", "state"), [("tokenSet", None), ("tokenSetOr", "executing")])
def test_section_17_a_token_of_no_set_is_an_error_or_goes_through(join: str, state: str | None) -> None:
    said = Dialogue(SET.format(join=join, param=""))
    run = said.start("p", kind="process")
    said.says(run, "complete", node="s")
    if state is None:
        with pytest.raises(Refusal, match="in no token set"):
            said.says(run, "complete", node="m")
    else:
        said.says(run, "complete", node="m")
        assert said.states[run].newest["z"]


@pytest.mark.parametrize("join", ["tokenSet", "tokenSetOr"])
def test_section_17_what_waits_goes_on_when_the_others_have_come_to_dead_ends(join: str) -> None:
    said, run, state = a_set(join, count=4)
    one, two, three, four = state.standing["m"]
    said.says(run, "complete", token=one)
    said.says(run, "complete", token=two)
    said.says(run, "complete", token=three, arcs=[])
    assert "z" not in state.newest
    said.says(run, "complete", token=four, arcs=[])
    assert len(state.nodes[state.newest["z"]].parents) == 2


def test_section_7_going_back_from_a_dead_end_has_the_set_wait_again() -> None:
    said, run, state = a_set(count=2)
    one, two = state.standing["m"]
    said.says(run, "complete", token=one, arcs=[])
    said.says(run, "backtrack", token=one)
    said.says(run, "complete", token=two)
    assert "z" not in state.newest
    said.says(run, "complete", node="m")
    assert len(state.nodes[state.newest["z"]].parents) == 2


# --- what is told -----------------------------------------------------------------------------------------


def test_a_portrait_has_all_that_code_may_know_of_a_token() -> None:
    said, run, state = diamond()
    found = token_view(said.definitions[run], state, state.newest["d"])
    assert found["node"]["name"] == "d"
    assert found["node"]["custom"] == {"size": "5", "sizeUnit": "cm"}
    about = {"run": run, "name": "test.p", "state": "executing", "environment": {"who": "ada"}}
    assert found["process"] == about
    assert [state.nodes[number].node for number in found["parents"]] == ["b", "c"]
    assert token_view(said.definitions[run], state, None) == {"process": about}


def test_memory_shows_the_process_with_its_tokens() -> None:
    said, run, state = diamond()
    said.says(run, "environment", node="d", set={"odd": "\x01<&>"})
    root = etree.fromstring(said.xml(run))
    assert (root.tag, root.get("state"), root.get("name")) == ("process", "executing", "p")
    assert [(node.get("node"), node.get("state")) for node in root.iter("token")] == [
        ("a", "complete"), ("b", "complete"), ("c", "complete"), ("d", "active"),
    ]  # fmt: skip
    assert root.findtext("token[@node='d']/attribute[@name='odd']") == "<&>"
    assert root.findtext("attribute[@name='who']") == "ada"
    assert state.status == root.get("state")


def test_every_part_has_a_reason_and_a_state() -> None:
    said, run, state = diamond()
    engine, definition = said.engines[run], said.definitions[run]
    assert "token 7 is active" not in str(engine.explain(definition, state, "a"))
    assert "is active" in str(engine.explain(definition, state, "d"))
    assert "completed" in str(engine.explain(definition, state, "a"))
    assert engine.explain(definition, state, "nobody") is None
    assert engine.explain(definition, state, None) is None
    states = {node["id"]: node["state"] for node in engine.parts(definition, state)["nodes"]}
    assert states == {"a": "complete", "b": "complete", "c": "complete", "d": "active"}
    said.says(run, "complete", node="d")
    assert engine.explain(definition, state, None) == "no token was active any more"


def test_what_breaks_down_ends_where_it_stands_and_gives_its_calls_up_to_who_noticed() -> None:
    said, run, state = diamond()
    changes, commands = decided(
        said.engines[run], said.definitions[run], state, said.heard[0].event, said, 99
    )
    assert (state.status, state.error) == ("failed", 99)
    assert [type(command).__name__ for command in commands] == ["Finish"]
    assert changes


def test_section_3_the_bits_of_events_are_those_of_the_source() -> None:
    assert [name for name, _ in sorted(EVENT_OF_CHANGE.values(), key=lambda event: event[1])] == [
        "PROCESS_CREATED", "PROCESS_STARTED", "PROCESS_PENDING_COMPLETE", "PROCESS_COMPLETED",
        "PROCESS_PENDING_CANCEL", "PROCESS_CANCELED", "NODE_TOKEN_CREATED", "NODE_TOKEN_ACCEPTED",
        "NODE_TOKEN_EXECUTED", "NODE_TOKEN_DISCARDED", "NODE_TOKEN_SKIPPED", "NODE_TOKEN_COMPLETED",
        "NODE_TOKEN_BACKTRACKED", "ARC_TOKEN_CREATED", "ARC_TOKEN_PROCESSED", "ARC_TOKEN_COMPLETED",
        "ARC_TOKEN_BACKTRACKED", "ARC_TOKEN_MERGED", "NODE_TOKEN_DELAYED", "ARC_TOKEN_INCOMPLETE_JOIN",
    ]  # fmt: skip
    assert EVENT_OF_CHANGE.keys() <= {change.__name__ for change in ProcessChange.types()}


def test_a_process_without_a_start_node_fails_and_says_so() -> None:
    said = Dialogue('<process-definition name="p"><node name="a"/></process-definition>')
    run = said.start("p", kind="process")
    assert said.state(run) == "failed"
    assert said.error()["type"] == "no-start-node"


def test_a_listener_that_fails_is_told_of_and_stops_nothing() -> None:
    said = Dialogue(DIAMOND)
    said.listeners = {"broken": ALL_EVENTS}
    run = said.start("p", kind="process")
    said.says(run, "complete", node="a")
    assert list(said.states[run].standing) == ["d"]
    assert {error.attributes["type"] for error in said.errors()} == {"unknown-function"}


def test_what_was_gone_back_from_is_no_result() -> None:
    said = Dialogue(
        '<process-definition name="p"><node name="a" type="own" isStart="true"><arc to="b"/></node>'
        '<node name="b" type="wait"/></process-definition>'
    )
    said.node_types = {"own": frozenset({"execute"})}
    run = said.start("p", kind="process")
    for text in ("<first/>", "<second/>"):
        done = {"effects": [{"do": "complete", "arcs": [""]}]}
        said.answer(said.call_of("a"), elements=(OutputElement(text.encode()),), value=done)
        if text == "<first/>":
            said.says(run, "backtrack", node="a")
    said.says(run, "complete", node="b")
    assert [said.xml(eid) for eid in said.finished[run].eids] == ["<second/>"]


def test_a_move_that_no_table_lists_raises_with_the_story_of_the_process() -> None:
    state = engine_of("process").state_type.blank(7, SimpleNamespace(full_name="t.p"))
    with pytest.raises(
        InternalError,
        match=r"process 7 of t\.p \(created\): .* cannot go from created to completed; so far: ",
    ):
        ProcessCompleted(1.0).apply(state)


THERE = """<process-definition name="p"><node name="a" isStart="true" type="recipe"><custom>
<target>s.pays</target><agent>shop</agent><timeout>50</timeout></custom></node></process-definition>"""


@pytest.mark.parametrize(("final", "kind"), [(True, "not-offered"), (False, "timeout")])
def test_a_final_problem_of_a_call_that_was_given_up_stays(final: bool, kind: str) -> None:
    said = Dialogue(THERE)
    run = said.start("p", kind="process")
    said.answer(said.call_of("a", run), problem=Failure("not-offered", "no", final=final), abandoned=True)
    assert said.error()["type"] == kind


def test_another_agent_is_sent_only_what_was_made_nearest_to_the_token() -> None:
    made = '<node name="{0}" type="action"{2}><custom><target>m.{0}</target></custom><arc to="{1}"/></node>'
    before = (
        made.format("a", "b", ' isStart="true"')
        + made.format("b", "c", "")
        + '<node name="c"><arc to="d"/></node>'
    )
    there = '<node name="d" type="recipe"><custom><target>s.pays</target><agent>shop</agent></custom></node>'
    makes = (action(f"m.{name}", outputs=[Output("x", "x")]) for name in "ab")
    said = Dialogue(*makes, f'<process-definition name="p">{before}{there}</process-definition>')
    said.start("p", kind="process")
    for name in "ab":
        said.answer(said.call_of(name), elements=(OutputElement(f"<x of='{name}'/>".encode(), "x"),))
    assert [said.xml(eid) for eid in said.call_of("d").elements] == ["<x of='b'/>"]
