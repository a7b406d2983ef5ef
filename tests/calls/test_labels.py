"""What goes outside because of a language model's answer asks first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.files.check import check_home
from narval.files.home import Home
from narval.files.shipped import shipped

MODULE = """
from pathlib import Path
from narval import ActionError, Input, Output, action, call

@action(inputs=[Input("prompt", "prompt")], outputs=[Output("verdict", "verdict")],
        model="prompt", outside=False)
def ask(prompt):
    if prompt.attributes.get("away"):
        raise ActionError("it is away", "unreachable", final=True)
    return "<verdict is='send'/>"

@action(inputs=[Input("letter", "*")])
def send(letter):
    with (Path(call().home) / "sent").open("a") as log:
        log.write(f"{letter.name} {call().id}\\n")

@action(inputs=[Input("letter", "*")], outside=False)
def keep(letter): pass

@action(outputs=[Output("go", "go")], runs="inline", pure=True)
def go():
    return "<go/>"

@action(outputs=[Output("before", "before")], runs="inline", pure=True)
def before():
    return "<before/>"

@action(runs="inline", pure=True)
def nothing(): pass
"""
ASK = """<step id="ask" type="action" target="m.ask"/>"""
SEND = """<step id="send" type="action" target="m.send">
  <arguments><letter/></arguments><input id="letter"><match>letter</match></input></step>"""
NEXT = '<transition id="{0}-{1}"><in idref="{0}"/><out idref="{1}"/>{2}</transition>'


def recipe(name: str, start: str, end: str, *parts: str, attributes: str = "") -> str:
    text = "".join(parts)
    return f'<recipe name="{name}" start_step="{start}" end_step="{end}" {attributes}>{text}</recipe>'


def then(first: str, second: str, condition: str = "") -> str:
    match = f"<condition><match>{condition}</match></condition>" if condition else ""
    return NEXT.format(first, second, match)


GIVEN = recipe(
    "given", "ask", "send", ASK, '<step id="send" type="action" target="m.send">'
    '<input id="letter"><match>verdict</match></input></step>', then("ask", "send"),
)  # fmt: skip
COURSE = recipe("course", "ask", "send", ASK, SEND, then("ask", "send", "verdict[@is='send']"))
KEPT = recipe(
    "kept", "ask", "keep", ASK, '<step id="keep" type="action" target="m.keep">'
    '<input id="letter"><match>verdict</match></input></step>', then("ask", "keep"),
)  # fmt: skip
CHILD = recipe(
    "child", "ask", "go", ASK, '<step id="go" type="action" target="m.nothing"/>', then("ask", "go")
)
PARENT = recipe(
    "parent",
    "child",
    "send",
    '<step id="child" type="recipe" target="w.child"/>',
    SEND,
    then("child", "send"),
)
WRITES = recipe(
    "writes", "before", "go", '<step id="before" type="action" target="m.before"/>', ASK,
    '<step id="go" type="action" target="m.go"/>', then("before", "ask"), then("ask", "go"),
)  # fmt: skip
READS = "".join(
    recipe(
        f"reads-{name}", "wait", "send", '<step id="wait" type="action" target="m.nothing"/>', SEND,
        then("wait", "send", name),
    )
    for name in ("go", "before")
)  # fmt: skip
FALLS = recipe(
    "falls", "ask", "send", ASK, SEND,
    '<transition id="away"><in idref="ask" on-error="yes"/><out idref="send"/></transition>',
    then("ask", "send"),
)  # fmt: skip
STARTS = recipe(
    "starts", "ask", "start", ASK,
    '<step id="start" type="action" target="basic.start">'
    '<arguments><start recipe="w.sends"/></arguments></step>',
    then("ask", "start"),
) + recipe("sends", "send", "send", SEND)  # fmt: skip
OWN = recipe(
    "own", "ask", "send", ASK, SEND.replace('m.send"', 'm.send" approve="w.mine"'), then("ask", "send")
)
PROGRAM = """<AUTOMATON name="runs"><STATE name="start" command="touch ran"/></AUTOMATON>"""
RUNS = recipe(
    "programs", "ask", "run", ASK, '<step id="run" type="automaton" target="auto.runs"/>', then("ask", "run")
)
FLOW = recipe(
    "flows", "ask", "flow", ASK,
    '<step id="flow" type="dataflow" target="flow.Says">'
    '<arguments><value name="word">so</value></arguments></step>', then("ask", "flow"),
)  # fmt: skip
SENDS = recipe(
    "messages", "ask", "tell", ASK, '<step id="tell" type="send" to="shop">'
    '<input id="message"><match>verdict</match></input></step>', then("ask", "tell"),
)  # fmt: skip
PLAN = """PLAN Says {
  INPUT: String word
  OUTPUT: said
  BODY { sprintf("so %s", (word) : said) notify("file:said.txt", said) }
}
"""
MINE = '<work name="mine"><title>Mine</title><outcome name="approve"/></work>'
RECIPES = (GIVEN, COURSE, KEPT, CHILD, PARENT, WRITES, READS, FALLS, STARTS, OWN, RUNS, FLOW)
PROMPT, AWAY = "<prompt/>", "<prompt away='yes'/>"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    files = {
        "modules/m.py": MODULE,
        "recipes/w.xml": f'<cookbook group="w">{MINE}{"".join(RECIPES)}</cookbook>',
        "etc/people.toml": "[people.ann]\n",
        "recipes/auto.xml": PROGRAM,
        "recipes/flow.plan": PLAN,
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


def sent(home: Path) -> list[str]:
    log = home / "sent"
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def shown(agent: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = agent.ask("memory", xpath=name)[0]
    return found


def asked(agent: Any) -> list[int]:
    return [row["item"] for row in agent.worklist()]


@pytest.mark.parametrize("name", ["given", "course", "parent", "falls"])
def test_a_call_outside_after_a_models_answer_is_made_once_somebody_agrees(
    agent: Any, home: Path, name: str
) -> None:
    run = agent.start(f"w.{name}", PROMPT)
    agent.until_idle()
    (item,) = asked(agent)
    assert sent(home) == []
    offered = agent.work_item(item)
    assert offered["work"] == "model.approve"
    assert "Because: a language model's answer has entered into the run" in offered["text"]
    agent.answer(item, "approve")
    agent.until_idle()
    assert sent(home) == ["verdict" if name == "given" else "letter"]
    assert agent.ask("show", run=run)["state"] == "done"


def test_another_answer_than_approve_is_the_error_rejected(agent: Any, home: Path) -> None:
    run = agent.start("w.course", PROMPT)
    agent.until_idle()
    agent.answer(asked(agent)[0], "reject")
    agent.until_idle()
    assert sent(home) == []
    assert agent.ask("show", run=run)["error"]["type"] == "rejected"


def test_what_stays_inside_is_not_asked_for(agent: Any) -> None:
    run = agent.start("w.kept", PROMPT)
    agent.until_idle()
    assert asked(agent) == []
    assert agent.ask("show", run=run)["state"] == "done"


def test_a_model_that_is_away_taints_nothing(agent: Any, home: Path) -> None:
    agent.start("w.falls", AWAY)
    agent.until_idle()
    assert sent(home) == ["letter"]
    assert asked(agent) == []


def test_what_a_run_made_after_the_answer_carries_it_on_and_what_it_made_before_does_not(
    agent: Any, home: Path
) -> None:
    agent.start("w.reads-go")
    agent.start("w.reads-before")
    agent.start("w.writes", PROMPT)
    agent.until_idle()
    assert len(sent(home)) == 1, "of the run that waited for what was made before"
    assert len(asked(agent)) == 1
    go, before = shown(agent, "go"), shown(agent, "before")
    assert (go["hearsay"], before["hearsay"]) == (True, False)
    assert agent.why(go["eid"])["hearsay"]


def test_a_run_that_a_start_plan_begins_asks_too(agent: Any, home: Path) -> None:
    agent.start("w.starts", PROMPT)
    agent.until_idle()
    assert len(asked(agent)) == 1
    assert sent(home) == []


def test_the_work_of_a_step_takes_the_place_of_no_question_of_the_home(agent: Any, home: Path) -> None:
    agent.start("w.own", PROMPT)
    for work in ("w.mine", "model.approve"):
        agent.until_idle()
        (item,) = asked(agent)
        assert (agent.work_item(item)["work"], sent(home)) == (work, [])
        agent.answer(item, "approve")
    agent.until_idle()
    assert sent(home) == ["letter"]


def test_programs_ask_too(agent: Any, home: Path) -> None:
    agent.start("w.programs", PROMPT)
    agent.until_idle()
    (item,) = asked(agent)
    assert not list(home.glob("**/ran"))
    assert "where it runs: program" in agent.work_item(item)["text"]
    agent.answer(item, "approve")
    agent.until_idle()
    assert asked(agent) == []
    assert list(home.glob("**/ran"))


def test_it_outlives_a_restart(home: Path) -> None:
    with narval.open(home, by="ann") as agent:
        run = agent.start("w.writes", PROMPT)
        agent.until_idle()
    with narval.open(home, by="ann") as agent:
        assert shown(agent, "go")["hearsay"]
        agent.start("w.reads-go")
        agent.until_idle()
        assert len(asked(agent)) == 1
        assert agent.ask("show", run=run)["state"] == "done"
    with narval.open(home, by="ann") as agent:
        agent.answer(asked(agent)[0], "approve")
        agent.until_idle()
    assert sent(home) == ["letter"]


def test_what_is_sent_to_another_agent_is_hearsay_there_too(agent: Any, home: Path) -> None:
    agent.ask("add_agent", name="shop")
    agent.load(SENDS.replace("<recipe ", '<recipe group="w" ', 1))
    agent.start("w.messages", PROMPT)
    agent.until_idle()
    shop = agent.other("shop")
    assert shown(shop, "verdict")["hearsay"]
    shop.add("<verdict/>")
    shop.until_idle()
    assert [row["hearsay"] for row in shop.ask("memory", xpath="verdict")] == [True, False]


def test_a_dataflow_after_a_models_answer_is_refused(agent: Any) -> None:
    run = agent.start("w.flows", PROMPT)
    agent.until_idle()
    error = agent.ask("show", run=run)["error"]
    assert "asks = false" in error["message"]


def test_without_the_work_nothing_goes_outside(home: Path) -> None:
    (home / "recipes/model.xml").unlink()
    with narval.open(home, by="ann") as agent:
        run = agent.start("w.course", PROMPT)
        agent.until_idle()
        error = agent.ask("show", run=run)["error"]
    assert sent(home) == []
    assert error["type"] == "unknown-target"
    assert "narval take recipes/model.xml" in error["message"]


def test_a_home_with_a_model_and_without_the_work_is_told(home: Path) -> None:
    (home / "etc/narval.toml").write_text('[models.far]\nurl = "https://example.org/v1"\nmodel = "x"\n')
    assert check_home(Home(home)) == []
    (home / "recipes/model.xml").unlink()
    (fault,) = check_home(Home(home))
    assert fault.warning
    assert str(fault).startswith("etc/narval.toml:1:")
    assert "narval take recipes/model.xml" in fault.message


def test_a_model_that_is_trusted_leads_to_no_question(home: Path) -> None:
    trusted = '[models.near]\nurl = "https://example.org/v1"\nmodel = "x"\nasks = false\n'
    (home / "etc/narval.toml").write_text(trusted)
    with narval.open(home, by="ann") as agent:
        agent.start("w.course", "<prompt model='near'/>")
        agent.until_idle()
        assert sent(home) == ["letter"]
        agent.start("w.course", "<prompt model='far'/>")
        agent.until_idle()
        assert sent(home) == ["letter"]
        assert len(asked(agent)) == 1
