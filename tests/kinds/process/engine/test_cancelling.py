"""Nodes that cancel tokens, and arcs that go back (section 2, docs/explanation/workflow-patterns.md)."""

from __future__ import annotations

from typing import Any

import pytest

from narval.core.definitions.library import Library
from narval.core.definitions.parsing import parse
from narval.core.engines.commands import CancelCall
from narval.core.errors import DefinitionError
from narval.core.source.text import Source
from narval.kinds.process.engine.explain import explain, parts
from narval.kinds.process.engine.tokens import flow
from narval.kinds.process.language import checks
from tests.core.engines.dialogue import Dialogue, Refusal, action

RACE = """<process-definition name="p">
  <node name="s" isStart="true"><arc to="a"/><arc to="b"/></node>
  <node name="a" type="wait"><cancel node="b"/><cancel node="z"/><arc to="z"/></node>
  <node name="b" type="action"><custom><target>t.act</target></custom><arc to="z"/></node>
  <node name="z" joinType="and"/>
</process-definition>"""


def states(said: Dialogue, run: int) -> dict[str, str]:
    found = parts(said.definitions[run], said.states[run])
    return {node["id"]: node["state"] for node in found["nodes"]}


def test_a_node_that_is_done_cancels_tokens_and_gives_their_calls_up() -> None:
    said = Dialogue(action("t.act"), RACE)
    run = said.start("p", kind="process")
    said.says(run, "complete", node="a")
    assert said.wishes(CancelCall) != []
    assert states(said, run)["b"] == "cancelled"
    assert explain(said.definitions[run], said.states[run], "b") == (
        "node b is cancelled: token 5 was cancelled when token 4 left a"
    )
    assert said.state(run) == "executing", "z waits for the one that comes no more"


def test_what_waits_on_an_arc_to_a_cancelled_node_is_cancelled_too() -> None:
    said = Dialogue(action("t.act"), RACE)
    run = said.start("p", kind="process")
    said.returned("b", run=run)
    assert len(said.states[run].active_arcs) == 1
    said.says(run, "complete", node="a")
    (waiting,) = (said.states[run].arcs[number] for number in said.states[run].active_arcs)
    assert said.states[run].nodes[waiting.parent].node == "a", "its own comes after"


def test_section_11_going_back_past_what_was_cancelled_makes_it_anew() -> None:
    said = Dialogue(action("t.act"), RACE.replace('name="s"', 'name="s" type="wait"'))
    run = said.start("p", kind="process")
    said.says(run, "complete", node="s")
    said.says(run, "complete", node="a")
    said.says(run, "backtrack", node="s")
    assert states(said, run)["s"] == "active"
    said.says(run, "complete", node="s")
    assert (states(said, run)["a"], states(said, run)["b"]) == ("active", "active")


def test_section_11_one_can_go_back_to_a_token_that_was_cancelled() -> None:
    said = Dialogue(action("t.act"), RACE)
    run = said.start("p", kind="process")
    said.says(run, "complete", node="a")
    said.says(run, "backtrack", token=said.states[run].newest["b"])
    assert states(said, run)["b"] == "active"


WHOLE = """<process-definition name="p">
  <node name="s" isStart="true"><arc to="a"/><arc to="b"/><arc to="c"/></node>
  <node name="a" type="wait"><arc to="end"/></node>
  <node name="b" type="wait"><guard>DELAY UNTIL 1 day after now</guard></node>
  <node name="c" type="nested"><custom><graph name="inner"/></custom></node>
  <node name="end"><cancel/></node>
</process-definition>"""
INNER = '<process-definition name="inner"><node name="w" type="wait" isStart="true"/></process-definition>'


def test_a_cancel_without_a_node_ends_all_else() -> None:
    said = Dialogue(INNER, WHOLE.replace("DELAY UNTIL 1 day after now", "Accept"))
    run = said.start("p", kind="process")
    said.says(run, "complete", node="a")
    assert said.state(run) == "completed"
    assert len(said.wishes(CancelCall)) == 1
    assert [token.node for token in said.states[run].nodes.values() if token.cancelled] == ["b", "c"]


def test_the_end_of_an_external_ends_what_is_of_it() -> None:
    inner = """<process-definition name="inner">
      <node name="w" type="wait"><arc to="end"/></node><node name="v" type="wait"/>
      <node name="end"><cancel/></node></process-definition>"""
    outer = """<process-definition name="p">
      <node name="s" isStart="true">
        <arc external="x" to="w"/><arc external="x" to="v"/><arc to="mine"/></node>
      <node name="mine" type="wait"/>
      <external name="x" processDefinition="inner"/></process-definition>"""
    said = Dialogue(inner, outer)
    run = said.start("p", kind="process")
    said.says(run, "complete", node="x:w")
    assert states(said, run)["x:v"] == "cancelled"
    assert states(said, run)["mine"] == "active"


