"""One element: what holds it, when it goes, and where it came from and what became of it (M8, M23, M24)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.ask.memory.element import DEEPEST, MOST_NODES
from narval.core.elements.element import Element
from narval.core.errors import RequestError
from narval.core.memory.memory import Memory
from narval.surfaces.python.agent import Agent
from narval.system.clock import SimulatedClock
from tests.daemon.at_work import Scene

MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("verdict", "verdict")], runs="inline")
def judge(mail):
    return "<verdict/>"

@action(inputs=[Input("verdict", "verdict")], outputs=[Output("answer", "answer")], runs="inline")
def answer(verdict):
    return "<answer/>"

@action(inputs=[Input("counter", "counter", outdates=True)], outputs=[Output("counter", "counter")],
        runs="inline")
def count(counter):
    return f"<counter n='{int(counter.attributes['n']) + 1}'/>"

@action(inputs=[Input("letter", "letter[@kind='mail']")], outputs=[Output("reply", "letter[@kind='reply']")],
        runs="inline")
def reply(letter):
    return "<letter kind='reply'/>"

@action(runs="inline")
def nothing():
    return None

@action(inputs=[Input("all", "mail", list=True)], outputs=[Output("sum", "sum")], runs="inline")
def collect(all):
    return f"<sum n='{len(all)}'/>"

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("copy", "copy", list=True)], runs="inline")
def copies(mail):
    return ["<copy/>"] * int(mail.attributes["copies"])
"""
RECIPES = """<cookbook>
<recipe group="w" name="triage" start_step="judge" end_step="answer" decay="3600">
  <step id="judge" type="action" target="w.judge"/><step id="answer" type="action" target="w.answer"/>
  <transition id="judged"><in idref="judge"/><out idref="answer"/></transition>
</recipe>
<recipe group="w" name="count" start_step="s" end_step="s">
  <step id="s" type="action" target="w.count"/></recipe>
<recipe group="w" name="reply" start_step="s" end_step="s">
  <step id="s" type="action" target="w.reply"/></recipe>
<recipe group="w" name="each" start_step="s" end_step="s">
  <step id="s" type="action" target="w.count" foreach="counter"/></recipe>
<recipe group="w" name="sum" start_step="s" end_step="s">
  <step id="s" type="action" target="w.collect"/></recipe>
<recipe group="w" name="keep" start_step="s" end_step="e">
  <step id="s" type="action" target="w.nothing"/><step id="e" type="action" target="w.nothing"/>
  <transition id="t"><in idref="s"/><out idref="e"/><condition><match>answer</match></condition></transition>
</recipe>
<recipe group="w" name="copy" start_step="s" end_step="s">
  <step id="s" type="action" target="w.copies"/></recipe>
</cookbook>"""


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(0)


