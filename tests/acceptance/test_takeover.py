"""Three daemons on one real server: killed, stopped and going on, and the server itself (G47 to G52, G56)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.acceptance.home import make, until
from tests.calls.cluster.conftest import SharedCluster
from tests.forked_commands import Command
from tests.postgres import Server, fresh_schema, private_server
from tests.programs import is_at_work

HOMES = ("attic", "barn", "cellar")
AGENTS = 12

MODULE = """\
import os, subprocess, time
from narval import Output, action, call

@action(runs="inline", outputs=[Output("done", "done")])
def note():
    return "<done/>"

@action(runs="worker")
def lasts():
    with open(os.environ["NARVAL_TEST_PIDS"], "a") as file:
        print(os.getpid(), file=file)
    time.sleep(600)

@action(runs="worker", outputs=[Output("done", "done")])
def twice():
    return ended_at_first("twice")

@action(runs="worker", outputs=[Output("done", "done")])
def once():
    return ended_at_first("once")

@action(outputs=[Output("done", "done")])
async def runs():
    folder = os.path.dirname(os.environ["NARVAL_TEST_PIDS"])
    status = await call().run_program(
        ["sh", folder + "/script"], lambda *_: None, seconds=600, environment={"NAME": "runs"}
    )
    assert status == 0
    return "<done/>"

def ended_at_first(name):
    folder = os.path.dirname(os.environ["NARVAL_TEST_PIDS"])
    subprocess.run(["sh", folder + "/script"], env={**os.environ, "NAME": name, "NARVAL_CALL": call().id})
    return "<done/>"

@action(runs="cluster", outputs=[Output("done", "done")])
def far():
    with open(os.environ["NARVAL_TEST_PIDS"], "a") as file:
        print(os.getpid(), file=file)
    while not os.path.exists(os.environ["NARVAL_TEST_PIDS"] + ".go"):
        time.sleep(0.01)
    return "<done/>"
"""
RECIPES = """<cookbook>
<recipe group="w" name="note" start_step="a" end_step="a">
  <step id="a" type="action" target="w.note"/></recipe>
<recipe group="w" name="lasts" start_step="a" end_step="a">
  <step id="a" type="action" target="w.lasts"/></recipe>
<recipe group="w" name="twice" start_step="a" end_step="a">
  <step id="a" type="action" target="w.twice"/></recipe>
<recipe group="w" name="runs" start_step="a" end_step="a">
  <step id="a" type="action" target="w.runs"/></recipe>
<recipe group="w" name="once" start_step="a" end_step="a">
  <step id="a" type="action" target="w.once" on-restart="error"/></recipe>
<recipe group="w" name="far" start_step="a" end_step="a">
  <step id="a" type="action" target="w.far" timeout="1h"/></recipe>
</cookbook>"""


class Machines:
    """Homes that share a store, and the daemons that are up."""

    def __init__(self, folder: Path, url: str, ends: ExitStack, settings: str = "") -> None:
        self.url, self._ends = url, ends
        self.homes = {
            name: make(
                folder / name,
                module=MODULE,
                recipes=RECIPES,
                settings=f"name = '{name}'\nstore = '{url}'\nstop_grace = '5s'\n"
                f"fleet_weight = {10 if name == 'attic' else 1}\n{settings}",
            )
            for name in HOMES
        }
        self.up: dict[str, Command] = {}

    def start(self, *names: str) -> None:
        for name in names:
            daemon = self.up[name] = self.homes[name].daemon()
            self._ends.callback(end, daemon)
            assert b"is ready" in daemon.stdout.readline()

    def rows(self, query: str, *given: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query.encode(), given).fetchall()

    def held(self, home: str) -> dict[int, tuple[int, int]]:
        """Epoch and turn of the agents besides its own that a home's daemon holds."""
        query = "SELECT l.agent, l.epoch, l.turn FROM leases l JOIN daemons d ON l.owner = d.daemon"
        found = self.rows(f"{query} WHERE d.home = %s AND l.home = '' AND d.until > clock_timestamp()", home)
        return {agent: (epoch, turn) for agent, epoch, turn in found}

    def all_held(self) -> int:
        return sum(len(self.held(name)) for name in HOMES)

    def agents_at_work(self) -> None:
        """Make agents that begin a plan each time that they change hands; two daemons have them all."""
        for n in range(AGENTS):
            self.homes["attic"].ask("agents", "add", f"a{n}")
            element = '<start-plan recipe="w.note" at="start"/>'
            self.add("attic", f"a{n}", element)

    def add(self, home: str, agent: str, element: str) -> None:
        """Have an agent remember an element."""
        done = self.homes[home]("--agent", agent, "add", "-", given=element.encode())
        assert done.returncode == 0, done.stderr

    def taken_over(self, before: dict[int, tuple[int, int]], *names: str) -> bool:
        """True once agents are at work elsewhere: each has committed under a new epoch."""
        now = {agent: mark for name in names for agent, mark in self.held(name).items()}
        return all(
            agent in now and now[agent][0] > epoch and now[agent][1] > turn
            for agent, (epoch, turn) in before.items()
        )


