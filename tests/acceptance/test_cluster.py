"""Heavy calls on a cluster, in homes with daemons that are killed (G65, G69, G73)."""

import random
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from distributed import Security
from lxml import etree

from narval.calls.programs.reaper import OWNER
from narval.files.home import Home
from narval.files.outside.cluster import CERTIFICATES
from narval.surfaces.control.client import Client
from tests.acceptance.home import Narval, make, one_step, until
from tests.calls.cluster.conftest import PROGRAM, WORKER, SharedCluster
from tests.ports import free_port

MODULE = """
import time
from pathlib import Path
import narval
from narval import Input, Output, action

@action(runs="cluster", outputs=[Output("made", "made")], pure=True)
def quick():
    return "<made number='7'/>"

@action(runs="cluster", inputs=[Input("job", "job")], outputs=[Output("made", "made")])
def work(job):
    print("at work")
    time.sleep(0.1)
    return f"<made number='{job.attributes['number']}'/>"

@action(runs="cluster", outputs=[Output("made", "made")])
def slow():
    home = narval.call().home
    with (home / "performed").open("a") as file:
        file.write("once\\n")
    while not (home / "go").exists():
        time.sleep(0.01)
    return "<made number='0'/>"
"""
RECIPES = (
    "<cookbook>"
    + one_step("quick", "w.quick")
    + one_step("job", "w.work", 'retries="1000" backoff="0"')
    + one_step("slow", "w.slow", 'timeout="1h"')
    + one_step("once", "w.slow", 'timeout="1h" on-restart="error"')
    + "</cookbook>"
)


def home(folder: Path, settings: str) -> Narval:
    return make(folder, module=MODULE, recipes=RECIPES, settings=settings)


def carriers(narval: Narval) -> list[str]:
    """The programs that a daemon of the home has started, and those that these have."""
    store = f".{Home(narval.home).store.stat().st_ino:x}."
    found = []
    for process in psutil.process_iter():
        try:
            if store in process.environ().get(OWNER, "") and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def numbers_made(narval: Narval) -> Counter[int]:
    found = narval.ask("memory", "made", "--limit", "all")
    return Counter(int(etree.fromstring(element["xml"]).get("number")) for element in found)


def test_G65_a_home_without_a_cluster_says_for_what_its_calls_wait(tmp_path: Path) -> None:
    narval = home(tmp_path / "home", "")
    with narval.running():
        run = narval.ask("start", "w.slow")["eid"]
        until(lambda: narval.ask("status").get("cluster"), "it is asked for")
        assert "there is no cluster: none is set; write cluster" in narval("why", str(run)).stdout.decode()
        assert "away: none is set" in narval("status").stdout.decode()


def test_G65_a_scheduler_that_is_away_is_told_at_once(tmp_path: Path) -> None:
    """A port at which nobody listens; the certificates, of whatever authority, are read before."""
    secured = Security.temporary()
    texts = (secured.tls_ca_file, secured.tls_client_cert, secured.tls_client_key)
    for name, text in zip(CERTIFICATES, texts, strict=True):
        (tmp_path / name).write_text(text)
    address = f"tls://127.0.0.1:{free_port()}"
    narval = home(tmp_path / "home", f'cluster = "{address}"\ncluster_certificates = "{tmp_path}"\n')
    with narval.running():
        run = narval.ask("start", "w.slow")["eid"]
        until(lambda: narval.ask("status").get("cluster"), "it is asked for")
        answers = list[str]()

        def is_told() -> bool:
            answers.append(narval("why", str(run)).stdout.decode())
            return f"no scheduler answers at {address}: " in answers[-1]

        until(is_told, "that nobody answers is told")
        for answer in answers[:-1]:
            assert f"connecting to {address} (for " in answer
        assert re.search(r"\(for \d+ s\)", answers[-1])


