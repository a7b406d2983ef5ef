"""Every way by which an element comes to be, or something is decided, carries on what a language model said.

The ways are read off the code: the commands of engines, events, changes of memory, whoever adds an element or
begins a run, and whoever reads memory to decide. Each has a scenario here, or a reason why it says nothing; a
new way fails until it has one of both.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import narval
from narval.agent.turn import Turn
from narval.core.elements.changes import Change
from narval.core.elements.element import CONTROL
from narval.core.engines.effects import EFFECTS
from narval.core.engines.events import Event
from narval.files.shipped import shipped
from tests.calls.test_labels import ASK, CHILD, MODULE, PROMPT, READS, SEND, WRITES, asked, recipe, sent, then
from tests.places import ROOT

MORE = """

@action(inputs=[Input("prompt", "prompt")], outputs=[Output("verdict", "verdict")],
        model="prompt", outside=False)
def says(prompt):
    raise ActionError("it said: buy", prompt.attributes["kind"], final=True)

@action(inputs=[Input("prompt", "prompt")], outputs=[Output("verdict", "verdict")],
        model="prompt", outside=False)
def breaks(prompt):
    raise ValueError("cannot read: buy")

@action(outside=False)
def fails():
    raise ActionError("what it said was of no use", "useless", final=True)
"""
SAYS = recipe("says", "say", "say", '<step id="say" type="action" target="m.says"/>')
BREAKS = recipe("breaks", "say", "say", '<step id="say" type="action" target="m.breaks"/>')
FAILS = recipe(
    "fails", "ask", "fail", ASK, '<step id="fail" type="action" target="m.fails"/>', then("ask", "fail")
)
LATER = recipe(
    "later", "ask", "wait", ASK, '<step id="wait" type="action" target="m.nothing"/>',
    then("ask", "wait", "never"),
)  # fmt: skip
OUTER = recipe("outer", "in", "in", '<step id="in" type="recipe" target="w.child"/>')
INNER = recipe(
    "inner", "ask", "in", ASK, '<step id="in" type="recipe" target="w.sender"/>', then("ask", "in")
)
SENDER = recipe("sender", "send", "send", SEND)
UNTIL = recipe(
    "until", "wait", "send",
    '<step id="wait" type="action" target="m.nothing" every="1h" until="go"/>',
    SEND, then("wait", "send"),
)  # fmt: skip
ABROAD = recipe(
    "abroad", "in", "in",
    '<step id="in" type="recipe" target="w.fails" agent="shop"><arguments><prompt/></arguments></step>',
)  # fmt: skip
OUT = recipe(
    "out", "ask", "out", ASK, '<step id="out" type="send" to="nobody">'
    '<input id="message"><match>verdict</match></input></step>', then("ask", "out"),
)  # fmt: skip
PROCESS = """<process-definition name="guarded">
  <node name="first" isStart="true"><arc to="second"/></node>
  <node name="second" type="wait"><guard type="xpath" else="Discard">go</guard></node>
</process-definition>"""
TASKS = """
TASK TYPE one
  INVOCATION: AUTO
  INITIAL waiting
  STATE waiting EXPOSED
    ON EVENT poke CONDITION "go" ACTION { launch("touch poked"); }
    ON EVENT gone GOTO COMMIT

