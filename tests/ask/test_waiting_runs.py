"""Runs by what they wait for: counted in the status, and listed, at the cost of what changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.agent.run import Run
from narval.ask.runs import waiting
from narval.core.engines.registry import engine_of
from narval.core.errors import RequestError
from narval.surfaces.cli.render import reasons
from narval.surfaces.python.agent import Agent
from narval.system.logins import login

LINE = """<recipe group="t" name="{0}" start_step="a" end_step="b">
  <step id="a" {1}/><step id="b" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>{2}</transition></recipe>"""
NOTHING = 'type="action" target="basic.nothing"'
BOOK = f"""<cookbook>
{LINE.format("element", NOTHING, "<condition><match>never</match></condition>")}
{LINE.format("moment", NOTHING, '<time hours="7" minutes="0" seconds="0"/>')}
{LINE.format("call", 'type="recipe" target="t.element"', "")}
{LINE.format("person", 'type="work" target="t.ask"', "")}
<work group="t" name="ask"><title>Well?</title><for roles="operator"/><outcome name="ok"/></work>
</cookbook>"""
ACT = """<process-definition name="act"><node name="enter" type="wait" isStart="1"/></process-definition>"""


@pytest.fixture
def agent() -> Iterator[Agent]:
    with narval.open(clock=narval.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        agent.load(BOOK)
        agent.load(ACT)
        yield agent


def waiting_for(agent: Agent, sort: str, **query: object) -> list[str]:
    return [run["name"] for run in agent.ask("runs", waiting_for=sort, **query)]


def test_runs_are_listed_and_counted_by_what_they_wait_for(agent: Agent) -> None:
    for name in ("t.element", "t.moment", "t.call", "t.person", "text.act"):
        agent.start(name)
    agent.until_idle()
    names = {sort: waiting_for(agent, sort) for sort in waiting.SORTS}
    assert names == {
        "person": ["t.person"], "act": ["text.act"], "nothing": [], "element": ["t.element", "t.element"],
        "moment": ["t.moment"], "call": ["t.call"],
    }  # fmt: skip
    assert agent.ask("status")["waits_for"] == {sort: len(runs) for sort, runs in names.items()}
    assert waiting_for(agent, "person", kind="work") == ["t.ask"]  # an item is listed where it is asked for
    newest, oldest = agent.ask("runs", waiting_for="element", limit=2)
    assert agent.ask("runs", waiting_for="element", limit=2, before=newest["eid"]) == [oldest]
    assert waiting_for(agent, "element", state="done") == []


def test_a_run_that_has_not_begun_waits_for_nothing(agent: Agent) -> None:
    state, library = agent.daemon.agent, agent.daemon.agent.library
    for kind, name in (("recipe", "t.element"), ("process", "text.act")):
        definition: Any = library.get(kind, name)
        run = Run(1, engine_of(kind), name, definition.digest, 0.0)
        run.begin(definition, library)
        assert waiting.waits_for(state, run) == "nothing"


def test_a_run_that_waits_for_a_person_says_what_is_asked_and_why_says_whom_until_when(agent: Agent) -> None:
    agent.load("""<work group="t" name="ask"><title>Well?</title><for roles="operator"/>
      <outcome name="ok" needs="2"/><deadline after="1d"/></work>""")
    agent.start("t.person")
    agent.until_idle()
    (run,) = agent.ask("runs", waiting_for="person")
    (item,) = agent.ask("runs", waiting_for="person", kind="work")
    assert (run["asks"], item["asks"]) == ("Well?", "Well?")
    assert [call["asks"] for call in agent.ask("status")["calls"]] == ["Well?"]
    (wait,) = agent.ask("why", run=run["eid"])["waiting"]
    assert wait["asked"] == [
        {
            "item": item["eid"],
            "of": "t.ask",
            "who": "a person with the role operator",
            "about": "Well?",
            "until": "2026-03-02T06:00:00.000+00:00",
        }
    ]
    said = "\n".join(reasons.why(agent.ask("why", run=run["eid"])))
    assert "it asks a person with the role operator, until 2026-03-02 06:00:00 UTC: Well?" in said
    assert "asks" not in agent.run(agent.start("t.element"))


def test_a_call_of_another_run_with_a_time_limit_is_waited_for_and_not_the_limit(agent: Agent) -> None:
    agent.load("""<recipe group="t" name="limited" start_step="a" end_step="a">
      <step id="a" type="recipe" target="t.element" timeout="1d"/></recipe>""")
    run = agent.start("t.limited")
    agent.until_idle()
    assert agent.run(run)["waits_for"] == "call"


def test_a_date_that_an_element_holds_is_waited_for_and_not_the_element(agent: Agent) -> None:
    agent.load("""<recipe group="t" name="soon" start_step="a" end_step="c">
      <step id="a" type="action" target="basic.nothing"/>
      <step id="b" type="action" target="basic.nothing"/>
      <step id="c" type="action" target="basic.nothing"/>
      <transition id="s"><in idref="a"/><out idref="b"/>
        <condition as="m" use="yes"><match>meeting</match></condition></transition>
      <transition id="t"><in idref="b"/><out idref="c"/><time at="$m/@start" before="15m"/></transition>
    </recipe>""")
    run = agent.start("t.soon", "<meeting start='2026-03-02T10:00'/>")
    agent.until_idle()
    assert (agent.run(run)["waits_for"], waiting_for(agent, "moment")) == ("moment", ["t.soon"])


def test_what_goes_on_waits_for_another_thing_and_what_ends_for_none(agent: Agent) -> None:
    person, element = agent.start("t.person"), agent.start("t.element")
    agent.until_idle()
    assert waiting_for(agent, "person") == ["t.person"]
    agent.cancel(person)
    agent.add("<never/>")
    agent.until_idle()
    assert (waiting_for(agent, "person"), waiting_for(agent, "element")) == ([], [])
    assert set(agent.ask("status")["waits_for"].values()) == {0}
    assert agent.run(element)["waits_for"] is None


HELD = """from narval import action

