"""Workers stopped, killed and out of memory, and daemons killed, at random under load (N33, N35)."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random

import psutil
import pytest
from lxml import etree

from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.acceptance.home import Narval, make, until
from tests.forked_commands import Command

WORKER = "narval.calls.workers.worker"
SHOTS = (signal.SIGSTOP, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)

MODULE = """
import ctypes, os, time
import narval
from narval import Input, Output, action

KINDS = ("quick", "quick", "quick", "slow", "greedy", "crash", "exit", "hang")

@action(runs="worker", inputs=[Input("job", "job")], outputs=[Output("made", "made")])
def work(job):
    number = int(job.attributes["number"])
    with (narval.call().home / "performed").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    kind = KINDS[number % len(KINDS)] if narval.call().attempt == 1 else "quick"
    if kind == "slow":
        time.sleep(0.05)
    elif kind == "greedy":
        bytearray(1 << 30)
    elif kind == "crash":
        ctypes.string_at(0)
    elif kind == "exit":
        os._exit(0)
    elif kind == "hang":
        time.sleep(3600)
    return f"<made number='{number}'/>"
"""
RECIPE = (
    '<recipe group="w" name="job" start_step="s" end_step="s">'
    '<step id="s" type="action" target="w.work" timeout="1" retries="100" backoff="0"/></recipe>'
)
SETTINGS = 'workers = 3\nworker_memory = "128M"\n'


def workers_of(daemon: int) -> list[psutil.Process]:
    """The workers that a daemon started and that are there, whatever their parent is now."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        if WORKER in line and line[line.index(WORKER) + 1] == str(daemon):
            found += [process] if process.info["status"] != psutil.STATUS_ZOMBIE else []
    return found


def number_of(made: str) -> int:
    """Which job an element is of."""
    return int(etree.fromstring(made).get("number", ""))


class Fire:
    """A home whose workers and daemons are shot at while jobs come in."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.narval: Narval = make(folder, module=MODULE, recipes=RECIPE, settings=SETTINGS)
        self.chance = Random(seed)
        self.sent: set[int] = set()
        self.confirmed: set[int] = set()
        """Jobs that the daemon has confirmed."""
        self.shots: Counter[str] = Counter()

    def under_fire(self, seconds: float) -> None:
        """One daemon, killed in the end: none of its workers is left."""
        daemon = self.narval.daemon()
        assert b"is ready" in daemon.stdout.readline()
        end = time.monotonic() + seconds
        with Client(Home(self.narval.home).socket()) as client:
            while time.monotonic() < end:
                self._send(client)
                self._shoot(daemon)
                time.sleep(self.chance.uniform(0.0, 0.1))
            self.chance.choice((self._nothing, self._stop_all))(daemon)
        self.kill(daemon)

    def kill(self, daemon: Command) -> None:
        """Kill a daemon: none of its workers survives it."""
        daemon.kill()
        daemon.communicate()
        self.shots["daemon"] += 1
        at_work = self._at_work()
        until(
            lambda: not [process for process in workers_of(daemon.pid) if process.pid in at_work],
            "the workers of a killed daemon are gone",
        )
        for stopped in workers_of(daemon.pid):  # when it was not yet ready: it finds itself alone, and ends
            self._hit(stopped, signal.SIGCONT)
        until(lambda: not workers_of(daemon.pid), "so are those that were starting")

    def _at_work(self) -> set[int]:
        """The workers that have answered calls, or were about to."""
        performed = self.narval.home / "performed"
        return set(map(int, performed.read_text().split())) if performed.exists() else set()

    def _send(self, client: Client) -> None:
        numbers = [len(self.sent) + number for number in range(self.chance.choice((0, 0, 1, 3)))]
        self.sent.update(numbers)
        jobs = [f'<start-plan recipe="w.job"><job number="{number}"/></start-plan>' for number in numbers]
        if jobs:
            client.ask("add", elements=[job.encode() for job in jobs])
            self.confirmed.update(numbers)

    def _shoot(self, daemon: Command) -> None:
        there = workers_of(daemon.pid)
        if there and self.chance.random() < 0.4:
            shot = self.chance.choice(SHOTS)
            self._hit(self.chance.choice(there), shot)

    def _hit(self, worker: psutil.Process, shot: signal.Signals) -> None:
        try:
            worker.send_signal(shot)
        except psutil.NoSuchProcess:
            return
        self.shots[shot.name] += 1

    def _nothing(self, daemon: Command) -> None:
        """Its workers are as they are when it is killed."""

    def _stop_all(self, daemon: Command) -> None:
        """All its workers are stopped when it is killed."""
        for worker in workers_of(daemon.pid):
            self._hit(worker, signal.SIGSTOP)

    def come_to_rest(self) -> None:
        """Nobody shoots any more: all that was asked for is done, once, and no worker is left."""
        with self.narval.running() as daemon:
            until(self._is_done, "every job is done")
            found = self.narval.ask("memory", "made", "--limit", "all")
            made = Counter(number_of(element["xml"]) for element in found)
        assert set(made.values()) == {1}, made.most_common(3)
        assert self.confirmed <= made.keys() <= self.sent
        assert not workers_of(daemon.pid)

    def _is_done(self) -> bool:
        status = self.narval.ask("status")
        return not status["runs"]["active"]


@pytest.mark.parametrize("seed", [random.randrange(10**6)], ids=["any"])
def test_N33_N35_nothing_is_lost_and_no_worker_is_left(tmp_path: Path, seed: int) -> None:
    live_through(tmp_path / "home", seed, daemons=3, seconds=1.0)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_N33_N35_nothing_is_lost_and_no_worker_is_left_for_long(tmp_path: Path, seed: int) -> None:
    live_through(tmp_path / "home", seed, daemons=10, seconds=4.0)


def live_through(folder: Path, seed: int, *, daemons: int, seconds: float) -> None:
    """So many daemons, one after the other; then rest."""
    fire = Fire(folder, seed)
    print(f"seed {seed}")
    for _ in range(daemons):
        fire.under_fire(seconds)
    fire.come_to_rest()
    assert fire.confirmed
    assert fire.shots
    print(f"{len(fire.confirmed)} jobs, {dict(fire.shots)}")