def test_G65_a_simulation_needs_no_cluster(tmp_path: Path) -> None:
    narval = home(tmp_path / "home", "")
    done = narval("simulate", "w.quick")
    assert done.returncode == 0, done.stderr
    assert b'<made number="7"/>' in done.stdout


def test_G69_what_a_killed_daemon_had_on_a_cluster_is_collected_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    cluster = SharedCluster(folder, 2)
    try:
        settings = f'cluster = "{cluster.address}"\ncluster_certificates = "{folder}"\n'
        narval = home(tmp_path / "home", settings)
        performed = narval.home / "performed"
        daemon = narval.daemon()
        assert b"is ready" in daemon.stdout.readline()
        for name in ("w.slow", "w.once"):
            narval("start", name)
        until(lambda: performed.exists() and performed.read_text() == "once\n" * 2, "both have begun")
        daemon.kill()
        daemon.communicate()
        with narval.running():
            until(lambda: narval.ask("status").get("cluster", {}).get("tasks") == 2, "they are found")
            (narval.home / "go").touch()
            until(lambda: not narval.ask("status")["runs"]["active"], "both are done")
            assert narval.ask("status")["runs"]["done"] == 2
            assert numbers_made(narval) == {0: 2}
        assert performed.read_text() == "once\n" * 2, "neither was made again"
    finally:
        cluster.end()


def shoot(narval: Narval, daemon: subprocess.Popen[bytes], chance: random.Random) -> str:
    """Kill the daemon, or a program that it has started: of the cluster, of dask, or of narval."""
    mark = f"{narval.home}/var"
    aims: dict[str, list[psutil.Process]] = {"daemon": [psutil.Process(daemon.pid)]}
    for process in psutil.Process(daemon.pid).children(recursive=True):
        line = " ".join(process.cmdline())
        kinds = {f"{PROGRAM} {mark}": "scheduler", "spawn_main": "worker of dask", WORKER: "worker"}
        kind = next((kind for part, kind in kinds.items() if part in line), None)
        if kind is not None:
            aims.setdefault(kind, []).append(process)
    kind = chance.choice(sorted(aims))
    chance.choice(aims[kind]).send_signal(signal.SIGKILL)
    return kind


def live_through(folder: Path, seconds: float, seed: int) -> None:
    """Jobs come while something is killed every half a second; then all are done, each once."""
    print(f"seed {seed}")
    narval = home(folder, 'cluster = "local"\ncluster_workers = 2\n')
    chance, sent, shots = random.Random(seed), 0, Counter[str]()
    daemon = narval.daemon()
    assert b"is ready" in daemon.stdout.readline()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with Client(Home(narval.home).socket()) as client:
            jobs = [f'<start-plan recipe="w.job"><job number="{sent + n}"/></start-plan>' for n in range(5)]
            client.ask("add", elements=[job.encode() for job in jobs])
        sent += len(jobs)
        time.sleep(chance.uniform(0.2, 2.0))
        try:
            kind = shoot(narval, daemon, chance)
        except psutil.Error:  # it has ended by itself just now
            continue
        shots[kind] += 1
        if kind == "daemon":
            daemon.communicate()
            daemon = narval.daemon()
            assert b"is ready" in daemon.stdout.readline()
    daemon.kill()
    daemon.communicate()
    with narval.running():
        until(lambda: not narval.ask("status")["runs"]["active"], "every job is done")
        assert numbers_made(narval) == dict.fromkeys(range(sent), 1)
    print(f"{sent} jobs, killed: {dict(shots)}")
    until(lambda: not carriers(narval), "nothing is left running")


def test_G73_whatever_is_killed_each_call_has_one_outcome_and_nothing_is_left(tmp_path: Path) -> None:
    live_through(tmp_path / "home", 6.0, random.randrange(10**6))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_G73_whatever_is_killed_for_a_minute(tmp_path: Path) -> None:
    live_through(tmp_path / "home", 60.0, random.randrange(10**6))
