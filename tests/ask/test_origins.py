"""Where an element came from, and what was made from it: `origin` and `uses` (F13)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.elements.changes import Added, Forgotten
from narval.core.elements.element import Element, Origin
from narval.core.errors import RequestError
from narval.core.memory.memory import Memory
from narval.core.memory.packed import ElementTable
from narval.surfaces.python.agent import Agent
from tests.ask.test_story import MODULE, RECIPES
from tests.counting import CountedCalls
from tests.daemon.at_work import Scene

SENDS = """<cookbook>
<recipe group="w" name="tell" start_step="s" end_step="s">
  <step id="s" type="send" to="shop">
    <input id="message" list="yes"><match>answer</match></input></step></recipe>
<recipe group="w" name="ask" start_step="s" end_step="s">
  <step id="s" type="recipe" target="w.turns" agent="shop" timeout="1h">
    <input id="asked"><match>answer[@n]</match></input></step></recipe>
</cookbook>"""
SHOP = """<cookbook>
<recipe group="w" name="turns" start_step="s" end_step="s">
  <step id="s" type="action" target="w.turn"/></recipe>
</cookbook>"""
TURN = """

@action(inputs=[Input("answer", "answer", use=True)], outputs=[Output("letter", "letter")], runs="inline")
def turn(answer):
    return "<letter/>"
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    scene = Scene(tmp_path / "home", settings="timezone = 'UTC'\n")
    scene.write("modules/w.py", MODULE + TURN)
    scene.write("recipes/w.xml", RECIPES)
    scene.write("recipes/sends.xml", SENDS)
    scene.write("recipes/shop.xml", SHOP)
    scene.write("agents/shop/agent.toml", 'offers = {"w.turns" = ["*"]}\n')
    with narval.open(scene.home.path, by="ann") as agent:
        agent.until_idle()
        yield agent


def told(answer: dict[str, Any]) -> dict[str, list[str]]:
    return {row["id"]: row["from"] for row in answer["elements"]}


def triaged(agent: Agent) -> tuple[int, int, int]:
    mail = agent.add("<mail from='ada'/>")
    agent.start("w.triage")
    agent.until_idle()
    return mail, agent.memory("verdict")[-1].eid, agent.memory("answer")[-1].eid


def test_F13_an_element_is_followed_back_to_what_came_from_outside_and_forward(agent: Agent) -> None:
    mail, verdict, answer = triaged(agent)
    back = agent.ask("origin", eid=answer)
    assert told(back) == {str(answer): [str(verdict)], str(verdict): [str(mail)], str(mail): []}
    made, judged, came = back["elements"]
    assert (made["run_of"], made["origin"]["step"], judged["target"]) == ("w.triage", "answer", "w.judge")
    assert [row["outside"] for row in (made, judged, came)] == [None, None, "by ann"]
    on = agent.ask("uses", eid=mail)
    assert told(on) == {str(mail): [], str(verdict): [str(mail)], str(answer): [str(verdict)]}
    first = on["elements"][0]
    assert [use.get("transition") or use["step"] for use in first["used_by"]] == ["arrival", "judge"]
    assert [run["run_of"] for run in first["consulted_by"]] == ["w.triage"]
    assert not on["more"]
    assert agent.ask("uses", eid=mail, limit=2)["more"]
    drawn = agent.ask("origin", eid=answer, drawn=True)["dot"]
    assert f'"{mail}" -> "{verdict}"' in drawn


def test_F13_what_came_after_the_first_question_is_found_too(agent: Agent) -> None:
    mail, _verdict, _answer = triaged(agent)
    assert len(agent.ask("uses", eid=mail)["elements"]) == 3
    again, _, later = triaged(agent)
    assert str(later) in told(agent.ask("uses", eid=again))
    assert agent.why(mail)["made"] == 2


def test_F13_the_way_goes_on_at_the_agent_that_sent_it_and_at_the_one_it_was_sent_to(agent: Agent) -> None:
    mail, verdict, answer = triaged(agent)
    agent.start("w.tell")
    agent.start("w.ask", '<answer n="2"/>')
    agent.until_idle()
    shop = agent.other("shop")
    (letter,) = shop.memory("letter")
    (sent, given) = shop.memory("answer")
    on = agent.ask("uses", eid=mail)
    assert told(on)[f"shop:{sent.eid}"] == [str(answer)]
    assert {row["agent"] for row in on["elements"]} == {"narval", "shop"}
    assert [row["agent"] for row in on["elements"][2]["sent_to"]] == ["shop"]
    (reply,) = agent.memory("letter")
    back = told(agent.ask("origin", eid=reply.eid))
    (asked,) = agent.memory("answer[@n='2']")
    assert back == {
        str(reply.eid): [f"shop:{letter.eid}"],
        f"shop:{letter.eid}": [f"shop:{given.eid}"],
        f"shop:{given.eid}": [str(asked.eid)],
        str(asked.eid): [],
    }
    there = told(shop.ask("origin", eid=sent.eid))
    assert there[str(sent.eid)] == [f"narval:{answer}"]
    assert there[f"narval:{verdict}"] == [f"narval:{mail}"]


