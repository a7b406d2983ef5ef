"""Processes as people and programs drive them: operations, code, scripts, drawings (sections 2 to 11)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

import narval
from narval.errors import (
    NotBacktrackableError,
    NotExecutingError,
    NoTokenError,
    RequestError,
    TokenCompleteError,
    TokenError,
)
from narval.surfaces.cli.render.svg import svg

HEAD = "import time\nfrom narval import *\nfrom narval import join, listener, node_type, predicate\n"
SPACE = "http://sarasvati.googlecode.com/ProcessDefinition"

Agent = Any
At = Callable[..., tuple[Agent, int]]


def nodes(text: str, name: str = "p") -> str:
    return f"<process-definition name='{name}' xmlns='{SPACE}'>{text}</process-definition>"


@pytest.fixture
def at(tmp_path: Path) -> Iterator[At]:
    """An agent that has loaded a module and a process, and the process begun."""
    opened: list[Agent] = []

    def begin(
        process: str, module: str = "", runs: str = "thread", **environment: object
    ) -> tuple[Agent, int]:
        agent = narval.open(clock=narval.SimulatedClock(0))
        opened.append(agent)
        if module:
            (tmp_path / "w.py").write_text(HEAD + module.replace("RUNS", runs))
            agent.load(tmp_path / "w.py")
        (tmp_path / "w.xml").write_text(nodes(process))
        agent.load(tmp_path / "w.xml")
        run = agent.start("w.p", environment=environment)
        agent.until_idle()
        return agent, run

    yield begin
    for each in opened:
        each.close()


def standing(agent: Agent, run: int) -> list[tuple[str, str]]:
    return [(each["node"], each["state"]) for each in agent.tokens(run)["tokens"]]


def state(agent: Agent, run: int) -> str:
    return str(agent.run(run)["state"])


LINE = (
    "<node name='a' type='wait' isStart='true'><arc to='b'/><arc name='no' to='c'/></node>"
    "<node name='b' type='wait'/><node name='c'/>"
)

# --- operations -------------------------------------------------------------------------------------------


def test_a_token_is_completed_by_its_node_or_its_id_on_the_arcs_of_a_name(at: At) -> None:
    agent, run = at(LINE)
    assert agent.complete(run, node="a")["state"] == "executing"
    assert standing(agent, run) == [("a", "complete"), ("b", "active")]
    [token] = [each["id"] for each in agent.tokens(run)["tokens"] if not each["complete"]]
    assert agent.complete(run, token=token)["state"] == "completed"
    again = agent.start("w.p")
    agent.until_idle()
    agent.complete(again, node="a", arcs=["no"])
    assert standing(agent, again) == [("a", "complete"), ("c", "complete")]


def test_an_unknown_arc_is_a_dead_end_and_no_error(at: At) -> None:
    agent, run = at(LINE)
    told = agent.complete(run, node="a", arcs=["nowhere"])
    assert (told["unknown_arcs"], told["state"]) == (["nowhere"], "completed")


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
    first, second = (each["id"] for each in agent.tokens(run)["tokens"])
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
    for token in [each["id"] for each in agent.tokens(run)["tokens"] if each["node"] == "b"]:
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
    with pytest.raises(RequestError, match="only a process has an environment"):
        agent.start("g.r", environment={"a": 1})


def test_going_back_undoes_and_stands_there_again(at: At) -> None:
    agent, run = at(LINE)
    agent.complete(run, node="a")
    token = agent.backtrack(run, node="a")["token"]
    rows = {each["id"]: each for each in agent.tokens(run)["tokens"]}
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
    members = [each for each in agent.tokens(run)["tokens"] if each["node"] == "b"]
    assert [each["sets"] for each in members] == [["votes[0]"], ["votes[1]"], ["votes[2]"]]
    assert agent.environment(run, of_set="votes") == {"due": "5"}
    assert agent.environment(run, of_set="votes", index=1) == {"who": "y"}
    for each in members:
        agent.complete(run, token=each["id"])
    assert standing(agent, run)[-1] == ("c", "active")


def test_what_is_completed_asynchronously_waits_to_be_executed(at: At) -> None:
    agent, run = at(LINE)
    agent.complete(run, node="a", asynchronous=True)
    assert standing(agent, run) == [("a", "complete")]
    assert [each["pending"] for each in agent.tokens(run)["arc_tokens"]] == [True]
    agent.execute_queued(run)
    assert standing(agent, run) == [("a", "complete"), ("b", "active")]


# --- code in modules --------------------------------------------------------------------------------------

TASKS = """
@node_type("task")
class Task:
    title: str = ""
    def execute(self, token):
        token.set("title", self.title)
        return f"<task title='{self.title}' token='{token.id}'/>"
    def backtrack(self, token):
        return f"<undone title='{token.environment['title']}'/>"
    def is_backtrackable(self, token):
        return token.process.environment.get("sealed", False, bool) is False

