"""Code in modules that processes call: node types, predicates, joins, listeners (sections 7 to 11)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from narval.core.errors import NotBacktrackableError, RequestError, TokenError
from tests.ask.processes import HEAD, LINE, At, nodes, problem, standing, state
from tests.ask.test_processes import refused

# --- code in modules --------------------------------------------------------------------------------------


TASKS = """
@node_type("task")
class Task:
    title: str = ""
    def execute(self, token):
        token.set("title", self.title)
        return f"<todo title='{self.title}' token='{token.id}'/>"
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
    assert [element.attributes["title"] for element in agent.memory("todo")] == ["First", "Second"]
    agent.environment(run, values={"sealed": True})
    assert refused(NotBacktrackableError, lambda: agent.backtrack(run, node="a")) == "not-backtrackable"
    assert standing(agent, run) == [("a", "complete"), ("b", "active")]
    agent.environment(run, values={"sealed": False})
    agent.backtrack(run, node="a")
    agent.until_idle()
    assert {element.attributes["title"] for element in agent.memory("undone")} == {"First", "Second"}


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


def test_a_node_type_that_slips_keeps_its_token_or_leaves_on_the_arc_for_errors(at: At) -> None:
    agent, run = at("<node name='a' type='bad' isStart='true'/>", TASKS)
    assert "token 1 is not to be completed here, or is already" in problem(agent, run)[1]
    agent.load(
        nodes(
            "<node name='a' type='bad' isStart='true'><arc name='error' to='b'/></node><node name='b'/>", "q"
        )
    )
    name = next(
        definition["name"]
        for definition in agent.ask("definitions")["definitions"]
        if definition["name"].endswith(".q")
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
        ("token.complete_with_new_token_set('s', 10**9)", "expected a count from 0 to 100,000"),
        ("token.process.environment.set('a', object())", "no converter for object"),
    ],
)
def test_a_hostile_node_type_harms_its_token_alone(at: At, does: str, wanted: str) -> None:
    module = f"@node_type('bad', runs='worker')\nclass Bad:\n    def execute(self, token):\n        {does}\n"
    agent, run = at("<node name='a' type='bad' isStart='true'/>", module)
    assert wanted in problem(agent, run)[1]
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
def test_a_question_that_fails_keeps_its_token_and_no_other(at: At, guard: str, wanted: str) -> None:
    agent, run = at(
        "<node name='a' isStart='true'><guard>if GUARD then Accept else Discard</guard></node>".replace(
            "GUARD", guard
        ),
        "@predicate\ndef broken(token): raise KeyError('x')\n"
        "@predicate\ndef endless(token):\n    while True: pass\n"
        "@predicate\ndef unsure(token): return 'perhaps'\n",
    )
    assert wanted in problem(agent, run)[1]
    agent.load(nodes("<node name='a' isStart='true'/>", "q"))
    began = time.monotonic()
    other = agent.start("text.q")
    agent.until_idle()
    assert state(agent, other) == "completed"
    assert time.monotonic() - began < 30  # the loop was never lost


@pytest.mark.parametrize("runs", ["thread", "worker", "inline"])
def test_section_18_parallel_nodes_lose_no_update_of_an_attribute(at: At, runs: str) -> None:
    part = "<node name='{}' type='sum'><arc to='end'/></node>"
    agent, run = at(
        "<node name='a' isStart='true'><arc to='b'/><arc to='c'/><arc to='d'/></node>"
        f"{part.format('b')}{part.format('c')}{part.format('d')}"
        "<node name='end' type='wait' joinType='and'/>",
        TASKS,
        runs,
    )
    assert agent.environment(run)["sum"] == "3"


def test_section_18_a_node_that_failed_is_told_until_it_is_run_again(at: At) -> None:
    agent, run = at(
        "<node name='a' type='picky' isStart='true'><arc to='b'/></node><node name='b' type='wait'/>",
        "@node_type('picky')\nclass Picky:\n    def execute(self, token):\n"
        "        token.set('n', 100 // token.process.environment.get('by', 0, int))\n"
        "        token.complete()\n",
    )
    assert problem(agent, run)[0] == "ZeroDivisionError"
    agent.elapse(seconds=1)
    [wrong] = agent.ask("attention")
    how = f"`narval rerun {run} --token 1` runs its node again, `narval complete {run} --token 1`"
    assert wrong["what"] == "incident"
    assert wrong["text"].startswith("w.p at a: ZeroDivisionError: ")
    assert f"{how} goes on without it" in wrong["text"]
    assert how in agent.why(run)["waiting"][0]["text"]
    [line] = [row["message"] for row in agent.ask("log") if row["level"] == "warning"]
    assert line.startswith(f"node a in run {run} of w.p failed: ZeroDivisionError")
    [row] = agent.ask("incidents")
    assert (row["definition"], row["part"], row["state"]) == ("w.p", "a", "open")
    agent.environment(run, values={"by": 5})
    assert agent.rerun(run, node="a") == {"run": run, "token": 1, "state": "executing"}
    agent.until_idle()
    assert standing(agent, run) == [("a", "complete"), ("b", "active")]
    assert refused(TokenError, lambda: agent.rerun(run, node="b")) == "not-failed"
    assert not agent.ask("attention")
    assert not agent.ask("incidents")


