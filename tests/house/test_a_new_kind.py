"""A kind that one row registers: all that can be asked of a run is asked, through every surface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.errors import RequestError
from narval.core.kinds import KINDS
from narval.files.home import Home
from narval.surfaces.cli.without_daemon import serving
from narval.surfaces.control.client import Client
from tests.house.countdown import ROW
from tests.surfaces.cli.command_line import data, well
from tests.surfaces.cli.command_line import narval as command

MODULE = """
from narval import action

@action(runs="inline")
def tick(): pass

@action(runs="inline")
def fails(): raise ValueError("no ground below")

@action()
async def slow():
    import asyncio
    await asyncio.sleep(3600)
"""
COUNTDOWNS = """\
launch from 3 call m.tick
crash from 2 call m.fails
waits from 5 call m.slow
never from 0 call m.tick
"""


@pytest.fixture(autouse=True)
def one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "countdown", ROW)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    for part in ("etc", "recipes", "modules", "data"):
        (place / part).mkdir(parents=True)
    (place / "recipes" / "c.countdown").write_text(COUNTDOWNS)
    (place / "modules" / "m.py").write_text(MODULE)
    return place


@pytest.fixture
def agent(home: Path) -> Iterator[narval.surfaces.python.agent.Agent]:  # type: ignore[name-defined]
    with narval.open(home) as opened:
        yield opened


# --- in a program -----------------------------------------------------------------------------------------


def test_it_runs_to_its_end(agent: Any) -> None:
    run = agent.start("c.launch")
    agent.until_idle()
    assert agent.run(run)["state"] == "done"
    assert [line["what"] for line in agent.history(run)].count("Counted") == 3


def test_what_it_waits_for_is_told(agent: Any) -> None:
    run = agent.start("c.waits")
    assert agent.why(run)["waiting"][0]["id"] == "tick"
    assert agent.ask("why", run=run, id="tick")["reason"] == "tick is counting: 4 of 5 are left"


def test_it_is_seen_in_memory_and_as_a_graph(agent: Any) -> None:
    run = agent.start("c.waits")
    (seen,) = agent.memory("countdown-run[@left='4']")
    assert seen.eid == run
    assert 'left="4"' in agent.ask("xml", run=run)["xml"]
    assert agent.ask("graph", run=run)["dot"].startswith("digraph")
    (part,) = agent.ask("drawn", run=run)["parts"]
    assert (part["id"], part["target"]) == ("tick", "m.slow")
    assert (part["tone"], part["badge"]) == ("active", "4 left")


def test_its_history_can_be_looked_at_from_any_line(agent: Any) -> None:
    run = agent.start("c.launch")
    agent.until_idle()
    counted = [line["seq"] for line in agent.history(run) if line["what"] == "Counted"]
    left = [agent.ask("show", run=run, at=seq)["counts"][0]["left"] for seq in counted]
    assert left == [2, 1, 0]


def test_it_hears_signals_and_refuses_others(agent: Any) -> None:
    run = agent.start("c.waits")
    assert agent.signal(run, "skip")["left"] == 3
    with pytest.raises(RequestError, match="a countdown hears skip, not jump"):
        agent.signal(run, "jump")


def test_it_is_cancelled(agent: Any) -> None:
    run = agent.start("c.waits")
    assert agent.cancel(run)["state"] == "cancelled"


def test_a_retry_is_refused_politely(agent: Any) -> None:
    run = agent.start("c.crash")
    agent.until_idle()
    assert agent.run(run)["state"] == "failed"
    with pytest.raises(RequestError, match="countdown"):
        agent.retry(run)


def test_tokens_and_environments_are_refused_politely(agent: Any) -> None:
    run = agent.start("c.waits")
    with pytest.raises(RequestError, match="countdown-run"):
        agent.tokens(run)
    with pytest.raises(RequestError, match="environment"):
        agent.start("c.launch", environment={"a": "b"})


def test_it_carries_on_after_a_restart(home: Path) -> None:
    with narval.open(home) as agent:
        run = agent.start("c.waits")
        agent.signal(run, "skip")
    with narval.open(home) as agent:
        assert agent.run(run)["counts"][0]["left"] == 3


def test_it_is_simulated(agent: Any) -> None:
    played = agent.simulate("c.launch")
    assert [line["what"] for line in played["happened"]].count("called") == 3
    assert [run["state"] for run in played["runs"]] == ["done"]


# --- on the command line ----------------------------------------------------------------------------------


def test_each_command_knows_it(home: Path) -> None:
    started = data(home, "start", "c.waits")
    run = started["eid"]
    assert [(each["kind"], each["name"]) for each in data(home, "runs", "--kind", "countdown-run")] == [
        ("countdown-run", "c.waits")
    ]
    assert "not idle" in command(home, "run", "--until-idle", "--timeout", "1").output
    assert data(home, "show", run)["counts"][0]["id"] == "tick"
    assert "tick" in well(home, "why", run)
    assert data(home, "history", run)[0]["what"] == "Started"
    assert "c.launch" in well(home, "definitions")
    assert well(home, "show", run, "--dot").startswith("digraph")
    well(home, "cancel", run)


def test_its_files_are_checked_and_explored(home: Path) -> None:
    explored = command(home, "check", "--explore")
    assert "m.tick is never called: the count begins at 0" in explored.output
    (home / "recipes" / "bad.countdown").write_text("off we go")
    result = command(home, "check")
    assert result.exit_code != 0
    assert (
        "recipes/bad.countdown:1:1: expected NAME from COUNT call ACTION, found 'off we go'" in result.output
    )


def test_it_is_simulated_by_a_command(home: Path) -> None:
    played = json.loads(well(home, "simulate", "c.launch", "--json"))
    assert [run["state"] for run in played["runs"]] == ["done"]


# --- through the socket -----------------------------------------------------------------------------------


def test_a_daemon_is_asked_of_it_through_its_socket(home: Path) -> None:
    asyncio.run(_through_the_socket(Home.find(home, {})))


async def _through_the_socket(home: Home) -> None:
    async with serving(home) as daemon:
        work = asyncio.create_task(daemon.main_loop.run())
        await asyncio.to_thread(_ask_all, home.socket())
        daemon.stop.request()
        await work


def _ask_all(path: Path) -> None:
    with Client(path) as client:
        run = client.ask("start", name="c.launch", wait=True)
        assert run["state"] == "done"
        assert client.ask("history", run=run["eid"])[0]["what"] == "Started"
        waiting = client.ask("start", name="c.waits")["eid"]
        assert client.ask("signal", run=waiting, name="skip")["left"] == 3
        assert client.ask("graph", run=waiting)["dot"].startswith("digraph")
        with pytest.raises(RequestError, match="countdown"):
            client.ask("retry", run=run["eid"])
        assert client.ask("cancel", run=waiting)["state"] == "cancelled"