@node_type("sum", runs="RUNS")
class Sum:
    step: int = 1
    def execute(self, token):
        token.process.environment.set("sum", token.process.environment.get("sum", 0, int) + self.step)
        token.complete("big" if self.step > 5 else None)

@node_type("split", runs="inline")
class Split:
    def execute(self, token):
        token.complete_with_new_token_set("s", 2, members={"who": ["x", "y"]})

@node_type
class slow:
    async def execute(self, token):
        import asyncio
        await asyncio.sleep(0)
        token.complete_many("left", "right")

@node_type("bad")
class Bad:
    def execute(self, token):
        token.complete()
        token.complete()

@node_type("gate")
class Gate:
    limit: int = 0
    def guard(self, token):
        found = token.environment.get("amount", 0, int)
        return Skip("over") if found > self.limit else Discard if found < 0 else Accept
"""


def test_a_task_waits_and_undoes_what_it_did(at: At) -> None:
    agent, run = at(
        "<node name='a' type='task' isStart='true'><arc to='b'/><custom><title>First</title></custom></node>"
        "<node name='b' type='task'><custom><title>Second</title></custom></node>",
        TASKS,
    )
    agent.complete(run, node="a")
    agent.until_idle()
    assert [each.attributes["title"] for each in agent.memory("task")] == ["First", "Second"]
    agent.environment(run, values={"sealed": True})
    assert refused(NotBacktrackableError, lambda: agent.backtrack(run, node="a")) == "not-backtrackable"
    assert standing(agent, run) == [("a", "complete"), ("b", "active")]
    agent.environment(run, values={"sealed": False})
    agent.backtrack(run, node="a")
    agent.until_idle()
    assert {each.attributes["title"] for each in agent.memory("undone")} == {"First", "Second"}


@pytest.mark.parametrize("runs", ["thread", "inline", "worker"])
def test_a_node_type_completes_wherever_it_runs(at: At, runs: str) -> None:
    agent, run = at(
        "<node name='a' type='sum' isStart='true'><arc to='b'/></node>"
        "<node name='b' type='sum'><arc name='big' to='c'/><custom><step>7</step></custom></node>"
        "<node name='c'/>",
        TASKS,
        runs,
    )
    assert (state(agent, run), agent.environment(run)) == ("completed", {"sum": "8"})
    assert standing(agent, run)[-1] == ("c", "complete")


def test_a_node_type_may_be_async_and_leave_on_several_arcs(at: At) -> None:
    agent, run = at(
        "<node name='a' type='slow' isStart='true'><arc name='left' to='b'/><arc name='right' to='c'/></node>"
        "<node name='b' type='split'><arc to='d'/></node><node name='c'/><node name='d' type='wait'/>",
        TASKS,
    )
    assert [row for row in standing(agent, run) if row[0] == "d"] == [("d", "active")] * 2
    assert agent.environment(run, of_set="s", index=1) == {"who": "y"}


def test_a_node_type_that_slips_fails_its_process_or_leaves_on_the_arc_for_errors(at: At) -> None:
    agent, run = at("<node name='a' type='bad' isStart='true'/>", TASKS)
    found = agent.run(run)
    assert found["phase"] == "failed"
    assert "token 1 is not to be completed here, or is already" in found["error"]["message"]
    agent.load(
        nodes(
            "<node name='a' type='bad' isStart='true'><arc name='error' to='b'/></node><node name='b'/>", "q"
        )
    )
    name = next(
        each["name"] for each in agent.ask("definitions")["definitions"] if each["name"].endswith(".q")
    )
    run = agent.start(name)
    agent.until_idle()
    assert (state(agent, run), standing(agent, run)[-1]) == ("completed", ("b", "complete"))


@pytest.mark.parametrize(
    ("amount", "wanted"), [(1, ("a", "complete")), (99, ("over", "complete")), (-1, ("a", "discarded"))]
)
def test_the_guard_of_a_node_type_decides(at: At, amount: int, wanted: tuple[str, str]) -> None:
    agent, run = at(
        "<node name='a' type='gate' isStart='true'><arc name='over' to='over'/>"
        "<custom><limit>10</limit></custom></node><node name='over'/>",
        TASKS + "    def execute(self, token): token.complete()\n",
        amount=amount,
    )
    assert standing(agent, run)[-1] == wanted


@pytest.mark.parametrize(
    ("does", "wanted"),
    [
        ("import os; os._exit(3)", "the worker exited with status 3"),
        ("token.set('a', '\\ud800')", "expected Unicode text, got half a character"),
        ("token.complete_with_new_token_set('s', 10**9)", "expected a count from 1 to 100,000"),
        ("token.process.environment.set('a', object())", "no converter for object"),
    ],
)
def test_a_hostile_node_type_harms_its_process_alone(at: At, does: str, wanted: str) -> None:
    module = f"@node_type('bad', runs='worker')\nclass Bad:\n    def execute(self, token):\n        {does}\n"
    agent, run = at("<node name='a' type='bad' isStart='true'/>", module)
    found = agent.run(run)
    assert found["phase"] == "failed"
    assert wanted in found["error"]["message"]
    agent.load(nodes("<node name='a' type='wait' isStart='true'/>"))


def test_predicates_dates_and_custom_joins_decide(at: At) -> None:
    agent, run = at(
        "<node name='a' isStart='true'><arc to='m'/><arc to='late'/></node>"
        "<node name='b' type='wait' isStart='true'><arc to='m'/></node>"
        "<node name='c' type='wait' isStart='true'><arc to='m'/></node>"
        "<node name='m' joinType='class'><join>two</join></node>"
        "<node name='late'><guard>if again then Accept else delay until 2 days after now</guard></node>",
        "@join\ndef two(arrival):\n    return arrival.join() if len(arrival.waiting) >= 2 else None\n"
        "@predicate\ndef again(token): return token.guard_action == 'DelayUntil'\n"
        "@date_function\ndef now(token): return token.now\n",
    )
    assert ("late", "delayed") in standing(agent, run)
    assert "m" not in dict(standing(agent, run))
    agent.complete(run, node="b")
    assert dict(standing(agent, run))["m"] == "complete"
    agent.elapse(days=2)
    assert dict(standing(agent, run))["late"] == "complete"


HEARD = """
heard = []
@listener("all", events=["NODE_TOKEN_COMPLETED", "PROCESS_COMPLETED"])
class All:
    def notify(self, event): heard.append((event.type, event.token and event.token.node.name))
