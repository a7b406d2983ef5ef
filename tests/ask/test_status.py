"""`narval status`: what runs, waits and fails, since when, at the cost of what is active."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

import narval as library
from narval import __version__
from narval.ask.daemon.status import SHOWN
from narval.surfaces.cli.render import answers
from narval.surfaces.cli.render import status as shown
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import daemon, data, make_home, until, well

RECIPES = """<cookbook>
<recipe group="s" name="inner" start_step="call" end_step="call" decay="60">
  <step id="call" type="recipe" target="demo.await"/></recipe>
<recipe group="s" name="seven" start_step="a" end_step="z">
  <step id="a" type="action" target="talk.nothing"/><step id="z" type="action" target="talk.nothing"/>
  <transition id="t"><in idref="a"/><out idref="z"/><time hours="7" minutes="0" seconds="0"/></transition>
</recipe>
<recipe group="s" name="brief" start_step="a" end_step="a" decay="10">
  <step id="a" type="action" target="talk.fail"/></recipe>
</cookbook>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = make_home(tmp_path / "home")
    (made / "recipes" / "s.xml").write_text(RECIPES)
    return made


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with library.open(home, clock=library.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        yield agent


def test_runs_are_counted_by_kind_and_phase_and_by_what_they_wait_for(agent: Agent) -> None:
    for name in ("s.inner", "s.seven", "demo.fail", "demo.await"):
        agent.start(name)
    gone = agent.start("demo.await")
    agent.until_idle()
    agent.cancel(gone)
    status = agent.ask("status")
    assert status["kinds"] == {"plan": {"active": 4, "done": 0, "failed": 1, "cancelled": 1}}
    assert status["runs"] == status["kinds"]["plan"]
    assert status["waits"] == {"call": 1, "condition": 2, "time": 1}
    (later,) = status["later"]
    assert (datetime.fromisoformat(later["at"]).minute, "s.seven" in later["what"]) == (0, True)


def test_the_counts_hold_after_a_restart_and_after_forgetting(home: Path) -> None:
    with library.open(home, clock=library.SimulatedClock(1000.0)) as agent:
        for name in ("s.brief", "demo.fail", "demo.await"):
            agent.start(name)
        agent.until_idle()
        before = agent.ask("status")
    with library.open(home, clock=library.SimulatedClock(1001.0)) as agent:
        status = agent.ask("status")
        assert status["kinds"] == before["kinds"]
        assert [run["name"] for run in status["failures"]] == ["demo.fail", "s.brief"]
        agent.elapse(seconds=20)
        status = agent.ask("status")
        assert status["runs"] == {"active": 1, "done": 0, "failed": 1, "cancelled": 0}
        assert [run["name"] for run in status["failures"]] == ["demo.fail"]
        assert status["failures"][0]["error"]["message"] == "there is nobody to talk to"


def test_of_many_that_failed_the_latest_are_told(agent: Agent) -> None:
    runs = [agent.start("demo.fail") for _ in range(SHOWN + 3)]
    agent.until_idle()
    assert [run["eid"] for run in agent.ask("status")["failures"]] == runs[::-1][:SHOWN]


def test_of_many_moments_the_nearest_are_told_in_order(agent: Agent) -> None:
    for _ in range(SHOWN + 3):
        agent.start("s.seven")
        agent.elapse(minutes=1)
    status = agent.ask("status")
    assert len(status["later"]) == SHOWN
    assert status["later"][0]["at"] == status["next"]
    assert status["later"][0]["what"].endswith(" of s.seven goes on")
    assert status["later"] == sorted(status["later"], key=lambda line: line["at"])


def test_a_daemon_tells_of_itself_and_of_its_calls(home: Path) -> None:
    with daemon(home) as running:
        well(home, "start", "demo.slow")
        until(lambda: bool(data(home, "status")["executor"]["running"]))
        status = data(home, "status")
        (call,) = status["calls"]
        assert (call["step"], call["target"], call["age"] >= 0.0) == ("wait", "action talk.slow", True)
        assert datetime.fromisoformat(call["since"]).tzinfo is not None
        assert (status["pid"], status["durability"]) == (running.pid, "crash")
        assert status["version"] == __version__
        assert min(status["uptime"], status["store"], status["memory"]) > 0
        shown = well(home, "status")
        assert max(map(len, shown.splitlines())) <= 80 + len(str(home))
        assert "survives a crash" in shown
        assert "1 for a call" in shown
    stopped = data(home, "status")
    assert (stopped["uptime"], stopped["memory"], stopped["calls"]) == (None, None, [])


def test_a_long_section_says_how_much_it_leaves_out(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(answers.MOST_LINES + 2):
        agent.start("s.inner")
    agent.until_idle()
    shown.status(agent.ask("status"))
    lines = capsys.readouterr().out.splitlines()
    assert "and 2 more: --json tells all" in lines
    many = answers.MOST_LINES + 2
    assert f"waiting   {many} for a call, {many} for an element" in lines
