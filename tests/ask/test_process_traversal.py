"""Traversals: what came of a token, and what it came of, for Python and for code of nodes (section 12)."""

from __future__ import annotations

import pytest

from narval.core.errors import NoTokenError, RequestError
from tests.ask.processes import Agent, At

FORK = (
    "<node name='a' type='wait' isStart='true'><arc to='b'/><arc to='c'/></node>"
    "<node name='b'><arc to='d'/></node><node name='c'><arc to='d'/></node>"
    "<node name='d' type='wait' joinType='and'><arc to='e'/></node><node name='e' type='look'/>"
)
"""Tokens: 1 on a; arcs 2, 3; b 4, its arc 5; c 6, its arc 7; d 8; its arc 9; e 10."""

LOOK = """
@node_type("look", runs="RUNS")
class Look:
    def execute(self, token):
        def found(name):
            near = token.nearest(name)
            return "none" if near is None else f"{near.id} {near.environment.get('who', '')}"
        for name in ("a", "d", "e", "x"):
            token.process.environment.set(name, found(name))

@predicate("cameByC")
def came_by_c(token): return token.nearest("c") is not None
"""


def walked(agent: Agent, run: int, token: int, **how: str) -> list[int]:
    return [row["id"] for row in agent.traverse(run, token, **how)["tokens"]]


@pytest.fixture
def forked(at: At) -> tuple[Agent, int]:
    agent, run = at(FORK.replace("look", "wait"))
    agent.complete(run, node="a")
    agent.until_idle()
    agent.complete(run, node="d")
    agent.until_idle()
    assert [row["node"] for row in agent.tokens(run)["tokens"]] == ["a", "b", "c", "d", "e"]
    return agent, run


def test_section_12_tokens_are_walked_in_each_order_and_direction(forked: tuple[Agent, int]) -> None:
    agent, run = forked
    assert walked(agent, run, 1) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert walked(agent, run, 1, order="breadth") == [1, 2, 3, 4, 6, 5, 7, 8, 9, 10]
    assert walked(agent, run, 1, order="depth") == [1, 2, 4, 5, 8, 9, 10, 3, 6, 7]
    assert walked(agent, run, 8, direction="back") == [8, 7, 6, 5, 4, 3, 2, 1]
    assert walked(agent, run, 8, direction="back", order="breadth") == [8, 5, 7, 4, 6, 2, 3, 1]
    assert walked(agent, run, 8, direction="back", order="depth") == [8, 5, 4, 2, 1, 7, 6, 3]
    assert walked(agent, run, 7) == [7, 8, 9, 10]


def test_section_12_what_is_walked_is_shown_as_tokens_are(forked: tuple[Agent, int]) -> None:
    agent, run = forked
    found = {row["id"]: row for key in ("tokens", "arc_tokens") for row in agent.tokens(run)[key]}
    assert agent.traverse(run, 6)["tokens"] == [found[number] for number in (6, 7, 8, 9, 10)]


def test_section_12_a_walk_that_cannot_be_is_refused(forked: tuple[Agent, int]) -> None:
    agent, run = forked
    with pytest.raises(NoTokenError, match="no token 99"):
        agent.traverse(run, 99)
    with pytest.raises(RequestError, match="expected creation or breadth or depth, got 'up'"):
        agent.traverse(run, 1, order="up")
    with pytest.raises(RequestError, match="expected forward or back"):
        agent.traverse(run, 1, direction="down")


@pytest.mark.parametrize("runs", ["thread", "inline", "worker"])
def test_section_12_code_finds_the_nearest_token_on_a_node(at: At, runs: str) -> None:
    agent, run = at(FORK, LOOK, runs)
    agent.environment(run, 1, {"who": "Ann"})
    agent.complete(run, node="a")
    agent.until_idle()
    agent.complete(run, node="d")
    agent.until_idle()
    assert agent.environment(run) == {"a": "1 Ann", "d": "8 Ann", "e": "10 Ann", "x": "none"}


def test_section_12_one_that_was_gone_back_from_is_not_found(at: At) -> None:
    agent, run = at(FORK, LOOK)
    agent.complete(run, node="a")
    agent.until_idle()
    agent.backtrack(run, node="a")
    agent.until_idle()
    agent.complete(run, node="a")
    agent.until_idle()
    agent.complete(run, node="d")
    agent.until_idle()
    newest = {row["node"]: row["id"] for row in agent.tokens(run)["tokens"] if row["state"] == "complete"}
    assert agent.environment(run)["a"].split() == [str(newest["a"])]


def test_section_12_a_predicate_may_look_for_one(at: At) -> None:
    guard = "<guard>IF cameByC THEN Accept ELSE Discard</guard>"
    agent, run = at(FORK.replace("type='look'/>", f">{guard}</node>"), LOOK)
    agent.complete(run, node="a")
    agent.until_idle()
    agent.complete(run, node="d")
    agent.until_idle()
    assert agent.tokens(run)["tokens"][-1]["state"] == "complete"