def test_F13_what_was_forgotten_is_told_as_such(agent: Agent) -> None:
    _mail, verdict, answer = triaged(agent)
    agent.runner.run(agent.daemon.host.submit(lambda turn: turn.transaction.change(Forgotten((verdict,)))))
    back = agent.ask("origin", eid=answer)
    assert [(row["id"], row["stands"]) for row in back["elements"]] == [
        (str(answer), "current"),
        (str(verdict), "forgotten"),
    ]
    with pytest.raises(RequestError, match=f"no element or run {verdict} any more: it was forgotten"):
        agent.ask("uses", eid=verdict)


def test_F13_no_more_is_looked_at_than_what_is_told_once_there_is_an_index(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail, *_ = triaged(agent)
    for _ in range(300):
        agent.add("<note/>")
    agent.ask("uses", eid=mail)
    looked, get = list[int](), ElementTable.get
    monkeypatch.setattr(ElementTable, "get", lambda table, eid: looked.append(eid) or get(table, eid))
    agent.ask("uses", eid=mail)
    assert len(looked) < 30


def test_a_list_of_what_was_made_lets_go_of_what_is_gone() -> None:
    memory = Memory()
    assert not list(memory.descent.reading)
    for eid in range(2, 2002):
        memory.apply(Added(Element(eid, b"<a/>", 0.0, Origin(1, "s", inputs=(1,)))))
        if eid > 20:
            memory.apply(Forgotten((eid - 10,)))
    assert memory.descent.of(1) == [*range(2, 11), *range(1992, 2002)]
    assert len(memory.descent._made[1]) < 256


def test_nothing_is_left_of_what_is_gone() -> None:
    memory = Memory()
    assert not list(memory.descent.reading)
    for eid in range(2, 2002):
        memory.apply(Added(Element(eid, b"<a/>", 0.0, Origin(agent="shop", sent_as=(eid,)))))
        memory.apply(Forgotten((eid,)))
    several = range(3000, 3100)
    for eid in several:
        memory.apply(Added(Element(eid, b"<a/>", 0.0, Origin(1, "s", inputs=(1, eid - 1)))))
    assert memory.descent.of(1) == [*several]
    for eid in several:
        memory.apply(Forgotten((eid,)))
    assert memory.descent._made == memory.descent._gone == {}


CHAIN = """
from narval import Input, Output, action

@action(inputs=[Input("before", "link", use=True)], outputs=[Output("after", "link")], runs="inline")
def forge(before):
    return f"<link n='{int(before.attributes['n']) + 1}'/>"
"""


def test_a_row_more_costs_few_calls_of_functions(tmp_path: Path) -> None:
    """A thousand rows are there within 10 ms where nothing else is done: 32 calls of functions a row back,
    56 forward, with what the profiler counts of C.
    """
    scene = Scene(tmp_path / "home")
    scene.write("modules/w.py", CHAIN)
    scene.write("recipes/w.xml", "<recipe group='w' name='forge' start_step='s' end_step='s'>"
                                 "<step id='s' type='action' target='w.forge'/></recipe>")  # fmt: skip
    with narval.open(scene.home.path) as agent:
        first = agent.add("<link n='0'/>")
        for _ in range(120):
            agent.start("w.forge")
        agent.until_idle()
        last = max(element.eid for element in agent.memory("link"))
        for operation, eid, most in (("origin", last, 32), ("uses", first, 56)):
            few, many = (calls_of(agent, operation, eid, limit) for limit in (20, 120))
            assert (many - few) / 100 < most


def calls_of(agent: Agent, operation: str, eid: int, limit: int) -> int:
    """How many functions are called for an answer of so many rows."""
    agent.ask(operation, eid=eid, limit=limit)
    with CountedCalls() as calls:
        answer = agent.ask(operation, eid=eid, limit=limit)
    assert len(answer["elements"]) == limit
    return calls.number
