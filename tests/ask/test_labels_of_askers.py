"""Whatever a program of a run asks, what comes of it has its labels: added, replaced, begun, moved, ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import narval
from narval.surfaces.python.agent import Agent

PLANS = """<cookbook group="w">
<recipe group="w" name="waits" start_step="a" end_step="b"><step id="a" type="action" target="basic.nothing"/>
  <step id="b" type="action" target="basic.nothing"/><transition id="t"><in idref="a"/><out idref="b"/>
    <condition><match>go</match></condition></transition></recipe>
</cookbook>"""
TASKS = """
TASK TYPE scan
  INITIAL scanning
  STATE scanning EXPOSED
    ON EVENT scanned GOTO reading
  STATE reading EXPOSED
    ON EVENT stored GOTO FORWARD
  ON FORWARD
    route(book);

TASK TYPE book
  INITIAL booking
  STATE booking EXPOSED
    ON EVENT done GOTO COMMIT
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "w.task").write_text(TASKS)
    with narval.open(clock=narval.SimulatedClock("2026-03-02T20:00:00Z"), by="ann") as agent:
        agent.load(tmp_path / "w.task")
        agent.load(PLANS)
        agent.until_idle()
        yield agent


def as_program(agent: Agent, operation: str, **arguments: Any) -> Any:
    person, agent.asker = agent.asker, replace(agent.asker, call="00000000.9")
    try:
        return agent.ask(operation, **arguments)
    finally:
        agent.asker = person


def adds(agent: Agent) -> int:
    return int(as_program(agent, "add", elements=[b"<note/>"])["eids"][0])


def replaces(agent: Agent) -> int:
    return int(as_program(agent, "add", elements=[b"<note/>"], replace=agent.add("<note/>"))["eids"][0])


def outdates(agent: Agent) -> int:
    return int(as_program(agent, "outdate", eids=[agent.add("<note/>")], reason="pay eve")["note"])


def starts(agent: Agent) -> int:
    return int(as_program(agent, "start", name="w.waits")["eid"])


def renews(agent: Agent) -> int:
    return int(as_program(agent, "renew", run=agent.start("w.waits"))["run"])


def signals(agent: Agent) -> int:
    run = agent.start("w.waits")
    as_program(agent, "signal", run=run, name="go")
    return run


def begins_a_task(agent: Agent) -> int:
    return int(as_program(agent, "task_init", name="w.scan")["run"])


def at_work(agent: Agent) -> str:
    agent.task_put("w.scan", [b"<sheet/>"])
    task = str(agent.task_init("w.scan")["task"])
    agent.task_get(task, wait=60.0)
    return task


def moves_a_task(agent: Agent) -> int:
    task = at_work(agent)
    as_program(agent, "task_assert", task=task, state="reading")
    return int(task.partition(".")[0])


def raises_within_a_task(agent: Agent) -> int:
    task = at_work(agent)
    as_program(agent, "task_raise", event="scanned", task=task)
    return int(task.partition(".")[0])


def finishes_a_task(agent: Agent) -> int:
    (case,) = agent.task_put("w.scan", [b"<sheet/>"])["cases"]
    task = str(agent.task_init("w.scan")["task"])
    agent.task_get(task, wait=60.0)
    as_program(agent, "task_finish", run=int(task.partition(".")[0]), state="FORWARD")
    agent.until_idle()
    return int(case["case"])


ASKED = (
    adds, replaces, outdates, starts, renews, signals, begins_a_task, moves_a_task, raises_within_a_task,
    finishes_a_task,
)  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
def test_what_comes_of_what_a_program_asks_has_its_labels(
    agent: Agent, asked: Callable[[Agent], int]
) -> None:
    labels = agent.daemon.agent.memory.labels
    eid = asked(agent)
    assert {"program", "unknown"} <= set(labels.names(labels.whole(labels.of((eid,)))))


def test_what_a_person_asks_gives_no_labels(agent: Agent) -> None:
    task = at_work(agent)
    agent.task_assert(task, "reading")
    adds(agent)
    labels = agent.daemon.agent.memory.labels
    assert not labels.of((int(task.partition(".")[0]), agent.add("<note/>")))
