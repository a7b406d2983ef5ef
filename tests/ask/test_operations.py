"""What may be asked of a daemon: each operation gives the forms promised, and refuses what it must."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest
from lxml import etree

import narval
from narval import ask as package
from narval.ask.asker import PROGRAM, SCOPES, Asker, Scope
from narval.ask.daemon.requests import work
from narval.ask.operations import OPERATIONS, invoke
from narval.ask.registry import Operation
from narval.core.errors import ElementError, PatternError, RequestError
from narval.core.kinds import KINDS
from narval.surfaces.cli.render import answers
from narval.surfaces.python.agent import Agent

RECIPES = """<cookbook>
<recipe group="t" name="inner" start_step="s" end_step="e" decay="3600">
  <step id="s" type="recipe" target="t.wait"/><step id="e" type="recipe" target="t.wait"/>
  <transition id="t"><in idref="s"/><out idref="e"/></transition>
</recipe>
<recipe group="t" name="wait" start_step="a" end_step="b">
  <step id="a" type="action" target="w.nothing"/><step id="b" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>mail[@kind='a' and @n &gt; 5]</match></condition></transition>
</recipe>
<recipe group="t" name="fails" start_step="s" end_step="s">
  <step id="s" type="action" target="w.fails"/></recipe>
<recipe group="t" name="tells" start_step="e" end_step="e">
  <step id="e" type="action" target="w.tells"/></recipe>
</cookbook>"""
MODULE = """
from narval import Output, action

@action(runs="inline", description="Does nothing.")
def nothing():
    return None

@action(runs="inline")
def fails():
    raise ValueError("never well")

@action(outputs=[Output("answer", "answer")], runs="inline")
def tells():
    return "<error type='no-answer'><message>nobody knows</message></error>"
