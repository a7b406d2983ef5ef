"""What a language model's answer led to asks first by whatever way it came: again, elsewhere, as a task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.elements.element import CONTROL
from narval.files.shipped import shipped
from tests.calls.test_labels import ASK, CHILD, MODULE, PROMPT, SEND, asked, recipe, sent, then

MORE = """

@action(outside=False)
def fails():
    if not Path(call().home, "mended").exists():
        raise ActionError("not yet", "broken", final=True)
"""
BREAKS = recipe(
    "breaks", "child", "send", '<step id="child" type="recipe" target="w.child"/>',
    '<step id="break" type="action" target="m.fails"/>', SEND, then("child", "break"), then("break", "send"),
)  # fmt: skip
THERE = recipe(
    "there", "child", "send", '<step id="child" type="recipe" target="w.child" agent="shop">'
    "<arguments><prompt/></arguments></step>", SEND,
    then("child", "send"),
)  # fmt: skip
SENDER = recipe("sender", "send", "send", SEND)
CALLS = recipe(
    "calls", "ask", "there", ASK, '<step id="there" type="recipe" target="w.sender" agent="shop"/>',
    then("ask", "there"),
)  # fmt: skip
FILES = recipe(
    "files", "ask", "write", ASK, '<step id="write" type="action" target="basic.write_file">'
    '<arguments><target path="web/page.xml" folder="web"/></arguments>'
    '<input id="content"><match>verdict</match></input></step>', then("ask", "write"),
)  # fmt: skip
FLOW = recipe(
    "flows", "flow", "flow", '<step id="flow" type="dataflow" target="flow.Tells">'
    '<arguments><value name="pattern">verdict</value></arguments></step>',
)  # fmt: skip
PLAN = """PLAN Tells {
  INPUT: String pattern
  OUTPUT: said
  BODY {
    elements(pattern : found)
    project("name", found : said)
    notify("file:said.txt", said)
  }
}
"""
TASKS = """
TASK TYPE judge
  TASK CODE "w.child"
  INITIAL judging
  STATE judging EXPOSED
    ON EVENT done GOTO FORWARD
  ON FORWARD
    route(mailer);

TASK TYPE mailer
  TASK CODE "m.send"
  INITIAL sending
  STATE sending EXPOSED
    ON EVENT done GOTO COMMIT

TASK TYPE crier
  TASK CODE "w.child"
  INITIAL asking
  STATE asking EXPOSED
    ON EVENT done GOTO crying
  STATE crying EXPOSED
    ON ASSERT { raise(alarm); assert(COMMIT); }
    ON EVENT cried GOTO COMMIT

GLOBAL EVENT alarm
  CONDITION "prompt"
  ACTION { launch("touch rung"); }
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    recipes = (CHILD, BREAKS, THERE, SENDER, CALLS, FILES, FLOW)
    files = {
        "modules/m.py": MODULE + MORE,
        "modules/basic.py": (shipped() / "modules/basic.py").read_text(),
        "recipes/w.xml": f'<cookbook group="w">{"".join(recipes)}</cookbook>',
        "recipes/w.task": TASKS,
        "recipes/flow.plan": PLAN,
        "agents/shop/agent.toml": '[offers]\n"w.child" = ["narval"]\n"w.sender" = ["narval"]\n',
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


def test_a_run_that_is_tried_again_is_hearsay_as_the_first_was(agent: Any, home: Path) -> None:
    run = agent.start("w.breaks", PROMPT)
    agent.until_idle()
    (home / "mended").touch()
    agent.ask("retry", run=run)
    agent.until_idle()
    assert sent(home) == []
    assert len(asked(agent)) == 1


def test_a_run_that_calls_one_at_another_agent_is_hearsay_if_that_is(agent: Any, home: Path) -> None:
    agent.start("w.there", PROMPT)
    agent.until_idle()
    shop = agent.other("shop")
    shop.until_idle()
    agent.until_idle()
    assert sent(home) == []
    assert len(asked(agent)) == 1


def test_a_run_that_another_agent_calls_is_hearsay_if_its_caller_is(agent: Any, home: Path) -> None:
    agent.start("w.calls", PROMPT)
    agent.until_idle()
    shop = agent.other("shop")
    shop.until_idle()
    assert sent(home) == []
    assert len(asked(shop)) == 1


def test_an_object_of_a_task_is_hearsay_where_a_model_led_it(agent: Any, home: Path) -> None:
    agent.add(f'<al:task-object xmlns:al="{CONTROL}" type="w.judge">{PROMPT}</al:task-object>')
    agent.until_idle()
    assert sent(home) == []
    assert len(asked(agent)) == 1


def test_a_file_is_written_once_somebody_agrees(agent: Any, home: Path) -> None:
    agent.start("w.files", PROMPT)
    agent.until_idle()
    assert not (home / "web/page.xml").exists()
    agent.answer(asked(agent)[0], "approve")
    agent.until_idle()
    assert (home / "web/page.xml").exists()


def test_a_dataflow_reads_no_hearsay_out_of_memory(agent: Any, home: Path) -> None:
    agent.add("<verdict>mine</verdict>")
    run = agent.start("w.flows")
    agent.until_idle()
    assert agent.ask("show", run=run)["state"] == "done"
    agent.start("w.child", PROMPT)
    agent.until_idle()
    run = agent.start("w.flows")
    agent.until_idle()
    assert "asks = false" in agent.ask("show", run=run)["error"]["message"]


def test_an_event_is_hearsay_where_a_model_had_it_raised(agent: Any, home: Path) -> None:
    agent.add(f'<al:task-object xmlns:al="{CONTROL}" type="w.crier">{PROMPT}</al:task-object>')
    agent.until_idle()
    assert not list(home.glob("**/rung"))
    assert len(asked(agent)) == 1