@listener("hold", events="NODE_TOKEN_ACCEPTED", everywhere=False)
def hold(event): return "DELAY_NODE_EXECUTION"
@listener("stay", events="PROCESS_PENDING_COMPLETE", everywhere=False)
def stay(event): return "DELAY_PROCESS_FINALIZE_COMPLETE"
"""


def test_listeners_hear_and_hold_back(at: At) -> None:
    agent, run = at(LINE, HEARD)
    heard = agent.daemon.files.loaded.functions["listener:all"].notify.__globals__["heard"]
    agent.listen(run, "hold")
    agent.listen(run, "stay", "PROCESS_PENDING_COMPLETE")
    agent.complete(run, node="a", arcs=["no"])
    held = agent.tokens(run)["tokens"][-1]
    assert (held["node"], held["complete"]) == ("c", False)
    assert agent.ask("execute_token", run=run, token=held["id"])["state"] == "pending-completion"
    assert agent.ask("finalize", run=run)["state"] == "completed"
    assert heard == [
        ("NODE_TOKEN_COMPLETED", "a"),
        ("NODE_TOKEN_COMPLETED", "c"),
        ("PROCESS_COMPLETED", None),
    ]
    other = agent.start("w.p")
    agent.until_idle()
    agent.listen(other, "hold")
    agent.unlisten(other, "hold")
    assert agent.complete(other, node="a", arcs=["no"])["state"] == "completed"
    with pytest.raises(RequestError, match="there is no listener 'nobody'"):
        agent.listen(other, "nobody")
    third = agent.start("w.p")
    agent.until_idle()
    assert refused(TokenError, lambda: agent.listen(third, "hold", "SOMETHING")) == "bad-argument"


@pytest.mark.parametrize(
    ("guard", "wanted"),
    [
        ("nobody", "there is no predicate named 'nobody' in modules/"),
        ("broken", "predicate 'broken' of"),
        ("endless", "predicate 'endless' did not answer within 1 s"),
        ("unsure", "expected True or False, got str 'perhaps'"),
    ],
)
def test_a_question_that_fails_fails_its_process_and_no_other(at: At, guard: str, wanted: str) -> None:
    agent, run = at(
        "<node name='a' isStart='true'><guard>if GUARD then Accept else Discard</guard></node>".replace(
            "GUARD", guard
        ),
        "@predicate\ndef broken(token): raise KeyError('x')\n"
        "@predicate\ndef endless(token):\n    while True: pass\n"
        "@predicate\ndef unsure(token): return 'perhaps'\n",
    )
    found = agent.run(run)
    assert found["phase"] == "failed"
    assert wanted in found["error"]["message"]
    agent.load(nodes("<node name='a' isStart='true'/>", "q"))
    began = time.monotonic()
    other = agent.start("text.q")
    agent.until_idle()
    assert state(agent, other) == "completed"
    assert time.monotonic() - began < 30  # the loop was never lost


# --- scripts ----------------------------------------------------------------------------------------------


def script(text: str, more: str = "") -> str:
    return f"<node name='s' type='script' isStart='true'>{more}<custom>{text}</custom></node>"


def test_scripts_run_in_both_languages_and_go_on(at: At) -> None:
    agent, run = at(
        script(
            "<execute type='js'>token.process.env.setAttribute('js', token.node.name)</execute>",
            "<arc to='t'/>",
        )
        + "<node name='t' type='script'><custom><execute type='python'>\n"
        "token.process.environment.set('python', token.environment.get('js') + '!')\n"
        "</execute></custom></node>"
    )
    assert (state(agent, run), agent.environment(run)) == ("completed", {"js": "s", "python": "s!"})


def test_a_script_goes_back_once(at: At) -> None:
    agent, run = at(
        "<node name='a' type='wait' isStart='true'><arc to='s'/></node>"
        "<node name='s' type='script'><arc to='b'/><custom><execute>"
        "if (token.process.env.getAttribute('again') === null) {"
        " token.process.env.setAttribute('again', true);"
        " engine.backtrack(token.parentTokens.get(0).parentToken); }"
        "</execute><backtrack>token.process.env.setAttribute('undone', true)</backtrack></custom></node>"
        "<node name='b'/>"
    )
    agent.complete(run, node="a")
    agent.until_idle()
    assert standing(agent, run)[-1] == ("a", "active")
    agent.complete(run, node="a")
    agent.until_idle()
    assert (state(agent, run), agent.environment(run)) == ("completed", {"again": "true", "undone": "true"})


def test_a_script_says_whether_it_can_be_gone_back_from(at: At) -> None:
    agent, run = at(
        "<node name='a' type='wait' isStart='true'><arc to='s'/></node>"
        "<node name='s' type='script'><arc to='b'/><custom><execute>1</execute>"
        "<allowBacktrack>token.process.env.getAttribute('open') == 'yes'</allowBacktrack></custom></node>"
        "<node name='b' type='wait'/>"
    )
    agent.complete(run, node="a")
    agent.until_idle()
    assert refused(NotBacktrackableError, lambda: agent.backtrack(run, node="a")) == "not-backtrackable"
    agent.environment(run, values={"open": "yes"})
    agent.backtrack(run, node="a")
    assert dict(standing(agent, run))["b"] == "backtracked"


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        (
            "nobody()",
            "script-failed",
            "the script of node 's': line 1: ReferenceError: nobody is not defined",
        ),
        ("var a = []; while (true) a.push('x' + a.length)", "script-memory", "it wanted more than 64 MiB"),
    ],
)
def test_a_script_that_fails_says_so(at: At, text: str, kind: str, wanted: str) -> None:
    agent, run = at(script(f"<execute>{text}</execute>"))
    found = agent.run(run)
    assert (found["phase"], found["error"]["type"]) == ("failed", kind)
    assert wanted in found["error"]["message"]


def test_a_script_that_loops_is_ended_while_others_go_on(at: At) -> None:
    agent, run = at(
        "<node name='s' type='script' isStart='true'><arc name='error' to='b'/>"
        "<custom><execute>while (true) {}</execute><timeout>1</timeout></custom></node><node name='b'/>"
    )
    assert standing(agent, run) == [("s", "complete"), ("b", "complete")]
    [error] = agent.memory("error")
    assert error.attributes["type"] in ("script-timeout", "timeout")  # whoever was first to end it


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
        titles = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}title")]
        told = [each.get("{http://www.w3.org/1999/xlink}title") or "" for each in drawn.iter()]
        assert {"a", "b", "<c>"} <= set(titles)
        assert any("token 1, backtracked, ForwardBacktracked" in each for each in told)


# --- simulation and hot files -----------------------------------------------------------------------------


def test_a_simulation_calls_no_node_and_goes_on(at: At) -> None:
    agent, _ = at(
        "<node name='a' type='task' isStart='true'><arc to='b'/></node>"
        "<node name='b' type='script'><arc to='c'/><custom><execute>"
        "token.process.env.setAttribute('seen', true)</execute></custom></node>"
        "<node name='c' type='wait'/>",
        TASKS,
    )
    before = len(agent.memory("task"))
    told = agent.simulate("w.p")
    assert {each["action"]: each["how"] for each in told["calls"]} == {
        "task": "noted",
        "the script of node b": "ran",
    }
    assert len(agent.memory("task")) == before


def test_a_module_that_changed_counts_for_the_processes_that_begin_then(at: At, tmp_path: Path) -> None:
    process = (
        "<node name='a' type='wait' isStart='true'><arc to='b'/></node>"
        "<node name='b'><guard>if ok then Accept else Discard</guard></node>"
    )
    module = "@predicate\ndef ok(token): return ANSWER\n"
    agent, before = at(process, module.replace("ANSWER", "True"))
    (tmp_path / "w.py").write_text(HEAD + module.replace("ANSWER", "False"))
    agent.load(tmp_path / "w.py")
    after = agent.start("w.p")
    agent.until_idle()
    for run in (before, after):
        agent.complete(run, node="a")
    assert dict(standing(agent, before))["b"] == "complete"
    assert dict(standing(agent, after))["b"] == "discarded"