"""


@pytest.fixture
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    module = tmp_path_factory.mktemp("modules") / "w.py"
    module.write_text(MODULE)
    with narval.open() as agent:
        agent.load(module)
        agent.load(RECIPES)
        yield agent


def test_count_says_how_many_and_memory_may_change_while_it_is_looked_through(agent: Agent) -> None:
    agent.add_all(['<note n="1"/>'] * 3)
    assert agent.ask("count", xpath="note") == {"count": 3}
    assert agent.ask("count", xpath="note[@n > 1]") == {"count": 0}
    assert agent.ask("count") == {"count": len(agent.ask("memory"))}
    with pytest.raises(PatternError):
        agent.ask("count", xpath="note[")


def test_a_long_document_is_added_whole_or_not_at_all(agent: Agent) -> None:
    notes = "".join(f'<note n="{number}"/>' for number in range(10_000))
    found = agent.ask("add", elements=[f"<memory>{notes}</memory>".encode()])["eids"]
    assert found == list(range(found[0], found[0] + 10_000))
    with pytest.raises(ElementError, match="not well-formed"):
        agent.ask("add", elements=[f"<memory>{notes}<note></memory>".encode()])
    with pytest.raises(ElementError, match="put several elements within <memory>"):
        agent.ask("add", elements=[b"<a/><b/>"])
    assert agent.ask("count", xpath="note") == {"count": 10_000}


def is_a_moment(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None


# --- forms ----------------------------------------------------------------------------------------------


def test_a_run_has_the_promised_form(agent: Agent) -> None:
    run = agent.ask("start", name="t.inner")
    agent.until_idle()
    assert set(run) == {
        "eid", "kind", "name", "state", "phase", "started", "ended", "parent", "by", "definition", "error",
        "retry_of", "waits_for",
    }  # fmt: skip
    assert (run["kind"], run["name"], run["phase"], run["ended"], run["error"]) == (
        "plan", "t.inner", "active", None, None,
    )  # fmt: skip
    assert is_a_moment(run["started"])
    _, child = agent.ask("runs")
    assert child["parent"] == {"run": run["eid"], "step": "s"}


def test_a_failed_run_says_why(agent: Agent) -> None:
    run = agent.ask("start", name="t.fails", wait=True)
    assert (run["state"], run["phase"]) == ("failed", "failed")
    assert is_a_moment(run["ended"])
    error = run["error"]
    assert (error["type"], error["message"], error["step"]) == ("ValueError", "never well", "s")
    assert agent.memory("error")[-1].eid == error["eid"]


def test_a_run_that_an_action_ended_with_an_error_of_its_own_says_in_which_step(agent: Agent) -> None:
    error = agent.ask("start", name="t.tells", wait=True)["error"]
    assert (error["type"], error["message"], error["step"]) == ("no-answer", "nobody knows", "e")
    at = f"text.xml:14, element {error['eid']}"
    assert answers.fault_of(error) == f"no-answer in step e: nobody knows ({at})"


def test_a_pattern_with_a_variable_is_refused_as_nothing_could_match(agent: Agent) -> None:
    with pytest.raises(PatternError, match=r"\$s is known only in a recipe"):
        agent.ask("memory", xpath="mail[. = $s]")


def test_runs_are_found_by_state_kind_and_name(agent: Agent) -> None:
    agent.ask("start", name="t.fails", wait=True)
    waiting = agent.start("t.wait")
    agent.until_idle()
    assert [run["name"] for run in agent.runs(state="failed")] == ["t.fails"]
    assert [run["eid"] for run in agent.runs(state="running")] == [waiting]
    assert [run["eid"] for run in agent.runs(state="active")] == [waiting]
    assert [run["eid"] for run in agent.runs(name="t.wait")] == [waiting]
    assert agent.runs(kind="process") == []


def test_show_tells_steps_transitions_and_context(agent: Agent) -> None:
    run = agent.start("t.wait", "<gift/>")
    agent.until_idle()
    shown = agent.run(run)
    assert [(step["id"], step["state"], step["target"]) for step in shown["steps"]] == [
        ("a", "done", "w.nothing"),
        ("b", "todo", "w.nothing"),
    ]
    assert shown["transitions"] == [{"id": "t", "state": "wait-condition"}]
    assert shown["context"] == [agent.memory("gift")[0].eid]


def test_an_element_has_the_promised_form(agent: Agent) -> None:
    run = agent.start("t.wait")
    eid = agent.add("<mail kind='a' n='6'/>")
    agent.until_idle()
    (element,) = agent.ask("memory", xpath="mail")
    assert set(element) == {
        "eid",
        "name",
        "title",
        "xml",
        "added",
        "origin",
        "labels",
        "parts",
        "decided_by",
        "hearsay",
        "used_by",
        "sent_to",
        "outdated",
        "withdrawn",
        "doubtful",
    }
    assert (element["eid"], element["name"], element["origin"], element["outdated"]) == (
        eid,
        "mail",
        None,
        False,
    )
    assert f'eid="{eid}"' in element["xml"]
    assert is_a_moment(element["added"])
    assert element["used_by"] == [{"definition": "t.wait", "transition": "t", "condition": "1", "run": run}]
    agent.ask("start", name="t.fails", wait=True)
    (error,) = agent.ask("memory", xpath="error")
    assert error["origin"]["step"] == "s"
    assert (error["origin"]["call"], error["origin"]["inputs"]) == (
        etree.fromstring(error["xml"]).get("call"),
        [],
    )


def test_history_is_in_order_and_may_begin_behind_a_number(agent: Agent) -> None:
    run = agent.start("t.fails")
    agent.until_idle()
    lines = agent.history(run)
    assert [line["seq"] for line in lines] == sorted({line["seq"] for line in lines})
    assert {line["run"] for line in lines} == {run}
    assert {"Started", "StepRunning", "Call", "Returned", "StepErred", "Finish"} <= {
        line["what"] for line in lines
    }
    assert all(is_a_moment(line["at"]) for line in lines)
    after = lines[3]["seq"]
    assert agent.ask("history", run=run, after=after) == lines[4:]
    assert (
        agent.ask("history", run=run, after=lines[-1]["seq"], wait=20.0) == []
    )  # it is over: no use to wait


def test_N11_why_names_the_nearest_element_and_the_predicate_that_failed(agent: Agent) -> None:
    run = agent.start("t.wait")
    agent.until_idle()
    answer = agent.why(run)
    assert (answer["run"], answer["state"]) == (run, "running")
    (waiting,) = answer["waiting"]
    assert (waiting["id"], waiting["for"], waiting["until"]) == ("t", "condition", None)
    (condition,) = waiting["conditions"]
    assert (condition["met"], condition["nearest"]) == (False, None)
    near, far = agent.add("<mail kind='a' n='5'/>"), agent.add("<mail kind='b' n='1'/>")
    agent.until_idle()
    (condition,) = agent.why(run)["waiting"][0]["conditions"]
    assert condition["nearest"] == near != far
    assert "@n" in condition["failed"]
    assert "5" in condition["value"]


def test_N11_why_says_that_an_element_was_used_before(agent: Agent) -> None:
    first = agent.start("t.wait")
    agent.add("<mail kind='a' n='6'/>")
    agent.wait(first, 60)
    second = agent.start("t.wait")
    agent.until_idle()
    (condition,) = agent.why(second)["waiting"][0]["conditions"]
    assert condition["failed"] == "one not used before"
    assert condition["value"] == f"used by t.wait t #1 in run {first}"


def test_why_of_a_part_gives_its_reason(agent: Agent) -> None:
    run = agent.start("t.inner")
    agent.until_idle()
    whole = agent.why(run)
    (child,) = whole["waiting"][0]["runs"]
    assert agent.ask("runs")[-1]["eid"] == child
    assert "call" in agent.why(run, "s")["reason"]
    assert "no transition has led to it" in agent.why(run, "e")["reason"]
    with pytest.raises(RequestError, match="it has s, e, t"):
        agent.why(run, "unheard")
    over = agent.ask("start", name="t.fails", wait=True)["eid"]
    assert agent.why(over)["waiting"] == []
    assert "failed" in agent.why(over)["reason"]


def test_a_run_is_also_an_element_and_a_graph(agent: Agent) -> None:
    run = agent.start("t.wait")
    agent.until_idle()
    assert agent.ask("xml", run=run)["xml"].startswith("<plan ")
    dot = agent.ask("graph", run=run)["dot"]
    assert dot.startswith('digraph "t.wait"')
    assert '"a" [' in dot
    assert '"t" [' in dot


def test_status_tells_what_the_daemon_does(agent: Agent) -> None:
    agent.start("t.inner")
    agent.ask("start", name="t.fails", wait=True)
    status = agent.ask("status")
    assert status["state"] == "running"
    assert status["runs"] == {"active": 2, "done": 0, "failed": 1, "cancelled": 0}
    assert status["waiting"] == 1
    assert [call["target"] for call in status["calls"]] == ["recipe t.wait"]
    assert status["elements"] == len(agent.memory())


def test_definitions_and_actions_are_listed_with_their_place(agent: Agent) -> None:
    rows = agent.ask("definitions")["definitions"]
    assert [row["name"] for row in rows if row["kind"] == "recipe"] == [
        "t.fails",
        "t.inner",
        "t.tells",
        "t.wait",
    ]
    assert all(is_a_moment(row["loaded"]) for row in rows if row["loaded"])
    with pytest.raises(RequestError, match=r"did you mean 'basic\.nothing'"):
        agent.ask("actions", name="w.nothing", shipped=True)
    (nothing,) = [action for action in agent.ask("actions") if action["name"] == "w.nothing"]
    assert (nothing["description"], nothing["runs"], nothing["line"] > 0) == ("Does nothing.", "inline", True)


def test_cancel_ends_a_run_once(agent: Agent) -> None:
    run = agent.start("t.inner")
    agent.until_idle()
    assert agent.cancel(run)["phase"] == "cancelled"
    agent.until_idle()
    assert {run["state"] for run in agent.runs()} == {"cancelled"}
    with pytest.raises(RequestError, match="over already"):
        agent.cancel(run)


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "arguments", "said"),
    [
        ("unheard", {}, "there is no operation 'unheard'; there are accept"),
        ("shw", {}, "there is no operation 'shw'; did you mean 'show'?"),
        ("show", {}, "needs the argument 'run'"),
        ("show", {"run": "7"}, "expected run to be a whole number, got '7'"),
        ("show", {"run": True}, "expected run to be"),
        ("show", {"run": 2**53 + 1}, "expected run to be at most"),
        ("changed", {"wait": float("nan")}, "expected wait to be at most"),
        ("changed", {"wait": float("inf")}, "expected wait to be at most"),
        ("show", {"run": 777}, "there is no run 777"),
        ("add", {"elements": "<a/>"}, "expected elements to be a list of XML in bytes, got '<a/>'"),
        ("add", {"elements": ["<a/>"]}, "expected elements to be"),
        ("cancel", {"run": 7, "reason": "\ud800"}, "expected reason to be"),
        ("runs", {"colour": "red"}, "takes no argument 'colour'"),
        ("start", {"name": "t.wiat"}, "did you mean t.wait"),
        ("start", {"name": "w.nothing"}, "is an action"),
        ("start", {"name": "q.zzz"}, "narval definitions"),
    ],
)
def test_a_mistaken_request_is_refused_in_words(
    agent: Agent, operation: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        agent.ask(operation, **arguments)


def test_nobody_says_by_an_argument_who_asks(agent: Agent) -> None:
    with pytest.raises(RequestError, match="add takes no argument 'asker'; it takes elements"):
        agent.ask("add", elements=[], asker={"person": "root"})


def test_elements_are_added_all_or_none(agent: Agent) -> None:
    before = len(agent.memory())
    with pytest.raises(ElementError, match="1:"):
        agent.ask("add", elements=[b"<good/>", b"<bad"])
    assert len(agent.memory()) == before
    assert len(agent.ask("add", elements=[b"<memory><a/><b/></memory>", b"<c/>"])["eids"]) == 3


def test_a_pattern_that_is_none_is_refused(agent: Agent) -> None:
    with pytest.raises(PatternError):
        agent.memory("mail[")


def test_the_table_lists_every_function_that_is_marked_as_an_operation() -> None:
    names = [found.name for found in walk_packages(package.__path__, f"{package.__name__}.")]
    names += [f"{kind.folder}.{module}" for kind in KINDS.values() for module in kind.operations]
    marked = {
        value.name
        for name in names
        for value in vars(import_module(name)).values()
        if isinstance(value, Operation)
    }
    assert set(OPERATIONS) == marked


def test_every_operation_is_described_and_has_a_scope() -> None:
    for operation in OPERATIONS.values():
        assert operation.doc.endswith(".")
        assert operation.scope in SCOPES
        assert "asker" not in operation.parameters


ASKED = {"read": ("count", {"xpath": "answer"}), "write": ("add", {"elements": [b"<answer/>"]})}


@pytest.mark.parametrize("scope", sorted(SCOPES))
@pytest.mark.parametrize("needed", sorted(ASKED))
def test_M7_an_operation_beyond_the_scopes_of_an_asker_is_refused(
    agent: Agent, scope: Scope, needed: str
) -> None:
    name, arguments = ASKED[needed]
    asked = invoke(agent.daemon, Asker("ann", scopes=frozenset({scope})), name, arguments)
    if scope == needed:
        agent.runner.run(asked)
        return
    with pytest.raises(RequestError, match=f"^{name} needs the scope {needed}, .* limited to {scope}$"):
        agent.runner.run(asked)
    assert agent.memory("answer") == []


def test_stop_ends_the_work(agent: Agent) -> None:
    async def stopped() -> None:
        working = asyncio.create_task(work(agent.daemon))
        await asyncio.sleep(0.01)
        assert await invoke(agent.daemon, PROGRAM, "stop", {}) == {"stopping": True}
        summary = await asyncio.wait_for(working, 60)
        assert summary == {
            "idle": True, "timed_out": False, "stopped_by": None, "failed": [], "later": [], "asked": [],
            "waiting": [],
        }  # fmt: skip

    agent.runner.run(stopped())


def test_N2_a_run_or_a_definition_is_not_to_be_forged(agent: Agent) -> None:
    for text in ("<plan state='failed'/>", "<memory><a/><recipe group='mail' name='m'/></memory>"):
        with pytest.raises(ElementError, match="is what narval calls a"):
            agent.add_all([text])
    eid = agent.add("<start-plan recipe='t.wait'><plan state='failed'/></start-plan>")
    (error,) = agent.memory("error[@type='reserved']")
    assert error.attributes["start"] == str(eid)
    assert "<plan> is what narval calls a run" in error.text
    assert agent.memory("plan") == agent.memory("a") == []
