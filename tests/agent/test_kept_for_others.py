"""What a condition has yet to use is not forgotten with the run that made it (N5)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import narval
from narval import SimulatedClock
from narval.surfaces.python.agent import Agent

RECIPES = """<cookbook group="q">
<recipe name="produce" start_step="copy" end_step="copy" decay="3">
  <step id="copy" type="action" target="basic.copy">
    <input id="element"><match>order</match></input>
    <arguments><copy-as name="job"/></arguments></step>
</recipe>
<recipe name="consume" start_step="listen" end_step="work" restart="yes" decay="3">
  <step id="listen" type="action" target="basic.nothing"/>
  <step id="work" type="action" target="basic.pause"><arguments><pause seconds="10"/></arguments></step>
  <transition id="t"><in idref="listen"/><out idref="work"/>
    <condition use="yes"><match>job</match></condition></transition>
</recipe>
<recipe name="pair" start_step="listen" end_step="work">
  <step id="listen" type="action" target="basic.nothing"/>
  <step id="work" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="listen"/><out idref="work"/>
    <condition use="yes"><match>job</match></condition>
    <condition use="yes"><match>worker</match></condition></transition>
</recipe>
</cookbook>"""
PROCESS = """<process-definition group="q" name="waits">
  <node name="wait" type="wait" isStart="true">
    <condition use="yes"><match>job</match></condition>
    <condition use="yes"><match>worker</match></condition></node>
</process-definition>"""


@pytest.fixture
def agent() -> Iterator[Agent]:
    with narval.open(clock=SimulatedClock("2026-03-02T10:00:00Z")) as agent:
        agent.load(RECIPES)
        agent.load(PROCESS)
        yield agent


def orders(agent: Agent, many: int) -> None:
    """So many runs, each of which makes a job and is forgotten three seconds later."""
    for at in range(many):
        agent.start("q.produce", f"<order n='{at}'/>")


def names(agent: Agent) -> list[str]:
    return [run["name"] for run in agent.runs()]


def test_N5_jobs_wait_for_a_consumer_that_is_busy_and_go_when_it_has_done_them(agent: Agent) -> None:
    agent.start("q.consume")
    orders(agent, 5)
    agent.elapse(seconds=9)
    assert names(agent) == ["q.consume"], "the runs that made them are forgotten"
    assert len(agent.memory("job")) == 5
    agent.elapse(seconds=12)
    assert len(agent.memory("job")) == 4, "the first is forgotten with the run that used it"
    agent.elapse(seconds=40)
    assert agent.memory("job") == []


def test_N5_a_job_waits_for_what_is_to_be_taken_with_it(agent: Agent) -> None:
    run = agent.start("q.pair")
    orders(agent, 1)
    agent.elapse(seconds=60)
    agent.add("<worker/>")
    agent.until_idle()
    assert agent.run(run)["phase"] == "done"


def test_N5_a_job_waits_for_a_process_too(agent: Agent) -> None:
    run = agent.start("q.waits")
    orders(agent, 1)
    agent.elapse(seconds=60)
    agent.add("<worker/>")
    agent.until_idle()
    assert agent.run(run)["phase"] == "done"


def test_N5_what_nobody_under_way_would_use_is_forgotten(agent: Agent) -> None:
    orders(agent, 3)
    agent.elapse(seconds=9)
    assert agent.memory("job") == []
