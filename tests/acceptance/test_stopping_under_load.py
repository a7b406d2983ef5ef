"""Stopping while a thousand calls wait, workers hang and elements pour in: in time, nothing lost (N34)."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import NarvalError
from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.acceptance.home import PATIENCE, Narval, make, one_step, until
from tests.forked_commands import Command

GRACE = 1.0
SLACK = 30.0
"""Seconds for recording what came back, and for two cores that others use as well."""

MODULE = """
import asyncio
import time
from pathlib import Path
import narval
from narval import Input, Output, action

def noted(name):
    with (narval.call().home / "performed").open("a") as file:
        file.write(f"{name} {narval.call().id}\\n")

@action(inputs=[Input("item", "item", use=True)], outputs=[Output("made", "made")])
def work(item):
    noted("work")
    if not (narval.call().home / "fast").exists():
        time.sleep(0.05)
    return f"<made number='{item.attributes['number']}'/>"

@action(runs="worker")
def hangs():
    noted("hangs")
    time.sleep(3600)

@action
async def stubborn():
    noted("stubborn")
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

@action
def stuck():
    noted("stuck")
    time.sleep(3600)
"""
RECIPES = f"""<cookbook>
{one_step("many", "w.work", 'foreach="item"')}
{one_step("hangs", "w.hangs")}
{one_step("stubborn", "w.stubborn")}
{one_step("stuck", "w.stuck")}
</cookbook>"""


class Flood:
    """Adds elements as fast as they are taken, and remembers those that were confirmed."""

    def __init__(self, narval: Narval) -> None:
        self.confirmed: list[int] = []
        self._home = narval.home
        self._thread = threading.Thread(target=self._pour, daemon=True)
        self._thread.start()

    def _pour(self) -> None:
        try:
            with Client(Home(self._home).socket()) as client:
                while True:
                    self.confirmed += client.ask("add", elements=[b"<drop/>"] * 10)["eids"]
        except NarvalError:
            return

    def end(self) -> None:
        """Wait until the daemon takes no more."""
        self._thread.join(PATIENCE)


def under_load(folder: Path, calls: int) -> tuple[Narval, Path]:
    narval = make(
        folder, module=MODULE, recipes=RECIPES, settings=f"stop_grace = {GRACE}\nthreads = 2\nworkers = 1\n"
    )
    items = "".join(f"<item number='{number}'/>" for number in range(calls))
    assert narval("add", "-", given=f"<memory>{items}</memory>".encode()).returncode == 0
    return narval, narval.home / "performed"


def lines(performed: Path) -> Counter[str]:
    text = performed.read_text() if performed.exists() else ""
    return Counter(line.split()[0] for line in text.splitlines())


def stop(narval: Narval, daemon: Command, how: str) -> None:
    if how == "signal":
        daemon.send_signal(signal.SIGTERM)
    else:
        narval("add", "-", given=b"<quit/>")


@pytest.mark.parametrize(("how", "calls"), [("signal", 1000), ("element", 200)])
def test_N34_the_daemon_ends_in_time_under_load_and_nothing_is_lost(
    tmp_path: Path, how: str, calls: int
) -> None:
    narval, performed = under_load(tmp_path / "home", calls)
    with narval.running() as daemon:
        many = narval.ask("start", "w.many")["eid"]
        for name in ("w.hangs", "w.hangs", "w.stubborn"):
            narval("start", name)
        flood = Flood(narval)
        until(lambda: lines(performed).keys() >= {"work", "hangs", "stubborn"} and flood.confirmed, "load")
        began = time.monotonic()
        stop(narval, daemon, how)
        daemon.communicate(timeout=PATIENCE)
        took = time.monotonic() - began
        flood.end()
        assert daemon.returncode == 0
        assert took < GRACE + 1.0 + SLACK
    begun = lines(performed)["work"]
    assert 0 < begun < calls
    narval.write("fast", "")
    eids = {element["eid"] for element in narval.ask("memory", "drop", "--limit", "all")}
    assert eids >= set(flood.confirmed)
    with narval.running():
        until(lambda: narval.ask("show", str(many))["state"] == "done", "the rest is done")
        made: list[dict[str, Any]] = narval.ask("memory", "made", "--limit", "all")
    assert len(made) == calls
    assert lines(performed)["work"] - calls <= 2  # at most what two threads were doing


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_N34_a_second_signal_ends_the_daemon_at_once_and_that_is_as_safe(
    tmp_path: Path, second: signal.Signals
) -> None:
    narval = make(
        tmp_path / "home", module=MODULE, recipes=RECIPES, settings="stop_grace = 600\nthreads = 2\n"
    )
    performed = narval.home / "performed"
    with narval.running() as daemon:
        stuck = narval.ask("start", "w.stuck")["eid"]
        until(lambda: lines(performed)["stuck"], "the action runs")
        daemon.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.wait(timeout=1.0)
        daemon.send_signal(second)
        daemon.communicate(timeout=PATIENCE)
    with narval.running():
        until(lambda: lines(performed)["stuck"] == 2, "it is made again")
        assert narval.ask("show", str(stuck))["state"] == "running"
        assert narval("cancel", str(stuck)).returncode == 0