@pytest.fixture
def agent(tmp_path: Path, clock: SimulatedClock) -> Iterator[Agent]:
    scene = Scene(tmp_path / "home")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    with narval.open(scene.home.path, by="ann", clock=clock) as agent:
        yield agent


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The eids of elements that memory was asked for."""
    eids: list[int] = []
    element = Memory.element

    def counted(self: Memory, eid: int) -> Element | None:
        eids.append(eid)
        return element(self, eid)

    monkeypatch.setattr(Memory, "element", counted)
    return eids


def done(agent: Agent, name: str, *given: str) -> int:
    run = agent.start(name, *given)
    agent.until_idle()
    return run


def only(agent: Agent, name: str) -> int:
    (found,) = agent.memory(name)
    return found.eid


def test_M24_provenance_goes_both_ways_with_who_made_what(agent: Agent) -> None:
    mail = agent.add("<mail from='ada'>Hello</mail>")
    run = done(agent, "w.triage")
    verdict, answer = only(agent, "verdict"), only(agent, "answer")
    shown = agent.ask("element", eid=verdict)
    assert (shown["run_of"], shown["state"], shown["target"]) == ("w.triage", "done", "w.judge")
    assert (shown["origin"]["run"], shown["origin"]["step"]) == (run, "judge")
    assert shown["origin"]["call"] is not None
    (before,), (after,) = shown["back"], shown["on"]
    assert (before["eid"], before["name"], before["depth"], before["from"]) == (mail, "mail", 1, [])
    assert (before["origin"], before["run_of"]) == ({"run": None, "step": None, "by": "ann"}, None)
    assert (after["eid"], after["depth"], after["from"], after["target"]) == (
        answer,
        1,
        [verdict],
        "w.answer",
    )
    assert shown["more"] == {"back": False, "on": False}
    forward = agent.ask("element", eid=mail)
    assert [(node["eid"], node["depth"]) for node in forward["on"]] == [(verdict, 1), (answer, 2)]
    assert [use["run"] for use in forward["used_by"]] == [run]
    backward = agent.ask("element", eid=answer)
    assert [(node["eid"], node["depth"]) for node in backward["back"]] == [(verdict, 1), (mail, 2)]


def test_the_title_of_an_element_is_its_words_and_that_of_an_error_its_message(agent: Agent) -> None:
    told = {
        "<error type='odd'><message>no paper</message><detail>m.py:3 in f</detail></error>": "no paper",
        "<note><b>Hello</b><b>there</b>, Ann</note>": "Hello there, Ann",
    }
    for xml, title in told.items():
        assert agent.ask("element", eid=agent.add(xml))["title"] == title


def test_M23_what_holds_it_and_when_it_goes(agent: Agent) -> None:
    mail = agent.add("<mail from='ada'>Hello</mail>")
    assert agent.ask("element", eid=mail)["forgotten"] is None
    run = done(agent, "w.triage")
    shown = agent.ask("element", eid=mail)
    assert shown["attributes"] == {"from": "ada"}
    assert shown["held_by"] == [{"run": run, "run_of": "w.triage", "state": "done"}]
    assert (shown["holders"], shown["declared"]) == (1, None)
    assert shown["forgotten"]["run"] == run
    library = agent.ask("element", eid=only(agent, "recipe[@name='triage']"))
    assert (library["declared"], library["forgotten"]) == ("library", None)


def test_M23_the_moment_is_that_at_which_it_is_forgotten(agent: Agent, clock: SimulatedClock) -> None:
    mail = agent.add("<mail from='ada'/>")
    run = done(agent, "w.triage")
    verdict = only(agent, "verdict")
    at = agent.ask("element", eid=mail)["forgotten"]["at"]
    clock.advance(3599)
    agent.until_idle()
    assert agent.ask("element", eid=mail)["forgotten"]["at"] == at
    clock.advance(1)
    agent.until_idle()
    for gone in (mail, verdict, run):
        with pytest.raises(RequestError, match=f"no element or run {gone} any more: it was forgotten"):
            agent.ask("element", eid=gone)


def test_M8_one_that_never_was_is_told_from_one_that_is_gone(agent: Agent) -> None:
    with pytest.raises(RequestError, match="there is no element 4711; `narval memory` lists"):
        agent.ask("element", eid=4711)
    run = done(agent, "w.triage", "<mail/>")
    with pytest.raises(RequestError, match=f"{run} is a run; `narval show {run}` shows it"):
        agent.ask("element", eid=run)


def test_M23_versions_before_and_after(agent: Agent) -> None:
    first = agent.add("<counter n='0'/>")
    for _ in range(3):
        done(agent, "w.count")
    counters = [element.eid for element in agent.memory("counter")]
    assert counters[0] == first
    middle = agent.ask("element", eid=counters[1])
    assert (middle["before"], middle["after"], middle["outdated"]) == ([first], counters[2:], True)
    last = agent.ask("element", eid=counters[3])
    assert (last["before"], last["after"]) == (counters[2::-1], [])


def test_M23_a_version_that_a_person_gave_and_why_one_counts_no_more(agent: Agent) -> None:
    old = agent.add("<counter n='0'/>")
    new = agent.add("<counter n='7'/>", replace=old)
    assert (agent.ask("element", eid=old)["after"], agent.ask("element", eid=new)["before"]) == ([new], [old])
    agent.outdate([new], reason="not today")
    told = agent.ask("element", eid=new)
    assert [node["name"] for node in told["on"]] == ["outdated"]
    assert told["after"] == []


def test_M24_an_origin_that_was_forgotten_says_so(agent: Agent, clock: SimulatedClock) -> None:
    mail = agent.add("<mail from='ada'/>")
    done(agent, "w.triage")
    keeper = done(agent, "w.keep")
    answer = only(agent, "answer")
    clock.advance(7200)
    agent.until_idle()
    shown = agent.ask("element", eid=answer)
    assert shown["held_by"] == [{"run": keeper, "run_of": "w.keep", "state": "done"}]
    assert (shown["origin"]["run"] is not None, shown["run_of"], shown["target"]) == (True, None, None)
    (gone,) = shown["back"]
    assert (gone["name"], gone["origin"], gone["eid"]) == (None, None, shown["origin"]["inputs"][0])
    assert agent.memory("mail") == []
    assert mail < gone["eid"]


def test_M24_no_more_is_shown_than_fits(agent: Agent) -> None:
    mails = agent.add_all(["<mail copies='300'/>"] * 300)
    done(agent, "w.sum")
    shown = agent.ask("element", eid=only(agent, "sum"))
    assert [node["eid"] for node in shown["back"]] == mails[:MOST_NODES]
    assert shown["more"] == {"back": True, "on": False}
    done(agent, "w.copy")
    (used,) = agent.memory("copy")[0].origin.inputs
    shown = agent.ask("element", eid=used)
    assert len(shown["on"]) == MOST_NODES
    assert shown["more"]["on"] is True


def test_M24_it_goes_so_deep(agent: Agent) -> None:
    agent.add("<counter n='0'/>")
    for _ in range(DEEPEST + 3):
        done(agent, "w.count")
    counters = [element.eid for element in agent.memory("counter")]
    last, first = agent.ask("element", eid=counters[-1]), agent.ask("element", eid=counters[0])
    assert [node["depth"] for node in last["back"]] == list(range(1, DEEPEST + 1))
    assert last["more"] == {"back": True, "on": False}
    assert last["back"][-1]["more"] == 1
    assert [node["eid"] for node in first["on"]] == counters[1 : DEEPEST + 1]
    assert first["more"]["on"] is True


def test_M24_it_costs_what_it_shows_however_large_memory_is(agent: Agent, looked_at: list[int]) -> None:
    mail = agent.add("<mail from='ada'/>")
    done(agent, "w.triage")
    agent.add_all(["<note/>"] * 20_000)
    looked_at.clear()
    shown = agent.ask("element", eid=mail)
    assert len(shown["on"]) == 2
    assert len(looked_at) < 30


def test_M24_what_was_made_of_it_is_there_however_much_its_run_holds(agent: Agent) -> None:
    agent.start("w.triage", "<mail copies='1'/>", *["<note/>"] * 5_100)
    agent.until_idle()
    shown = agent.ask("element", eid=only(agent, "mail"))
    assert [node["name"] for node in shown["on"]] == ["verdict", "answer"]
    assert shown["more"] == {"back": False, "on": False}


def test_M23_a_step_for_each_of_some_elements_makes_a_version_of_each(agent: Agent) -> None:
    first, second = (agent.add(f"<counter n='{number}'/>") for number in (1, 5))
    done(agent, "w.each")
    after = [agent.ask("element", eid=eid)["after"] for eid in (first, second)]
    assert sorted(map(len, after)) == [1, 1]
    numbers = [agent.ask("element", eid=eid)["attributes"]["n"] for [eid] in after]
    assert numbers == ["2", "6"]


def test_M23_what_was_made_from_another_of_its_name_is_no_version_of_it(agent: Agent) -> None:
    mail = agent.add("<letter kind='mail'/>")
    done(agent, "w.reply")
    (_, reply) = agent.memory("letter")
    agent.outdate([mail], reason="it is answered")
    told = agent.ask("element", eid=mail)
    assert [node["eid"] for node in told["on"] if node["name"] == "letter"] == [reply.eid]
    assert (told["outdated"], told["after"]) == (True, [])
    assert agent.ask("element", eid=reply.eid)["before"] == []
    assert agent.why(mail)["outdated_by"]["reason"] == "it is answered"