@action(runs="inline")
def send(): pass

@action(source=True)
async def watch():
    import asyncio
    await asyncio.Event().wait()
    yield "<never/>"
"""
ASKS = f"""<cookbook>
{LINE.format("held", 'type="action" target="m.send" approve="t.agree"', "")}
<recipe group="t" name="watches" start_step="a" end_step="a">
  <step id="a" type="action" target="m.watch"/></recipe>
<work group="t" name="agree"><title>Send?</title><for roles="operator"/><outcome name="approve"/>
<outcome name="reject"/></work></cookbook>"""


def test_a_call_that_is_to_be_agreed_to_waits_for_a_person_and_one_that_watches_for_an_element(
    tmp_path: Path,
) -> None:
    (tmp_path / "m.py").write_text(HELD)
    with narval.open(by=login(os.geteuid())) as agent:
        agent.load(tmp_path / "m.py")
        agent.load(ASKS)
        held = agent.start("t.held")
        agent.until_idle()
        assert (waiting_for(agent, "person"), waiting_for(agent, "nothing")) == (["t.held"], [])
        (item,) = agent.runs(kind="work", state="active")
        *_, entry = (entry for group in agent.ask("story", run=held)["groups"] for entry in group["entries"])
        asks = {"run": item["eid"], "title": f"run {item['eid']}"}
        assert entry["said"] == ["It called m.send", "; ", asks, " asks if it may", "."]
        agent.ask("answer", item=item["eid"], outcome="reject")
        agent.until_idle()
        assert waiting_for(agent, "person") == []
        watches = agent.start("t.watches")
        assert waiting_for(agent, "element") == ["t.watches"]
        agent.cancel(watches)
        agent.until_idle()
        assert waiting_for(agent, "element") == []


def test_a_look_costs_what_changed(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.start_each("t.element", ["<x/>"] * 50)
    agent.until_idle()
    agent.ask("status")
    looked_at, look = list[int](), waiting.waits_for

    def counted(agent: waiting.AgentState, run: waiting.Run) -> str | None:
        looked_at.append(run.eid)
        return look(agent, run)

    monkeypatch.setattr(waiting, "waits_for", counted)
    assert agent.ask("status")["waits_for"]["element"] == 50
    assert looked_at == []
    new = agent.start("t.element")
    agent.until_idle()
    assert agent.ask("status")["waits_for"]["element"] == 51
    assert looked_at == [new]


def test_a_sort_that_there_is_not_is_named_with_those_there_are(agent: Agent) -> None:
    with pytest.raises(RequestError, match=r"one of person, act, nothing, element, moment, call, got 'rain'"):
        agent.ask("runs", waiting_for="rain")


def test_runs_are_known_by_what_they_had_to_do_with(agent: Agent) -> None:
    run = agent.start("t.element", "<letter subject='Price list?' from='otto'/>")
    agent.until_idle()
    about = agent.ask("runs_about", runs=[run, 999])
    assert {eid: [one["title"] for one in elements] for eid, elements in about.items()} == {
        str(run): ["letter · Price list? · otto"], "999": []
    }  # fmt: skip
    with pytest.raises(RequestError, match="expected at most 1,000 runs, got 1,001"):
        agent.ask("runs_about", runs=[run] * 1001)


def test_the_log_says_with_how_many_runs_a_daemon_starts(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "t.xml").write_text(BOOK)
    for runs in ("0 runs", "1 run"):
        with narval.open(tmp_path) as agent:
            started = [line["message"] for line in agent.ask("log") if "started on" in line["message"]]
            assert started[-1] == f"started on {tmp_path}, with {runs} under way"
            agent.start("t.moment")
            agent.until_idle()