def test_section_7_members_that_wait_go_on_when_the_others_are_cancelled() -> None:
    said = Dialogue("""<process-definition name="p">
      <node name="s" type="wait" isStart="true"><arc to="a"/></node>
      <node name="a" type="wait"><arc to="z"/><arc to="end" name="end"/></node>
      <node name="end"><cancel node="a"/></node>
      <node name="z" type="wait" joinType="tokenSet"/></process-definition>""")
    run = said.start("p", kind="process")
    said.says(run, "complete", node="s", set={"name": "set", "count": 3})
    said.says(run, "execute")
    first, second, _ = said.states[run].standing["a"]
    said.says(run, "complete", token=first)
    said.says(run, "complete", token=second, arcs=["end"])
    assert states(said, run)["z"] == "active"


# --- arcs that go back ----------------------------------------------------------------------------------

BACK = """<process-definition name="p">
  <node name="s" type="wait" isStart="true"><arc to="a"/><arc to="b"/></node>
  <node name="a" type="wait"><arc to="z"/></node>
  <node name="b" type="wait"><arc to="z"/><arc to="s" name="no" back="true"/></node>
  <node name="z" type="wait" joinType="and"/>
</process-definition>"""


def at_b(text: str = BACK, *more: Any) -> tuple[Dialogue, int]:
    said = Dialogue(*more, text)
    run = said.start("p", kind="process")
    said.says(run, "complete", node="s")
    return said, run


def test_section_11_an_arc_that_goes_back_undoes_all_that_came_of_its_end() -> None:
    said, run = at_b()
    said.says(run, "complete", node="a")
    answer = said.says(run, "complete", node="b", arcs=["no"])
    assert answer["exits"] == 1
    assert {node: state for node, state in states(said, run).items() if node != "z"} == {
        "s": "active",
        "a": "backtracked",
        "b": "backtracked",
    }
    assert [type(change).__name__ for change in said.decided].count("WayBackTaken") == 1
    said.says(run, "complete", node="s")
    said.says(run, "complete", node="a")
    said.says(run, "complete", node="b")
    said.says(run, "complete", node="z")
    assert said.state(run) == "completed"


def test_an_arc_that_goes_back_is_none_that_a_join_waits_for() -> None:
    said, run = at_b(BACK.replace('name="s" type="wait"', 'name="s" type="wait" joinType="and"'))
    said.says(run, "complete", node="b", arcs=["no"])
    assert states(said, run)["s"] == "active"


def test_a_guard_that_skips_takes_a_way_back_too() -> None:
    said, run = at_b(
        BACK.replace('name="b" type="wait">', 'name="b"><guard type="xpath" else="Skip no">ok</guard>')
    )
    assert states(said, run)["s"] == "active"
    said.arrives("<ok/>")
    said.says(run, "complete", node="s")
    assert states(said, run)["b"] == "complete"


def test_where_nothing_came_from_there_one_is_told_and_nothing_changes() -> None:
    said = Dialogue(BACK.replace('to="s" name="no"', 'to="z" name="no"'))
    run = said.start("p", kind="process")
    said.says(run, "complete", node="s")
    with pytest.raises(Refusal) as refused:
        said.says(run, "complete", node="b", arcs=["no"])
    assert refused.value.kind == "no-way-back"
    assert states(said, run)["b"] == "active"
    said.says(run, "complete", node="b")


def test_where_nobody_asked_the_token_stays_and_an_error_tells() -> None:
    text = BACK.replace('to="s" name="no"', 'to="z" name="error"').replace(
        'name="b" type="wait"', 'name="b" type="action"'
    )
    said, run = at_b(
        text.replace('back="true"/>', 'back="true"/><custom><target>t.act</target></custom>'), action("t.act")
    )
    said.erred("b", run=run)
    assert [error.attributes["type"] for error in said.errors()][-1] == "no-way-back"
    assert states(said, run)["b"] == "failed"


def test_section_17_a_loop_that_only_goes_back_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "LAPS", 3)
    monkeypatch.setattr(flow, "MOVED_AT_ONCE", 50)
    said = Dialogue("""<process-definition name="p">
      <node name="s" isStart="true"><arc to="a"/></node>
      <node name="a"><guard>Skip no</guard><arc to="s" name="no" back="true"/></node></process-definition>""")
    run = said.start("p", kind="process")
    while said.states[run].paused:
        said.wakes_up(said.states[run].paused)
    assert said.state(run) == "failed"
    assert said.error()["type"] == "endless"


# --- what is checked ------------------------------------------------------------------------------------


def test_N13_a_cancel_of_a_node_that_is_not_there_is_a_fault_at_its_place() -> None:
    with pytest.raises(DefinitionError) as raised:
        parse(Source("p.xml", RACE.replace('cancel node="b"', 'cancel node="c"').encode())).checked()
    assert (
        str(raised.value) == "p.xml:3:44: expected the name of a node, found 'c'; there is 'a', 'b', 's', 'z'"
    )


def test_a_way_back_to_where_no_way_leads_from_is_warned_of() -> None:
    (found,) = parse(Source("p.xml", BACK.replace('to="s" name="no"', 'to="z" name="no"').encode())).checked()
    (warning,) = checks.warnings([found], Library([found]))
    assert warning.message.startswith("no way leads from 'z' to 'b', so no token can go back")
    assert warning.line == 4
