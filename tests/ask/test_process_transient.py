"""Transient attributes: objects that code keeps with tokens while the daemon lives (sections 8, 9 and 18)."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from tests.ask.processes import HEAD, At, nodes, problem, standing, state

CODE = """
class Thing:
    def __init__(self, name): self.name = name

@node_type("keep", runs="RUNS")
class Keep:
    what: str = ""
    of: str = "token"
    def execute(self, token):
        kept = token.transient if self.of == "token" else token.process.transient
        kept["thing"] = Thing(self.what)
        token.complete()

@node_type("tell", runs="RUNS")
class Tell:
    def execute(self, token):
        thing = token.transient.get("thing")
        token.process.environment.set(token.node.name, thing.name if thing is not None else "none")
        if token.node.name != "stay":
            token.complete()

@node_type("lose", runs="RUNS")
class Lose:
    def execute(self, token):
        token.transient["thing"] = Thing("lost")
        raise ValueError("no")

@predicate("hasThing")
def has_thing(token): return "thing" in token.transient and isinstance(token.transient["thing"], Thing)

@listener(events=["NODE_TOKEN_ACCEPTED", "PROCESS_COMPLETED"])
def heard(event):
    thing = (event.process if event.token is None else event.token).transient.get("thing")
    print(event.type, thing and thing.name)
"""


def keep(name: str, what: str, to: str, more: str = "") -> str:
    custom = f"<custom><what>{what}</what>{more}</custom>"
    return f"<node name='{name}' type='keep' isStart='true'><arc to='{to}'/>{custom}</node>"


@pytest.mark.parametrize("runs", ["thread", "inline"])
def test_a_token_has_what_those_it_comes_from_had_over_what_the_process_has(at: At, runs: str) -> None:
    agent, run = at(
        keep("a", "of all", "b", "<of>process</of>")
        + "<node name='b' type='tell'><arc to='c'/></node>"
        + keep("c", "own", "d").replace(" isStart='true'", "")
        + "<node name='d'><guard>IF hasThing THEN Accept ELSE Discard</guard><arc to='e'/></node>"
        "<node name='e' type='tell'/>",
        CODE,
        runs,
    )
    assert state(agent, run) == "completed"
    assert agent.environment(run) == {"b": "of all", "e": "own"}


def test_of_several_tokens_that_join_the_later_wins(at: At) -> None:
    agent, run = at(
        keep("a", "first", "z") + keep("b", "second", "z") + "<node name='z' type='tell' joinType='and'/>",
        CODE,
    )
    assert agent.environment(run) == {"z": "second"}


def test_what_code_sets_that_raises_is_not_kept(at: At) -> None:
    agent, run = at(
        "<node name='a' type='lose' isStart='true'><arc name='error' to='b'/></node>"
        "<node name='b' type='tell'/>",
        CODE,
    )
    assert agent.environment(run) == {"b": "none"}


def test_a_token_gone_back_to_has_what_it_had_at_first(at: At) -> None:
    agent, run = at(
        keep("a", "before", "b") + "<node name='b' type='tell'><arc to='c'/></node>"
        "<node name='c' type='keep'><arc to='stay'/><custom><what>after</what></custom></node>"
        "<node name='stay' type='tell'/>",
        CODE,
    )
    assert agent.environment(run) == {"b": "before", "stay": "after"}
    agent.environment(run, values={"b": None, "stay": None})
    agent.backtrack(run, node="b")
    agent.until_idle()
    assert standing(agent, run)[-1] == ("stay", "active")
    assert agent.environment(run) == {"b": "before", "stay": "after"}


def test_a_nested_process_begins_with_them(at: At) -> None:
    agent, _ = at("<node name='a' type='tell' isStart='true'/>", CODE)
    agent.load(
        nodes(
            keep("a", "from above", "b")
            + "<node name='b' type='nested'><custom><graph name='w.p'/></custom></node>",
            "outer",
        )
    )
    name = next(row["name"] for row in agent.ask("definitions")["definitions"] if "outer" in row["name"])
    agent.start(name)
    agent.until_idle()
    inner = max(row["eid"] for row in agent.runs() if row["name"] == "w.p")
    assert agent.environment(inner) == {"a": "from above"}


def test_a_listener_sees_them(at: At, capsys: pytest.CaptureFixture[str]) -> None:
    at(keep("a", "seen", "b", "<of>process</of>") + "<node name='b'/>", CODE)
    said = capsys.readouterr().out
    assert {"NODE_TOKEN_ACCEPTED seen", "PROCESS_COMPLETED seen"} <= set(said.splitlines())


def test_whoever_answers_a_question_sets_none(at: At) -> None:
    asked = "\n@predicate('sets')\ndef sets(token):\n    token.transient['x'] = 1\n    return True\n"
    agent, run = at(
        "<node name='a' isStart='true'><guard>IF sets THEN Accept ELSE Discard</guard></node>", asked
    )
    assert "the transient attribute 'x' cannot be set here" in problem(agent, run)[1]


def test_code_in_a_worker_is_told_that_it_has_none(at: At) -> None:
    agent, run = at(keep("a", "far", "b") + "<node name='b'/>", CODE, "worker")
    assert "never leave the daemon" in problem(agent, run)[1]


def test_they_do_not_outlive_the_daemon(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "modules").mkdir(parents=True)
    (home / "recipes").mkdir()
    (home / "modules" / "w.py").write_text(HEAD + CODE.replace("RUNS", "thread"))
    text = (
        keep("a", "here", "b") + "<node name='b' type='wait'><arc to='c'/></node><node name='c' type='tell'/>"
    )
    (home / "recipes" / "w.xml").write_text(nodes(text))
    with narval.open(home) as agent:
        run = agent.start("w.p")
        agent.until_idle()
        assert standing(agent, run)[-1] == ("b", "active")
    with narval.open(home) as agent:
        agent.complete(run, node="b")
        agent.until_idle()
        assert (state(agent, run), agent.environment(run)) == ("completed", {"c": "none"})
