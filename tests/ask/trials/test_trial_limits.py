"""The limits of trials: memory, time, their number at once, and their end with the daemon (M57)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from pathlib import Path

import psutil
import pytest

import narval as library
from narval.ask.asker import user
from narval.ask.trials import child_program
from narval.ask.trials.trials import AT_ONCE, WAITING, Trials
from narval.core.errors import DaemonGoneError, RequestError
from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.ask.work_home import home_with
from tests.programs import is_at_work
from tests.surfaces.cli.command_line import daemon, until

EATS = """<cookbook group="eat"><recipe name="all" start_step="a" end_step="a">
<step id="a" type="action" target="big.eat"/></recipe>
<recipe name="wait" start_step="a" end_step="a">
<step id="a" type="action" target="big.wait"/></recipe></cookbook>
"""

MODULE = """
import time
from narval import action

@action(runs="inline", pure=True)
def eat():
    found = []
    while True:
        found.append(bytearray(10_000_000))

@action(runs="inline", pure=True)
def wait():
    time.sleep(60)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = home_with(tmp_path / "home", EATS)
    (home / "modules" / "big.py").write_text(MODULE)
    return home


def children_of(pid: int) -> set[psutil.Process]:
    """The child programs that a program has now."""
    return set(psutil.Process(pid).children())


def test_M57_one_that_takes_too_much_memory_does_no_harm(home: Path) -> None:
    with library.open(home) as agent:
        report = agent.ask("simulate", definition="eat.all")["report"]
        assert [run["phase"] for run in report["changes"]["runs"]] == ["failed"]
        assert "MemoryError" in str(report["happened"])


def test_M57_one_that_is_ended_for_its_memory_says_so(home: Path) -> None:
    with library.open(home) as agent:
        arrives = f"<arrive at='+1s' every='1m'><x>{'y' * 300_000}</x></arrive>"
        with pytest.raises(RequestError, match="it was ended, for it took more than 512 MB"):
            agent.ask("simulate", scenario=f"<scenario until='10000d'>{arrives}</scenario>")
        (home / "modules" / "big.py").write_text("found = [bytearray(10_000_000) for _ in range(100)]\n")
        with pytest.raises(RequestError, match="it was ended, for it took more than 512 MB"):
            agent.ask("simulate", definition="eat.all")


def test_M57_an_answer_that_is_too_long_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_program, "LONGEST", 100)
    with library.open(home) as agent, pytest.raises(RequestError, match="its answer is longer than 0 MB"):
        agent.ask("simulate", definition="eat.all")


def test_M57_one_that_takes_too_long_leaves_no_child(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_program, "SECONDS", 1.0)
    with library.open(home) as agent:
        before = children_of(os.getpid())
        with pytest.raises(RequestError, match="it was ended after 1 s"):
            agent.ask("simulate", definition="eat.wait")
        assert children_of(os.getpid()) <= before


def test_M57_one_at_a_time_for_each_who_asks_and_two_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two are under way, four wait, another is refused; and so is a second one of the same session."""
    at_once: list[int] = []
    begun = 0

    async def scenario() -> None:
        nonlocal begun
        free = asyncio.Event()

        async def json_of(arguments: list[str]) -> str:
            nonlocal begun
            begun += 1
            at_once.append(begun)
            await free.wait()
            begun -= 1
            return arguments[0]

        monkeypatch.setattr("narval.ask.trials.trials.json_of", json_of)
        trials = Trials(None)  # type: ignore[arg-type]  # it asks nothing of an agent
        who = [user(0, "web", str(number)) for number in range(AT_ONCE + WAITING)]
        under_way = [asyncio.create_task(trials.run(one, [one.session])) for one in who]
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="a trial that you asked for is under way"):
            await trials.run(who[0], ["again"])
        with pytest.raises(RequestError, match="6 trials are under way or wait"):
            await trials.run(user(0, "web", "99"), ["another"])
        free.set()
        assert await asyncio.gather(*under_way) == [one.session for one in who]
        assert await trials.run(who[0], ["again"]) == "again"

    asyncio.run(scenario())
    assert max(at_once) == AT_ONCE


def test_M57_a_child_ends_with_the_daemon_however_that_ends(home: Path) -> None:
    with daemon(home) as running:
        before = children_of(running.pid)
        asked = threading.Thread(target=_simulate, args=(home,))
        asked.start()
        until(lambda: len(children_of(running.pid) - before) == 1)
        (child,) = children_of(running.pid) - before
        assert is_at_work(child)
        running.kill()
        running.wait()
        until(lambda: not is_at_work(child))
        asked.join()


def _simulate(home: Path) -> None:
    path = Home(home).known_socket()
    assert path is not None
    with Client(path) as client, contextlib.suppress(DaemonGoneError):
        client.ask("simulate", definition="eat.wait")
