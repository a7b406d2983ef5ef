"""People let elements count no more, or replace them: through Python, by name and from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.errors import ElementError, RequestError
from narval.surfaces.python.agent import Agent
from tests.daemon.at_work import Scene

MODULE = """
import asyncio
from narval import Input, Output, action

@action(runs="inline")
def nothing():
    return None

@action(inputs=[Input("counter", "counter", outdates=True)], outputs=[Output("counter", "counter")])
async def slow(counter):
    await asyncio.sleep(3600)
"""
RECIPES = """<cookbook>
<recipe group="w" name="slow" start_step="s" end_step="s">
  <step id="s" type="action" target="w.slow"/></recipe>
<recipe group="w" name="wait" start_step="a" end_step="b">
  <step id="a" type="action" target="w.nothing"/><step id="b" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition><match>rule[@on]</match></condition></transition>
</recipe></cookbook>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


@pytest.fixture
def agent(scene: Scene) -> Iterator[Agent]:
    with narval.open(scene.home.path, by="ann") as agent:
        yield agent


def test_N18_an_element_is_outdated_with_a_reason_and_by_whom(agent: Agent) -> None:
    first, second = agent.add_all(["<rule on='1'/>", "<rule on='2'/>"])
    answer = agent.outdate([first, second, first], reason="not today")
    assert answer["eids"] == [first, second]
    (note,) = agent.memory("outdated")
    assert note.eid == answer["note"]
    assert note.attributes == {
        "elements": f"{first} {second}", "reason": "not today", "eid": str(note.eid)
    }  # fmt: skip
    assert note.origin is not None
    assert (note.origin.by, note.origin.inputs) == ("ann", (first, second))
    assert agent.memory("rule", current=True) == []
    assert agent.outdate([first]) == {"eids": [], "note": None}
    run = agent.start("w.wait")
    agent.until_idle()
    assert agent.run(run)["phase"] == "active", "no condition gets it"


def test_an_element_is_added_in_place_of_another_and_is_there_for_those_who_wait(agent: Agent) -> None:
    old = agent.add("<rule/>")
    run = agent.start("w.wait")
    agent.until_idle()
    new = agent.add("<rule on='1'/>", replace=old)
    agent.until_idle()
    assert agent.run(run)["phase"] == "done"
    element = agent.element(new)
    assert element is not None
    assert element.origin is not None
    assert (element.origin.by, element.origin.inputs) == ("ann", (old,))
    assert [rule.eid for rule in agent.memory("rule", current=True)] == [new]
    with pytest.raises(RequestError, match=f"element {old} was replaced before"):
        agent.add("<rule/>", replace=old)
    with pytest.raises(RequestError, match="one element replaces another: expected one, got 2"):
        agent.ask("add", elements=[b"<memory><rule/><rule/></memory>"], replace=new)


def test_N4_what_replaces_a_declared_element_is_declared_until_the_file_is_changed(scene: Scene) -> None:
    def rules(agent: Agent) -> list[str]:
        return [rule.attributes["on"] for rule in agent.memory("rule", current=True)]

    scene.write("data/memory.xml", "<memory><rule name='a' on='1'/><rule name='b' on='1'/></memory>")
    with narval.open(scene.home.path) as agent:
        first, second = (rule.eid for rule in agent.memory("rule"))
        new = agent.add("<rule name='a' on='mine'/>", replace=first)
        agent.outdate([second])
    for _ in range(2):
        with narval.open(scene.home.path) as agent:
            assert rules(agent) == ["mine"]
            assert new in agent.daemon.agent.memory.declared
    scene.write("data/memory.xml", "<memory><rule name='a' on='2'/><rule name='b' on='2'/></memory>")
    with narval.open(scene.home.path) as agent:
        assert rules(agent) == ["2", "2"]


def test_N7_what_replaces_an_element_must_fit_its_schema(scene: Scene) -> None:
    scene.write("etc/schemas/rule.dtd", "<!ELEMENT rule EMPTY>\n<!ATTLIST rule on CDATA #REQUIRED>")
    with narval.open(scene.home.path) as agent:
        old = agent.add("<rule on='1'/>")
        with pytest.raises(ElementError, match="rule"):
            agent.add("<rule/>", replace=old)
        assert len(agent.memory("rule", current=True)) == 1


@pytest.mark.parametrize("ask", ["outdate", "replace"])
def test_what_cannot_be_outdated_is_refused_with_the_next_step(agent: Agent, ask: str) -> None:
    def refused(eid: int) -> str:
        arguments: dict[str, Any] = {"elements": [b"<rule/>"], "replace": eid}
        operation = "add"
        if ask == "outdate":
            operation, arguments = "outdate", {"eids": [eid]}
        with pytest.raises(RequestError) as caught:
            agent.ask(operation, **arguments)
        return str(caught.value)

    (recipe,) = agent.memory("recipe[@name='slow']")
    counter = agent.add("<counter/>")
    run = agent.start("w.slow")
    agent.runner.run(agent.daemon.main_loop.work_until(lambda: bool(agent.daemon.agent.memory.reserved)))
    assert refused(999_999) == "there is no element 999999; `narval memory` lists them"
    assert refused(run) == f"{run} is a run, not an element of its own; `narval cancel {run}` ends it"
    assert refused(recipe.eid).endswith("(recipe) tells what a file of the home says: alter the file")
    assert refused(counter).startswith(f"a call under way is replacing element {counter}; ask again")