def test_section_18_a_guard_that_answers_again_leaves_nothing_failed_at_a_node_that_waits(at: At) -> None:
    agent, run = at(
        "<node name='a' type='wait' isStart='true'><guard>IF enough THEN Accept ELSE Skip</guard></node>",
        "@predicate\ndef enough(token):\n    return 100 // token.process.environment.get('by', 0, int) > 0\n",
    )
    assert problem(agent, run)[0] == "ZeroDivisionError"
    assert standing(agent, run) == [("a", "held")]
    agent.environment(run, values={"by": 5})
    agent.rerun(run, node="a")
    agent.until_idle()
    assert standing(agent, run) == [("a", "active")]
    assert agent.tokens(run)["tokens"][0]["error"] is None
    assert not agent.ask("incidents")


def test_section_18_what_to_do_about_a_failed_node_names_the_agent(at: At) -> None:
    own, _ = at(
        "<node name='a' type='picky' isStart='true'/>",
        "@node_type('picky')\nclass Picky:\n    def execute(self, token):\n        1 / 0\n",
    )
    own.ask("add_agent", name="ada")
    with own.other("ada") as ada:
        run = ada.start("w.p")
        ada.elapse(seconds=1)
        token = f"{run} --token 1 --agent ada"
        how = f"`narval rerun {token}` runs its node again, `narval complete {token}` goes on without it"
        [wrong] = ada.ask("attention")
        assert wrong["text"].endswith(how)
        for part in (None, "a"):
            [wait] = ada.why(run, part)["waiting"]
            assert wait["text"].endswith(how)
        *_, line = (row["message"] for row in own.ask("log") if row["level"] == "warning")
        assert line.endswith(how)


# --- simulation and hot files -----------------------------------------------------------------------------


def test_a_simulation_calls_no_node_and_goes_on(at: At) -> None:
    agent, _ = at(
        "<node name='a' type='task' isStart='true'><arc to='b'/></node>"
        "<node name='b' type='script'><arc to='c'/><custom><execute>"
        "token.process.env.setAttribute('seen', true)</execute></custom></node>"
        "<node name='c' type='wait'/>",
        TASKS,
    )
    before = len(agent.memory("todo"))
    told = agent.simulate("w.p")
    assert {call["action"]: call["how"] for call in told["calls"]} == {
        "task": "noted",
        "the script of node b": "ran",
    }
    assert len(agent.memory("todo")) == before


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


def test_section_18_the_external_of_a_node_imported_two_deep_is_the_outermost(at: At, tmp_path: Path) -> None:
    module = (
        "@node_type('where')\nclass Where:\n    def execute(self, token):\n        node = token.node\n"
        "        token.process.environment.set('code', f'{node.external} {\":\".join(node.external_path)}')\n"
        "        token.complete()\n"
    )
    path = "token.node.external + ' ' + ':'.join(token.node.external_path)"
    script = f"token.process.environment.set('script', {path})"
    agent, _ = at(
        "<node name='a' type='where' isStart='true'><arc to='s'/></node><node name='s' type='script'><custom>"
        f"<execute type='python'>{script}</execute></custom></node>",
        module,
    )
    for name, of, to, imported in (("middle", "inner", "a", "w.p"), ("outer", "far", "x", "w.middle")):
        text = f"<node name='x' isStart='true'><arc external='{of}' to='{to}'/></node>"
        text += f"<external name='{of}' processDefinition='{imported}'/>"
        (tmp_path / f"w.{name}.xml").write_text(nodes(text, name))
        agent.load(tmp_path / f"w.{name}.xml")
    run = agent.start("w.outer")
    agent.until_idle()
    assert agent.environment(run) == {"code": "far far:inner", "script": "far far:inner"}
    shown = [(row["node_id"], row["external"], row["external_path"]) for row in agent.tokens(run)["tokens"]]
    assert shown == [
        ("x", None, []),
        ("far:x", "far", ["far"]),
        ("far:inner:a", "far", ["far", "inner"]),
        ("far:inner:s", "far", ["far", "inner"]),
    ]


def test_a_stub_takes_the_place_of_a_node_type_with_properties(at: At) -> None:
    agent, _ = at(LINE, TASKS)
    agent.stub("task", lambda token: token.complete())
    agent.load(
        nodes("<node name='a' type='task' isStart='true'><custom><title>First</title></custom></node>", "q")
    )
    run = agent.start("text.q")
    agent.until_idle()
    assert (state(agent, run), agent.memory("todo")) == ("completed", [])
