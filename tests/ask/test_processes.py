"""Operations on processes: complete, go back, attributes, sets of tokens; and how they are drawn."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

import narval
from narval.ask.asker import Asker
from narval.core.errors import (
    NotBacktrackableError,
    NotExecutingError,
    NotFoundError,
    NoTokenError,
    RequestError,
    TokenCompleteError,
    TokenError,
)
from narval.surfaces.cli.render.graphs import svg
from tests.ask.processes import LINE, At, nodes, problem, standing, state

# --- operations -------------------------------------------------------------------------------------------


def test_a_token_is_completed_by_its_node_or_its_id_on_the_arcs_of_a_name(at: At) -> None:
    agent, run = at(LINE)
    assert agent.complete(run, node="a")["state"] == "executing"
    assert standing(agent, run) == [("a", "complete"), ("b", "active")]
    [token] = [row["id"] for row in agent.tokens(run)["tokens"] if not row["complete"]]
    assert agent.complete(run, token=token)["state"] == "completed"
    again = agent.start("w.p")
    agent.until_idle()
    agent.complete(again, node="a", arcs=["no"])
    assert standing(agent, again) == [("a", "complete"), ("c", "complete")]


def test_a_process_has_the_labels_of_who_acts_on_it(at: At) -> None:
    agent, run = at(LINE)
    agent.asker = Asker("bot", labels=("bot",))
    agent.ask("complete", run=run, node="a")
    labels = agent.daemon.agent.memory.labels
    assert labels.names(labels.own(run)) == ("bot",)


def test_the_id_of_a_token_in_place_of_a_node_is_told_apart(at: At) -> None:
    agent, run = at(LINE)
    [token] = [row["id"] for row in agent.tokens(run)["tokens"]]
    with pytest.raises(
        NoTokenError, match=rf"no node {token}; that is the id of a token: name it as the token"
    ):
        agent.complete(run, node=str(token))
    with pytest.raises(NoTokenError, match=r"has no node 99$"):
        agent.complete(run, node="99")


def test_an_unknown_arc_is_refused_with_the_arcs_there_are(at: At) -> None:
    agent, run = at(LINE)
    with pytest.raises(
        TokenError, match="no arc 'nowhere' leaves a; there is the default one, 'no'"
    ) as caught:
        agent.complete(run, node="a", arcs=["no", "nowhere"])
    assert caught.value.kind == "no-arc"
    assert standing(agent, run) == [("a", "active")]


def test_no_arcs_at_all_are_no_exits_and_none_given_the_default_ones(at: At) -> None:
    agent, run = at(LINE)
    told = agent.complete(run, node="a", arcs=[])
    assert (told["exits"], told["state"]) == (0, "completed")
    assert standing(agent, run) == [("a", "complete")]


def test_a_token_that_leaves_as_a_set_goes_on_unless_that_is_asynchronous(at: At) -> None:
    agent, run = at(LINE)
    agent.complete(run, node="a", set={"name": "them", "count": 2}, asynchronous=True)
    assert standing(agent, run) == [("a", "complete")]
    agent.execute_queued(run)
    assert standing(agent, run) == [("a", "complete"), ("b", "active"), ("b", "active")]
    again = agent.start("w.p")
    agent.until_idle()
    agent.complete(again, node="a", set={"name": "them", "count": 2})
    assert standing(agent, again) == [("a", "complete"), ("b", "active"), ("b", "active")]


def test_tokens_are_shown_as_they_are_documented(at: At) -> None:
    agent, run = at(LINE)
    agent.complete(run, node="a")
    told = agent.tokens(run)
    token, arc = told["tokens"][0], told["arc_tokens"][0]
    shown = {
        key: token[key] for key in ("node", "external", "complete", "guard_action", "execution_type", "sets")
    }
    assert shown == {
        "node": "a", "external": None, "complete": True, "guard_action": "AcceptToken",
        "execution_type": "Forward", "sets": [],
    }  # fmt: skip
    assert {key: arc[key] for key in ("arc", "from", "to", "pending", "complete", "execution_type")} == {
        "arc": None, "from": "a", "to": "b", "pending": False, "complete": True, "execution_type": "Forward",
    }  # fmt: skip
    assert (arc["parent"], arc["child"]) == (token["id"], told["tokens"][1]["id"])


def refused(error: type[TokenError], what: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        what()
    assert type(caught.value) is error
    return caught.value.kind


def test_what_is_asked_wrongly_is_refused_with_a_typed_error(at: At) -> None:
    agent, run = at(LINE)
    other = agent.start("w.p")
    agent.until_idle()
    foreign = agent.tokens(other)["tokens"][0]["id"]
    agent.complete(run, node="a")
    first, second = (row["id"] for row in agent.tokens(run)["tokens"])
    assert refused(TokenCompleteError, lambda: agent.complete(run, token=first)) == "token-complete"
    assert refused(NoTokenError, lambda: agent.complete(run, token=foreign + 1000)) == "no-token"
    assert refused(NoTokenError, lambda: agent.complete(run, node="c")) == "no-token"
    assert refused(NoTokenError, lambda: agent.complete(run, node="nobody")) == "no-token"
    assert refused(NotBacktrackableError, lambda: agent.backtrack(run, token=second)) == "not-complete"
    assert refused(NoTokenError, lambda: agent.environment(run, 9999)) == "no-token"
    assert refused(TokenError, lambda: agent.ask("finalize", run=run)) == "not-pending"
    agent.cancel(run)
    assert refused(NotExecutingError, lambda: agent.complete(run, node="b")) == "cancelled"
    assert refused(NotExecutingError, lambda: agent.backtrack(run, node="a")) == "cancelled"
    with pytest.raises(RequestError, match="there is no run 99999"):
        agent.complete(99999, node="a")


def test_several_tokens_on_a_node_want_one_named(at: At) -> None:
    agent, run = at(
        "<node name='a' isStart='true'><arc to='b'/><arc to='b'/></node><node name='b' type='wait'/>"
    )
    assert refused(NoTokenError, lambda: agent.complete(run, node="b")) == "ambiguous"
    for token in [row["id"] for row in agent.tokens(run)["tokens"] if row["node"] == "b"]:
        agent.complete(run, token=token)
    assert state(agent, run) == "completed"


def test_only_a_process_has_tokens(at: At) -> None:
    agent, _ = at(LINE)
    agent.load(
        "<recipe group='g' name='r' start_step='a' end_step='a'>"
        "<step id='a' type='process' target='w.p'/></recipe>"
    )
    plan = agent.start("g.r")
    agent.until_idle()
    with pytest.raises(RequestError, match="is a plan: only a process has tokens"):
        agent.tokens(plan)
    agent.load("<automaton group='a' name='a'><state name='start' command='true'/></automaton>")
    with pytest.raises(RequestError, match="is an automaton: only a process has tokens"):
        agent.tokens(agent.start("a.a"))
    with pytest.raises(RequestError, match="expected an environment as values by name, got 'x'"):
        agent.start("w.p", environment="x")  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="only a process, a task or a dataflow has an environment"):
        agent.start("g.r", environment={"a": 1})


def test_going_back_undoes_and_stands_there_again(at: At) -> None:
    agent, run = at(LINE)
    agent.complete(run, node="a")
    token = agent.backtrack(run, node="a")["token"]
    rows = {row["id"]: row for row in agent.tokens(run)["tokens"]}
    assert (rows[token]["node"], rows[token]["state"]) == ("a", "active")
    assert standing(agent, run)[:2] == [("a", "backtracked"), ("b", "backtracked")]
    agent.complete(run, node="a")
    assert agent.complete(run, node="b")["state"] == "completed"


def test_attributes_are_set_and_read_from_outside(at: At) -> None:
    agent, run = at(LINE, colour="red")
    assert agent.environment(run, values={"size": 3, "wet": True}) == {
        "colour": "red",
        "size": "3",
        "wet": "true",
    }
    token = agent.tokens(run)["tokens"][0]["id"]
    assert agent.environment(run, token, {"size": 4})["size"] == "4"
    assert (agent.environment(run)["size"], agent.environment(run, token)["size"]) == ("3", "4")
    agent.complete(run, node="a")
    child = agent.tokens(run)["tokens"][1]["id"]
    assert agent.environment(run, child)["size"] == "4"
    assert "wet" not in agent.environment(run, values={"wet": None})


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({"a": "\ud800"}, "'a': expected Unicode text, got half a character"),
        ({"\ud800": "a"}, "expected Unicode text, got half a character"),
        ({"": "a"}, "expected the name of an attribute, got ''"),
        ({"a": "x" * 1_000_001}, "'a': expected at most 1,000,000 characters, got 1,000,001"),
        ({"a": object()}, "no converter for object"),
    ],
)
def test_what_no_environment_can_hold_is_refused_and_nothing_has_changed(
    at: At, values: dict[str, Any], wanted: str
) -> None:
    agent, run = at(LINE)
    with pytest.raises(RequestError, match=wanted):
        agent.environment(run, values=values)
    with pytest.raises(RequestError, match=wanted):
        agent.start("w.p", environment=values)
    with pytest.raises(RequestError, match=wanted):
        agent.complete(run, node="a", set={"name": "s", "count": 1, "environment": values})
    assert agent.environment(run) == {}


@pytest.mark.parametrize("value", ["", "\x00\x1b[2J", "</attribute>&<!--", "\u202e\ufeff", "x" * 1_000_000])
def test_hostile_texts_are_only_texts(at: At, value: str) -> None:
    agent, run = at(LINE)
    agent.environment(run, values={"a": value, "</b> c='": "x"})
    assert agent.environment(run)["a"] == value
    [shown] = agent.memory("process")
    etree.fromstring(shown.xml)
    assert agent.complete(run, node="a")["state"] == "executing"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ({"count": 2}, "expected the name of the set"),
        ({"name": "s", "count": 10**9}, "expected a count from 1 to 100,000"),
        ({"name": "s", "count": True}, "expected a count from 1 to 100,000"),
        ({"name": "s", "count": 2, "members": {"a": "xy"}}, "attributes as lists"),
        ({"name": "s", "count": 2, "size": 3}, "not 'size'"),
    ],
)
def test_a_set_of_tokens_that_is_none_is_refused(at: At, made: dict[str, Any], wanted: str) -> None:
    agent, run = at(LINE)
    with pytest.raises(RequestError, match=wanted):
        agent.complete(run, node="a", set=made)
    assert standing(agent, run) == [("a", "active")]


def test_a_token_is_completed_with_a_new_set_of_tokens(at: At) -> None:
    agent, run = at(
        "<node name='a' type='wait' isStart='true'><arc to='b'/></node>"
        "<node name='b' type='wait'><arc to='c'/></node>"
        "<node name='c' type='wait' joinType='tokenSet'><join>votes</join></node>"
    )
    made = {"name": "votes", "count": 3, "environment": {"due": 5}, "members": {"who": ["x", "y", "z"]}}
    agent.complete(run, node="a", set=made)
    agent.execute_queued(run)
    members = [row for row in agent.tokens(run)["tokens"] if row["node"] == "b"]
    assert [row["sets"] for row in members] == [["votes[0]"], ["votes[1]"], ["votes[2]"]]
    before = len(agent.history(run))
    assert agent.environment(run, of_set="votes") == {"due": "5"}
    assert agent.environment(run, of_set="votes", index=1) == {"who": "y"}
    assert agent.environment(run, members[2]["id"], of_set="votes", index=2) == {"who": "z"}
    assert refused(TokenError, lambda: agent.environment(run, of_set="guests")) == "no-set-member"
    assert refused(NoTokenError, lambda: agent.environment(run, 9999, of_set="votes")) == "no-token"
    assert len(agent.history(run)) == before
    assert agent.environment(run, values={"due": 6}, of_set="votes") == {"due": "6"}
    for row in members:
        agent.complete(run, token=row["id"])
    assert standing(agent, run)[-1] == ("c", "active")


def test_what_is_completed_asynchronously_waits_to_be_executed(at: At) -> None:
    agent, run = at(LINE)
    agent.complete(run, node="a", asynchronous=True)
    assert standing(agent, run) == [("a", "complete")]
    assert [row["pending"] for row in agent.tokens(run)["arc_tokens"]] == [True]
    agent.execute_queued(run)
    assert standing(agent, run) == [("a", "complete"), ("b", "active")]


# --- drawings ---------------------------------------------------------------------------------------------


def test_a_process_is_drawn_with_its_tokens_in_their_colours(at: At) -> None:
    agent, run = at(
        "<node name='a' type='wait' isStart='true'><arc to='b'/>"
        "<arc name='say &quot;no&quot;' to='&lt;c&gt;'/></node>"
        "<node name='b' type='wait'/><node name='&lt;c&gt;'><guard>Discard</guard></node>"
    )
    agent.complete(run, node="a")
    agent.backtrack(run, node="a")
    agent.complete(run, node="a", arcs=['say "no"'])
    dot = agent.ask("graph", run=run)["dot"]
    assert 'fillcolor="#f5b7b1"' in dot  # discarded
    assert 'BGCOLOR="#b9c7f2"' in dot  # backtracked
    assert 'BGCOLOR="#c9e9c3"' in dot  # complete
    if shutil.which("dot") is not None:
        drawn = etree.fromstring(svg(dot))
        titles = [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}title")]
        told = [node.get("{http://www.w3.org/1999/xlink}title") or "" for node in drawn.iter()]
        assert {"a", "b", "<c>"} <= set(titles)
        assert any("token 1, backtracked, ForwardBacktracked" in title for title in told)


def test_section_18_without_a_start_node_nothing_is_started(at: At) -> None:
    agent, _ = at(LINE)
    agent.load(nodes("<node name='a'/>", "q"))
    assert refused(TokenError, lambda: agent.start("text.q")) == "no-start-node"
    assert [run["name"] for run in agent.runs()] == ["w.p"]


@pytest.mark.parametrize("type", ["nested", "process"])
def test_section_18_without_a_start_node_nothing_is_nested(at: At, type: str) -> None:
    agent, _ = at(LINE)
    agent.load(nodes("<node name='a'/>", "q"))
    named = "<graph name='text.q'/>" if type == "nested" else "<target>text.q</target>"
    agent.load(nodes(f"<node name='a' type='{type}' isStart='true'><custom>{named}</custom></node>", "r"))
    run = agent.start("text.r")
    agent.until_idle()
    assert problem(agent, run) == (
        "no-start-node",
        'process text.q cannot be started: no node has isStart="true"',
    )
    assert [run["name"] for run in agent.runs()] == ["w.p", "text.r"]


def test_section_18_start_plan_waits_for_a_start_node(tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "w.xml").write_text(nodes("<node name='a'/>"))
    with narval.open(tmp_path) as agent:
        agent.add("<start-plan recipe='w.p'/>")
        agent.until_idle()
        (error,) = agent.memory("error")
        assert (error.attributes["type"], agent.runs()) == ("no-start-node", [])
        assert "it waits until then" in error.text
        agent.ask("reload")
        assert (len(agent.memory("error")), agent.runs()) == (1, [])
        (recipes / "w.xml").write_text(nodes("<node name='a' isStart='true'/>"))
        agent.ask("reload")
        agent.until_idle()
        assert [run["name"] for run in agent.runs()] == ["w.p"]


def test_N11_why_of_a_node_that_is_not_there_names_those_that_are(at: At) -> None:
    agent, run = at(LINE)
    for operation in ("why", "part"):
        with pytest.raises(NotFoundError, match=rf"there is no 'x' in run {run} of w\.p; it has a, b, c$"):
            agent.ask(operation, run=run, id="x")


def test_N11_why_of_a_node_names_the_token_that_waits_and_the_one_that_failed(at: At) -> None:
    once = """
ASKED = []

@predicate("once")
def once(token):
    ASKED.append(token)
    if len(ASKED) > 1:
        raise ValueError("asked twice")
    return True
"""
    starts = "".join(f"<node name='{name}' isStart='true'><arc to='w'/></node>" for name in "ab")
    condition = "<guard>IF once THEN Accept ELSE Discard</guard><condition><match>go</match></condition>"
    agent, run = at(f"{starts}<node name='w' type='wait'>{condition}</node>", once)
    waits = agent.why(run, "w")["waiting"]
    assert [(wait["for"], [one["pattern"] for one in wait["conditions"]]) for wait in waits] == [
        ("condition", ["go"]),
        ("person", []),
    ]
    assert "narval rerun" in waits[1]["text"]