GLOBAL EVENT alarm
  CONDITION "go"
  ACTION { launch("touch rung"); }
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    recipes = (CHILD, WRITES, READS, SAYS, BREAKS, FAILS, LATER, OUTER, INNER, SENDER, UNTIL, ABROAD, OUT)
    files = {
        "modules/m.py": MODULE + MORE,
        "recipes/w.xml": f'<cookbook group="w">{"".join(recipes)}</cookbook>',
        "recipes/p.wf.xml": PROCESS,
        "recipes/t.task": TASKS,
        "agents/shop/agent.toml": '[offers]\n"w.fails" = ["narval"]\n',
        "etc/people.toml": "[people.ann]\n",
        "recipes/model.xml": (shipped() / "recipes/model.xml").read_text(),
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.fixture
def agent(home: Path) -> Iterator[Any]:
    with narval.open(home, by="ann") as opened:
        yield opened


def is_marked(agent: Any, eid: int) -> bool:
    labels = agent.daemon.agent.memory.labels
    return bool(labels.is_hearsay(labels.of((eid,))))


def all_marked(agent: Any, name: str, count: int = 1) -> None:
    """All elements of a name are hearsay, and there are so many."""
    rows = agent.ask("memory", xpath=name)
    assert len(rows) == count, rows
    assert all(row["hearsay"] for row in rows), rows


def done(agent: Any, name: str, *elements: str) -> int:
    """A run that has come as far as it does by itself."""
    run = agent.start(name, *elements)
    agent.until_idle()
    return int(run)


def hearsay_go(agent: Any) -> None:
    """Have memory hold one element `go`, which is hearsay."""
    done(agent, "w.writes", PROMPT)
    all_marked(agent, "go")


# --- the ways, acted out --------------------------------------------------------------------------------


def made_by_a_step(agent: Any, home: Path) -> None:
    hearsay_go(agent)
    assert not agent.ask("memory", xpath="before")[0]["hearsay"]


def held_by_a_run(agent: Any, home: Path) -> None:
    hearsay_go(agent)
    assert is_marked(agent, done(agent, "w.reads-go"))
    assert not is_marked(agent, done(agent, "w.reads-before"))


def a_model_answers(agent: Any, home: Path) -> None:
    assert is_marked(agent, done(agent, "w.child", PROMPT))


def a_run_calls_another(agent: Any, home: Path) -> None:
    done(agent, "w.inner", PROMPT)
    runs = {row["name"]: row["eid"] for row in agent.ask("runs")}
    assert is_marked(agent, runs["w.sender"])


def a_run_tells_its_caller(agent: Any, home: Path) -> None:
    assert is_marked(agent, done(agent, "w.outer", PROMPT))


def a_run_fails(agent: Any, home: Path) -> None:
    done(agent, "w.fails", PROMPT)
    all_marked(agent, "error")
    all_marked(agent, "failure")


def narval_fails_a_run(agent: Any, home: Path) -> None:
    run = agent.daemon.agent.runs[done(agent, "w.later", PROMPT)]
    agent.runner.run(agent.daemon.host.submit(lambda turn: turn.fail(run, "internal-error", "broken")))
    all_marked(agent, "error")
    all_marked(agent, "failure")


def a_models_words_are_an_error(agent: Any, home: Path) -> None:
    for number, kind in enumerate(("bad-answer", "model-refused", "of-its-own"), 1):
        assert is_marked(agent, done(agent, "w.says", f"<prompt kind='{kind}'/>"))
        all_marked(agent, "error", number)
        all_marked(agent, "failure", number)
    assert is_marked(agent, done(agent, "w.breaks", PROMPT))
    for kind in ("unreachable", "model-busy", "model-failed", "over-budget", "bad-prompt"):
        assert not is_marked(agent, done(agent, "w.says", f"<prompt kind='{kind}'/>"))


def a_guard_of_a_process(agent: Any, home: Path) -> None:
    hearsay_go(agent)
    assert is_marked(agent, done(agent, "p.guarded"))
    agent.add("<go/>")
    assert not is_marked(agent, done(agent, "p.guarded")), "it holds without what a model said"


def a_step_until(agent: Any, home: Path) -> None:
    hearsay_go(agent)
    assert is_marked(agent, done(agent, "w.until"))
    assert (sent(home), len(asked(agent))) == ([], 1)


def a_condition_of_a_global_event(agent: Any, home: Path) -> None:
    hearsay_go(agent)
    agent.ask("task_raise", event="t.alarm")
    agent.until_idle()
    assert not list(home.glob("**/rung"))
    assert len(asked(agent)) == 1
    agent.add("<go/>")
    agent.ask("task_raise", event="t.alarm")
    agent.until_idle()
    assert list(home.glob("**/rung")), "it holds without what a model said"


def a_condition_of_a_rule(agent: Any, home: Path) -> None:
    hearsay_go(agent)
    agent.ask("task_raise", event="poke", name="t.one", elements=[b"<letter/>"])
    agent.until_idle()
    assert not list(home.glob("**/poked"))
    assert len(asked(agent)) == 1


def a_control_element(agent: Any, home: Path) -> None:
    def add(turn: Turn) -> None:
        with turn.transaction.coming_with(turn.agent.memory.labels.number(["model:far"])):
            turn.add(f'<al:start-plan xmlns:al="{CONTROL}" recipe="w.new"/>'.encode())

    agent.runner.run(agent.daemon.host.submit(add))
    all_marked(agent, "error")
    agent.load(SENDER.replace('name="sender"', 'name="new" group="w"'))
    agent.until_idle()
    assert (sent(home), len(asked(agent))) == ([], 1)


def a_run_abroad_fails(agent: Any, home: Path) -> None:
    done(agent, "w.abroad")
    agent.other("shop").until_idle()
    agent.until_idle()
    all_marked(agent, "error")
    all_marked(agent, "failure")


def a_message_comes_back(agent: Any, home: Path) -> None:
    done(agent, "w.out", PROMPT)
    all_marked(agent, "error")


SCENARIOS: tuple[Callable[[Any, Path], None], ...] = (
    made_by_a_step, held_by_a_run, a_model_answers, a_run_calls_another, a_run_tells_its_caller, a_run_fails,
    narval_fails_a_run, a_models_words_are_an_error, a_guard_of_a_process, a_step_until,
    a_condition_of_a_global_event, a_condition_of_a_rule, a_control_element, a_run_abroad_fails,
    a_message_comes_back,
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_a_model_said_is_carried_on_by(
    scenario: Callable[[Any, Path], None], agent: Any, home: Path
) -> None:
    scenario(agent, home)


# --- that these are all of them -------------------------------------------------------------------------

NOTHING = "says nothing of elements, and begins nothing"
BY_A_PERSON = "a person gives it, or a file does: no model had a say in that"
HOLDS = "what it finds is held by its run, or made of"
OWN = "what its run holds already"

COMMANDS = {
    "Add": made_by_a_step,
    "AddToContext": held_by_a_run,
    "Call": a_run_calls_another,
    "Finish": a_run_tells_its_caller,
    "Outdate": "the element that takes the place is made of what it replaces",
    "Start": "the next run begins with the elements of the first, which are hearsay if they were",
    "Answer": "tests/calls/test_labels_on_their_way.py",
    **dict.fromkeys(("MarkUsed", "RecordUnique", "Reserve", "Release", "ScheduleForget"), NOTHING),
    **dict.fromkeys(("Watch", "Unwatch", "SetTimer", "CancelTimer", "CancelCall"), NOTHING),
}
EVENTS = {
    "Started": a_run_calls_another,
    "Returned": (a_model_answers, a_models_words_are_an_error, a_run_tells_its_caller, a_run_abroad_fails),
    "Produced": a_model_answers,
    "Matched": (held_by_a_run, a_guard_of_a_process, a_condition_of_a_global_event),
    "Signalled": "tests/calls/test_labels_on_their_way.py",
    "CallApproved": BY_A_PERSON,
    "Migrated": "the run has the labels of who asks for it (tests/ask/test_migrating.py)",
    "Redefined": "only a plan that has taken nothing begins anew by another version",
    **dict.fromkeys(("CallStarting", "TimerFired", "Cancelled"), NOTHING),
}
CHANGES = {
    "Added": (made_by_a_step, a_run_fails),
    "Held": held_by_a_run,
    **dict.fromkeys(("Unheld", "Used", "Reserved", "Released", "Outdated", "Labelled"), NOTHING),
    **dict.fromkeys(("Keyed", "Undeclared", "Forgotten"), NOTHING),
    **dict.fromkeys(("Withdrawn", "Doubted", "Confirmed"), NOTHING),
}
ENTRANCES = {
    "agent/controls:Controls._execute": a_control_element,
    "agent/controls:Controls._start": a_control_element,
    "agent/controls:Controls._put": a_control_element,
    "agent/controls:Controls.add": a_control_element,
    "agent/declared:_declare_memory": "by a person, or as agent/test_first_labels has it",
    "agent/declared:outdate_elements": "it is made of what it is about",
    "agent/declared:replace_element": "it is made of what it replaces",
    "agent/declared:_compare": BY_A_PERSON,
    "agent/effects:TurnEffects._transfer_declaration": "the same element, under the same number",
    "agent/effects:start_again": a_control_element,
    "agent/runs:end_run": a_run_fails,
    "agent/runs:begin_service_run": "a standing run is for all, and never is hearsay",
    "agent/transaction:Transaction.add": made_by_a_step,
    "agent/turn:Turn._add_error": narval_fails_a_run,
    "agent/turn:_leaves_out": NOTHING,
    "calls/edge:Edge._withheld_answer": "it names a definition and labels, in narval's own words",
    "calls/approvals:_tell_not_added": "it is about the owner's file of rules, in narval's own words",
    "kinds/dataflow/calls/home_side:_add": "a dataflow that hearsay led to is refused (test_labels.py)",
    "calls/of_kinds:begin_run": (a_run_calls_another, a_condition_of_a_global_event),
    "daemon/agents/resuming:_report": NOTHING,
    "daemon/dropped/inbox:Inbox._add.work": "by a person, or as daemon/test_reading has it",
    "daemon/dropped/inbox:Inboxes._add_error": BY_A_PERSON,
    "daemon/grant_items:offer_items": "it tells what a definition of the home needs",
    "daemon/messages/agent_mail:AgentMail.send": a_message_comes_back,
    "daemon/grant_answers:GrantAnswers._write": "it tells what a definition of the home needs",
    "daemon/messages/kinds:take_element": "tests/calls/test_labels.py",
    "daemon/messages/kinds:take_notice": "tests/calls/test_labels.py",
    "agent/withdrawing:withdraw": BY_A_PERSON,
    "agent/withdrawing:confirm": BY_A_PERSON,
    "agent/relying:undo_run": "its calls are given what those of the run had, with their labels",
    "calls/book:AgentCalls._wait_no_more.tell": "it names an action, a run and a step, and nothing else",
    "daemon/messages/kinds:_add_all": a_run_abroad_fails,
    "daemon/messages/kinds:_begin": "tests/calls/test_labels_on_their_way.py",
    "ask/attention/incidents:acknowledge.work": BY_A_PERSON,
    "ask/clients/outside:take_hook.work": BY_A_PERSON,
    "ask/documents:add_all": BY_A_PERSON,
    "ask/memory/changing:add.added": BY_A_PERSON,
    "ask/reminders:remind.work": BY_A_PERSON,
    "ask/reminders:snooze.work": BY_A_PERSON,
    "ask/reminders:_listen": BY_A_PERSON,
    "ask/chat/inbox:_added": BY_A_PERSON,
    "ask/chat/inbox:_take_strange": "it has the label chat, whoever wrote it",
    "ask/runs/acts:start_in_turn": "tests/calls/test_labels_on_their_way.py",
    "kinds/task/operations/programs:task_init.work": BY_A_PERSON,
    "kinds/task/operations/administration:_begin": BY_A_PERSON,
    "ask/runs/retrying:_begin_anew": "it is hearsay if the run that it takes the place of is",
}
DECISIONS = {
    "kinds/automaton/engine/running:_fed": OWN,
    "core/engines/candidates:CandidateSearch._newest": HOLDS,
    "core/engines/candidates:CandidateSearch._ranks": (held_by_a_run, a_step_until),
    "core/engines/candidates:CandidateSearch._near": HOLDS,
    "core/engines/candidates:CandidateSearch._first": HOLDS,
    "core/engines/candidates:CandidateSearch._place": HOLDS,
    "kinds/dataflow/engine/engine:_nearest": HOLDS,
    "core/engines/decision:Decision.keep": "what it finds is replaced by an output that is made",
    "kinds/process/engine/conditions:concerns": HOLDS,
    "kinds/process/engine/tokens/rubric:respond": a_guard_of_a_process,
    "kinds/recipe/engine/engine:_concerns": HOLDS,
    "kinds/recipe/engine/undo/engine:UndoDecision._inputs": "it finds only what the run was given and made",
    "kinds/recipe/engine/steps/inputs:InputSearch.fitting": HOLDS,
    "kinds/recipe/engine/steps/inputs:InputSearch.may_take": HOLDS,
    "kinds/recipe/engine/steps/inputs:InputSearch._is_reserved": "it waits for what it will hold",
    "kinds/recipe/engine/steps/inputs:InputSearch.explain_missing": "it counts for people what it leaves",
    "kinds/recipe/engine/steps/returns:_of_run": HOLDS,
    "kinds/recipe/engine/steps/running:call_more": HOLDS,
    "kinds/recipe/engine/steps/running:_selected": HOLDS,
    "kinds/recipe/engine/steps/retries:follow_selection": HOLDS,
    "kinds/recipe/engine/steps/retries:_counts": HOLDS,
    "kinds/recipe/engine/transitions/combinations:_Combination._is_present": "it waits for what it will hold",
    "kinds/recipe/engine/transitions/combinations:_Combination._leading": "it is held if it is chosen",
    "kinds/recipe/engine/transitions/combinations:_Combination._only_new": "it is held if it is chosen",
    "kinds/recipe/engine/transitions/conditions:_lasting": HOLDS,
    "kinds/task/engine/server/rules:judge_bound": (a_condition_of_a_global_event, a_condition_of_a_rule),
    "kinds/work/engine/ending:_read": BY_A_PERSON,
}


ROOMS = ("agent", "calls", "people", "daemon", "ask", "kinds/*/calls", "kinds/*/operations")
"""The rooms in which elements and runs begin."""


def calls(room: str, is_way: Callable[[list[str]], bool]) -> set[str]:
    """The functions of rooms that call something, as `path:name`; `is_way` is given its parts."""
    found = set()

    def walk(node: ast.AST, where: str) -> None:
        for child in ast.iter_child_nodes(node):
            is_named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if isinstance(child, ast.Call) and is_way(ast.unparse(child.func).split(".")):
                found.add(where)
            walk(child, f"{where}{'' if where[-1] == ':' else '.'}{child.name}" if is_named else where)

    package = ROOT / "narval"
    for path in package.glob(f"{room}/**/*.py"):
        walk(ast.parse(path.read_text()), f"{path.relative_to(package).with_suffix('').as_posix()}:")
    return found


def enters(name: list[str]) -> bool:
    """True if something of this name adds an element, or begins a run."""
    verbs = ("add", "add_error", "start", "start_run")
    of_turn = name[-1] in verbs and name[-2:-1] in (["turn"], ["transaction"], ["_transaction"])
    return of_turn or name in (["changes", "Added"], ["start_run"])


def decides(name: list[str]) -> bool:
    """True if something of this name looks for elements in memory."""
    verbs = ("matching", "among", "fits", "fits_since", "reserved")
    return name[-1] in verbs and name[-2:-1] == ["view"]


@pytest.mark.parametrize(
    ("ways", "there"),
    [
        (COMMANDS, lambda: {kind.__name__ for kind in EFFECTS}),
        (EVENTS, lambda: {kind.__name__ for kind in get_args(Event)}),
        (CHANGES, lambda: {kind.__name__ for kind in get_args(Change)}),
        (ENTRANCES, lambda: set().union(*(calls(room, enters) for room in ROOMS))),
        (DECISIONS, lambda: calls("core", decides) | calls("kinds/*/engine", decides)),
    ],
    ids=["commands", "events", "changes", "entrances", "decisions"],
)
def test_each_way_has_a_scenario_or_a_reason(ways: dict[str, Any], there: Callable[[], set[str]]) -> None:
    assert set(ways) == there()
    for how in ways.values():
        if not isinstance(how, str):
            assert set(how if isinstance(how, tuple) else (how,)) <= set(SCENARIOS)
        elif how.startswith("tests/"):
            assert (ROOT / how).exists()
