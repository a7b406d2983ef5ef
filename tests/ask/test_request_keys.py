"""Requests with a key: what is asked again under the same key answers as the first time, and does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.ask.request_keys import RequestKeys
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import make_home
from tests.surfaces.cli.command_line import narval as command

RECIPE = """<recipe group="s" name="brief" start_step="a" end_step="a" decay="10">
  <step id="a" type="action" target="talk.nothing"/></recipe>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = make_home(tmp_path / "home")
    (made / "recipes" / "s.xml").write_text(RECIPE)
    return made


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with narval.open(home, clock=narval.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        yield agent


def test_a_key_answers_with_the_elements_of_then_however_many_are_given_again(agent: Agent) -> None:
    first = agent.ask("add", elements=[b"<a/>", b"<b/>", b"<c/>"], key="k")
    assert len(first["eids"]) == 3
    assert agent.ask("add", elements=[b"<a/>"], key="k")["eids"] == first["eids"]
    assert agent.ask("add", elements=[b"<a/>"] * 5, key="k")["eids"] == first["eids"]
    assert len(agent.memory("a")) == 1


def test_the_elements_of_a_key_need_not_follow_each_other(agent: Agent) -> None:
    submit, run = agent.daemon.host.submit, agent.runner.run
    run(submit(lambda turn: RequestKeys(turn, "key/test").record("a key", 3, 4, 5, 9, 11, 12)))
    run(submit(lambda turn: RequestKeys(turn, "key/test").record("other", 7)))
    keys = run(submit(lambda turn: RequestKeys(turn, "key/test")))
    assert keys.eids("a key") == [3, 4, 5, 9, 11, 12]
    assert (keys.eid("a key"), keys.eids("other"), keys.eids("none"), keys.eid("")) == (3, [7], [], None)


def test_a_key_of_a_run_that_is_forgotten_starts_nothing_and_says_so(home: Path) -> None:
    with narval.open(home, clock=narval.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        run = agent.ask("start", name="s.brief", key="k")["eid"]
        agent.elapse(seconds=60)
        assert agent.daemon.agent.runs.get(run) is None
        again = agent.ask("start", name="s.brief", key="k", wait=True)
        assert (again["eid"], again["name"], again["phase"]) == (run, "s.brief", "forgotten")
    again = command(home, "start", "s.brief", "--key", "k")
    assert (again.exit_code, again.stdout, "over and forgotten" in again.stderr) == (0, f"{run}\n", True)
    waited = command(home, "start", "s.brief", "--key", "k", "--wait")
    assert (waited.exit_code, waited.stdout, "over and forgotten" in waited.stderr) == (1, f"{run}\n", True)
