"""The story of an element: `why` of its eid, as data, in Python and on the command line (N11)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.core.errors import RequestError
from narval.surfaces.cli.render import answers, reasons
from narval.surfaces.python.agent import Agent
from tests.daemon.at_work import Scene

MODULE = """
import asyncio
from narval import Input, Output, action

@action(runs="inline")
def nothing():
    return None

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("verdict", "verdict")], runs="inline")
def judge(mail):
    return "<verdict/>"

@action(inputs=[Input("verdict", "verdict")], outputs=[Output("answer", "answer")], runs="inline")
def answer(verdict):
    return "<answer/>"

@action(inputs=[Input("mail", "mail")])
async def reads(mail):
    await asyncio.sleep(3600)
"""
RECIPES = """<cookbook>
<recipe group="w" name="triage" start_step="listen" end_step="answer">
  <step id="listen" type="action" target="w.nothing"/><step id="judge" type="action" target="w.judge"/>
  <step id="answer" type="action" target="w.answer"/>
  <transition id="arrival"><in idref="listen"/><out idref="judge"/>
    <condition use="yes"><match>mail[@from]</match></condition></transition>
  <transition id="judged"><in idref="judge"/><out idref="answer"/></transition>
</recipe>
<recipe group="w" name="read" start_step="s" end_step="s">
  <step id="s" type="action" target="w.reads"/></recipe>
</cookbook>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    scene = Scene(tmp_path / "home")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    with narval.open(scene.home.path, by="ann") as agent:
        yield agent


def test_N11_an_element_that_no_rule_took_tells_what_the_conditions_of_its_name_expected(
    agent: Agent,
) -> None:
    mail, other = agent.add("<mail to='ada'/>"), agent.add("<letter/>")
    run = agent.start("w.triage")
    agent.until_idle()
    (waits,) = agent.why(mail)["waiting"]
    assert (waits["run"], waits["id"], waits["pattern"]) == (run, "arrival", "mail[@from]")
    assert waits["not"].startswith("@from, found ")
    assert list(reasons.why(agent.why(mail)))[1:] == [
        f"  wanted by   arrival, in run {run} of w.triage (running); not this one: expected {waits['not']}"
    ]
    assert agent.why(other)["waiting"] == []


def test_N8_N18_an_element_tells_who_used_it_what_was_made_of_it_and_who_holds_it(agent: Agent) -> None:
    mail = agent.add("<mail from='ada'/>")
    run = agent.start("w.triage")
    agent.until_idle()
    reader = agent.start("w.read")
    agent.runner.run(agent.daemon.main_loop.work_until(lambda: bool(agent.daemon.agent.runs[reader].calls)))
    again = agent.start("w.triage")
    agent.runner.run(agent.daemon.main_loop.work_until(lambda: bool(agent.daemon.agent.runs[again].watches)))
    story = agent.why(mail)
    of_run = {"run_of": "w.triage", "state": "done"}
    assert (story["element"], story["name"], story["origin"]["by"]) == (mail, "mail", "ann")
    assert [
        (use.get("transition"), use.get("step"), use["run"], use["run_of"]) for use in story["used_by"]
    ] == [
        ("arrival", None, run, "w.triage"),
        (None, "judge", run, "w.triage"),
    ]
    (verdict,), (answer,) = agent.memory("verdict"), agent.memory("answer")
    assert [(made["eid"], made["directly"]) for made in story["made_of_it"]] == [
        (verdict.eid, True),
        (answer.eid, False),
    ]
    assert story["made"] == 2
    assert story["made_of_it"][0] | of_run == story["made_of_it"][0]
    assert story["held_by"] == [{"run": run, **of_run}]
    assert [(call["run"], call["target"]) for call in story["given_to"]] == [(reader, "w.reads")]
    (waits,) = story["waiting"]
    assert (waits["run"], waits["id"], waits["pattern"]) == (again, "arrival", "mail[@from]")
    assert waits["not"] == f"one not used before: used by w.triage arrival #1 in run {run}"
    assert (story["outdated"], story["outdated_by"], story["declared"]) == (False, None, None)
    assert [(before["eid"], before["name"]) for before in agent.why(answer.eid)["made_from"]] == [
        (verdict.eid, "verdict")
    ]
    lines = list(reasons.why(story))
    assert lines[0].startswith(f"element {mail}, a mail · ada: ann, ")
    assert lines[1:] == [
        f"  used by     transition arrival of w.triage, in run {run} of w.triage (done)",
        f"  used by     step judge of w.triage, in run {run} of w.triage (done)",
        f"  given to    w.reads, step s, in run {reader} of w.read (running)",
        f"  made of it  {verdict.eid} verdict, run {run} judge",
        f"    and then  {answer.eid} answer, run {run} answer",
        f"  held by     run {run} of w.triage (done)",
        f"  wanted by   arrival, in run {again} of w.triage (running); not this one: expected one not used "
        f"before: used by w.triage arrival #1 in run {run}",
    ]


def test_an_element_tells_by_what_it_is_outdated(agent: Agent) -> None:
    first = agent.add("<rule name='a'/>")
    second = agent.add("<rule name='b'/>", replace=first)
    note = agent.outdate([second], reason="not today")["note"]
    assert agent.why(first)["outdated_by"]["eid"] == second
    by = agent.why(second)["outdated_by"]
    assert (by["eid"], by["reason"], by["origin"]["by"]) == (note, "not today", "ann")
    assert list(reasons.why(agent.why(second)))[-1] == f"  outdated    by {note} outdated, ann: not today"
    (recipe,) = agent.memory("recipe[@name='read']")
    assert agent.why(recipe.eid)["declared"] == "library"


def test_what_is_neither_a_run_nor_an_element_and_a_part_of_an_element_are_refused(agent: Agent) -> None:
    eid = agent.add("<mail/>")
    with pytest.raises(RequestError, match=f"{eid} is an element \\(mail\\): it has no part 'send'"):
        agent.why(eid, "send")
    with pytest.raises(RequestError, match="there is no run 9999"):
        agent.why(9999)


def test_a_long_story_names_the_first_and_counts_the_rest(agent: Agent) -> None:
    old = agent.add("<rule/>")
    for _ in range(52):
        old = agent.add("<rule/>", replace=old)
    story = agent.why(agent.memory("rule")[0].eid)
    assert (len(story["made_of_it"]), story["made"]) == (50, 52)
    assert any(line.strip().startswith("and 42 more") for line in reasons.why(story))


def test_N8_a_call_and_what_it_was_given_are_told_where_a_person_looks(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    mail = agent.add("<mail from='ana'/>")
    run = agent.start("w.triage")
    agent.until_idle()
    reader = agent.start("w.read")
    agent.runner.run(agent.daemon.main_loop.work_until(lambda: bool(agent.daemon.agent.runs[reader].calls)))
    (verdict,) = agent.memory("verdict")
    judged = agent.why(verdict.eid)["origin"]["call"]
    assert f"  made by     call {judged}" in list(reasons.why(agent.why(verdict.eid)))
    answers.run(agent.run(run))
    assert f"{judged} judge {mail} {verdict.eid}" in rows(capsys)
    (under_way,) = agent.run(reader)["calls"]
    assert (under_way["step"], under_way["inputs"], under_way["gave"]) == ("s", [mail], None)
    answers.run(agent.run(reader))
    assert f"{under_way['call']} s {mail} under way" in rows(capsys)
    said = list(reasons.why(agent.why(reader)))
    assert f"  it is call {under_way['call']}, given {mail} mail · ana" in said


def rows(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines written, without what sets their columns apart."""
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