def end(daemon: Command) -> None:
    with suppress(ProcessLookupError):
        daemon.send_signal(signal.SIGCONT)
    daemon.kill()
    with suppress(Exception):
        daemon.communicate(timeout=60)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as server:
        yield server


@pytest.fixture
def machines(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    monkeypatch.setenv("NARVAL_TEST_PIDS", str(tmp_path / "pids"))
    with fresh_schema(server.url) as url, ExitStack() as ends:
        yield Machines(tmp_path, url, ends)


def test_G50_agents_of_a_machine_that_is_lost_are_at_work_at_the_others(machines: Machines) -> None:
    machines.start("attic")
    machines.agents_at_work()
    machines.start("barn", "cellar")
    lost = machines.held("attic")
    assert len(lost) == AGENTS
    machines.up["attic"].kill()
    until(lambda: machines.taken_over(lost, "barn", "cellar"), "all agents at work again")
    until(lambda: len(machines.held("barn")) == len(machines.held("cellar")) == AGENTS // 2, "even shares")
    for name in ("barn", "cellar"):
        agent, (epoch, _) = next(iter(machines.held(name).items()))
        [(known,)] = machines.rows("SELECT name FROM agents WHERE agent = %s", agent)
        done = machines.homes[name].ask("--agent", known, "memory", "done")
        hands = epoch - lost[agent][0]  # one that went on for even shares has changed them twice
        assert 2 <= len(done) <= 1 + hands, "before and after, each once"


def test_G47_G48_a_machine_that_was_stopped_and_goes_on_starts_over(
    machines: Machines, tmp_path: Path
) -> None:
    machines.start("attic")
    machines.agents_at_work()
    machines.homes["attic"].ask("--agent", "a0", "start", "w.lasts")
    pids = tmp_path / "pids"
    [first] = until(lambda: pids.exists() and pids.read_text().split(), "the call")
    machines.start("barn")
    lost = machines.held("attic")
    machines.up["attic"].send_signal(signal.SIGSTOP)
    worker = psutil.Process(int(first))
    until(lambda: not is_at_work(worker), "the end of its worker, though it is stopped")
    until(lambda: machines.taken_over(lost, "barn"), "all agents at work again")
    before = machines.held("barn")
    machines.up["attic"].send_signal(signal.SIGCONT)
    ready = machines.up["attic"].stdout.readline()
    assert b"is ready" in ready, "it has opened its home anew"
    assert machines.taken_over({}, "barn")
    assert all(machines.held("barn").get(agent, mark)[0] == mark[0] for agent, mark in before.items())
    assert machines.homes["attic"].ask("status")["pid"] == machines.up["attic"].pid


def test_G69_what_a_lost_machine_had_on_a_cluster_is_found_by_the_next(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids, certificates = tmp_path / "pids", tmp_path / "certificates"
    monkeypatch.setenv("NARVAL_TEST_PIDS", str(pids))
    certificates.mkdir()
    with fresh_schema(server.url) as url, ExitStack() as ends:
        cluster = SharedCluster(certificates, 1)
        ends.callback(cluster.end)
        settings = f"cluster = '{cluster.address}'\ncluster_certificates = '{certificates}'\n"
        machines = Machines(tmp_path, url, ends, settings)
        machines.start("attic")
        attic, barn = machines.homes["attic"], machines.homes["barn"]
        attic.ask("agents", "add", "ada")
        attic.ask("--agent", "ada", "start", "w.far")
        until(lambda: pids.exists() and pids.read_text().split(), "the call")
        machines.start("barn")
        lost = machines.held("attic")
        assert len(lost) == 1
        machines.up["attic"].kill()
        until(lambda: barn.ask("status").get("cluster", {}).get("tasks") == 1, "it is looked for")
        assert set(machines.held("barn")) == set(lost)
        (tmp_path / "pids.go").touch()
        until(lambda: barn("--agent", "ada", "memory", "done").returncode == 0, "its reply")
        assert len(pids.read_text().split()) == 1, "it was made once"


def test_G56_a_daemon_that_is_told_to_end_gives_its_agents_away(machines: Machines) -> None:
    machines.start("attic", "barn")
    machines.agents_at_work()
    for n in range(AGENTS):
        machines.homes["attic"].ask("agents", "add", f"p{n}")
    until(lambda: machines.all_held() == 2 * AGENTS, "all agents held")
    machines.up["attic"].send_signal(signal.SIGTERM)
    machines.up["attic"].communicate(timeout=60)
    until(lambda: len(machines.held("barn")) == 2 * AGENTS, "all agents given")


def test_G52_a_server_that_is_stopped_and_started_costs_nobody_an_agent(
    machines: Machines, server: Server
) -> None:
    machines.start("attic", "barn")
    machines.agents_at_work()
    held = {name: set(machines.held(name)) for name in ("attic", "barn")}
    server.stop()
    server.start()
    machines.add("attic", "a0", "<after/>")
    until(lambda: machines.all_held() == AGENTS, "all renewed")
    assert {name: set(machines.held(name)) for name in ("attic", "barn")} == held


def test_G54_G55_busy_agents_are_moved_by_a_person_and_for_even_shares(
    machines: Machines, tmp_path: Path
) -> None:
    attic, barn = machines.homes["attic"], machines.homes["barn"]
    (tmp_path / "script").write_text(SCRIPT)
    machines.start("attic")
    machines.agents_at_work()
    machines.start("barn")
    assert attic.ask("agents", "move", "a0", "barn") == {"name": "a0", "from": "attic", "to": "barn"}
    attic.ask("--agent", "a1", "start", "w.twice")
    until(lambda: (tmp_path / "twice").exists(), "the call")
    moved = attic("agents", "move", "a1", "barn", "--grace", "0.2")
    assert moved.stdout == b"a1 goes on at barn\n", moved.stderr
    until(lambda: barn("--agent", "a1", "memory", "done").returncode == 0, "the call that was made again")
    until(lambda: len(machines.held("barn")) == 2, "both are there")
    refused = attic("agents", "move", "a2", "bran")
    assert refused.returncode == 1
    assert b"no daemon of a home 'bran' is at work (did you mean 'barn'?)" in refused.stderr
    refused = attic("agents", "move", "a0", "attic")
    assert b"a0 is active at home barn" in refused.stderr
    end(machines.up["barn"])
    settings = tmp_path / "barn" / "etc" / "narval.toml"
    settings.write_text(settings.read_text().replace("fleet_weight = 1\n", ""))
    until(lambda: len(machines.held("attic")) == AGENTS, "they are back")
    machines.start("barn")
    until(lambda: len(machines.held("barn")) == AGENTS // 2, "even shares")
    assert len(machines.held("attic")) == AGENTS // 2


SCRIPT = """cd "$(dirname "$0")"; NAME=${NAME:-program}
echo $NARVAL_CALL >> $NAME
test $(wc -l < $NAME) -gt 1 || exec sleep 600
"""
"""A program that has to be ended the first time: it notes whose it is, and by which id it was called."""

PROGRAM = """<AUTOMATON name="program">
  <STATE name="start" command="sh ../script"/>
</AUTOMATON>"""


@pytest.mark.parametrize("trouble", ["paused", "away"])
def test_G48_what_was_ended_with_the_lease_is_made_again_or_interrupted_and_is_no_outcome(
    machines: Machines, server: Server, tmp_path: Path, trouble: str
) -> None:
    attic = machines.homes["attic"]
    (tmp_path / "script").write_text(SCRIPT)
    attic.write("recipes/p.xml", PROGRAM)
    machines.start("attic")
    names = ("twice", "once", "runs", "program")
    for name in names:
        attic.ask("start", "p.program" if name == "program" else f"w.{name}")
    files = [tmp_path / name for name in names]
    until(lambda: all(file.exists() and file.read_text() for file in files), "the calls")
    daemon = psutil.Process(machines.up["attic"].pid)

    def sleeping() -> list[psutil.Process]:
        return [one for one in daemon.children(recursive=True) if one.name() == "sleep"]

    until(lambda: len(sleeping()) == len(names), "the programs that they run")
    programs = sleeping()
    if trouble == "paused":
        daemon.suspend()
    else:
        server.stop()
    until(lambda: not any(map(is_at_work, programs)), "the end of what it runs")
    if trouble == "paused":
        daemon.resume()
    else:
        server.start()
    until(lambda: attic.ask("status")["runs"]["active"] == 0, "the end of all runs")
    runs = {run["name"]: run["state"] for run in attic.ask("runs")}
    assert runs == {"w.twice": "done", "w.once": "failed", "w.runs": "done", "p.program": "done"}
    [error] = attic.ask("memory", "error")
    assert 'type="interrupted"' in error["xml"]
    calls = {name: (tmp_path / name).read_text().split("\n")[:-1] for name in names}
    assert {name: (len(made), len(set(made))) for name, made in calls.items()} == {
        "twice": (2, 1), "once": (1, 1), "runs": (2, 1), "program": (2, 1),
    }  # fmt: skip
