"""Automata, the daemons and the programs of which are killed: nothing is lost, and nothing is left (A12)."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.home import Narval, make, until

MODULE = """
import asyncio
from pathlib import Path
from narval import Input, Output, action, call

@action(inputs=[Input("gate", "gate")], outputs=[Output("result", "result")])
async def wait(gate):
    name = gate.attributes["name"]
    folder = call().home
    (folder / f"{name}.reached").touch()
    while not (folder / f"{name}.open").exists():
        await asyncio.sleep(0.01)
    return f"<result of='{name}'/>"

@action(inputs=[Input("result", "result[@of='inner']")], runs="inline")
def note(result):
    (call().home / "noted").write_text(result.attributes["of"])
"""
OUTER = """<cookbook group="g">
<recipe group="g" name="outer" start_step="gate" end_step="note">
  <step id="gate" type="action" target="gates.wait"><arguments><gate name="outer"/></arguments></step>
  <step id="mid" type="automaton" target="g.mid"/>
  <step id="note" type="action" target="gates.note"/>
  <transition id="t1"><in idref="gate"/><out idref="mid"/></transition>
  <transition id="t2"><in idref="mid"/><out idref="note"/></transition>
</recipe>
<recipe group="g" name="inner" start_step="gate" end_step="gate">
  <step id="gate" type="action" target="gates.wait"><arguments><gate name="inner"/></arguments></step>
</recipe>
</cookbook>"""
MID = """<automaton group="g" name="mid">
<state name="start" command="sh">
  echo $$ > mid.pid; touch mid.reached; while ! test -e mid.open; do sleep 0.01; done</state>
<state name="end" target="g.inner"/>
<transition from="start" label="0" to="end"/>
</automaton>"""


def killed(daemon: Any) -> None:
    daemon.kill()
    daemon.wait()


def carrying(home: Path) -> list[psutil.Process]:
    """Programs that run for this home and are no zombies."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if environment.get("NARVAL_OWNER") and environment.get("NARVAL_HOME") == str(home):
                found += [process] if process.status() != psutil.STATUS_ZOMBIE else []
        except psutil.Error:
            continue
    return found


def test_A15_recipe_calls_automaton_calls_recipe_and_the_daemon_is_killed_in_each(tmp_path: Path) -> None:
    narval = make(tmp_path / "home")
    home = tmp_path / "home"
    narval.write("modules/gates.py", MODULE)
    narval.write("recipes/outer.xml", OUTER)
    narval.write("recipes/mid.xml", MID)
    run = narval.ask("start", "g.outer")["eid"]
    for gate in ("outer", "mid", "inner"):
        with narval.running() as daemon:
            until((home / f"{gate}.reached").exists, f"{gate} is reached")
            killed(daemon)
        (home / f"{gate}.open").touch()
    with narval.running():
        until(lambda: narval.ask("show", str(run))["phase"] != "active", "it is over")
        shown = narval.ask("show", str(run))
    assert shown["phase"] == "done", shown["error"]
    assert (home / "noted").read_text() == "inner"
    assert carrying(home) == []


def test_A15_cancelling_the_caller_ends_the_programs_of_what_it_called(tmp_path: Path) -> None:
    narval = make(tmp_path / "home")
    home = tmp_path / "home"
    narval.write("modules/gates.py", MODULE)
    narval.write("recipes/outer.xml", OUTER)
    narval.write("recipes/mid.xml", MID)
    (home / "outer.open").touch()
    run = narval.ask("start", "g.outer")["eid"]
    with narval.running():
        until((home / "mid.reached").exists, "the program runs")
        assert carrying(home)
        narval.ask("cancel", str(run))
        until(lambda: not carrying(home), "the program is gone")
        until(lambda: not narval.ask("runs", "--state", "active"), "all are over")
        assert {run["phase"] for run in narval.ask("runs")} == {"cancelled"}


def test_A12_a_copy_of_a_home_ends_none_of_the_programs_of_the_original(tmp_path: Path) -> None:
    """Both have one agent, one run and one id of a call; each has its own store."""
    narval = make(tmp_path / "home")
    narval.write("recipes/mid.xml", MID.replace('target="g.inner"', 'command="true"'))
    with narval.running():
        run = narval.ask("start", "g.mid")["eid"]
        until((tmp_path / "home/mid.reached").exists, "the program runs")
        original = psutil.Process(int((tmp_path / "home/mid.pid").read_text()))
        assert original in carrying(tmp_path / "home")
        shutil.copytree(
            tmp_path / "home", tmp_path / "copy", ignore=shutil.ignore_patterns("*socket", "*.sock")
        )
        copied = Narval(tmp_path / "copy")
        with copied.running():
            until(lambda: carrying(tmp_path / "copy"), "the copy makes the call again")
            copied.ask("cancel", str(run))
            until(lambda: not carrying(tmp_path / "copy"), "its program is gone")
        assert original in carrying(tmp_path / "home")
        (tmp_path / "home/mid.open").touch()
        until(lambda: narval.ask("show", str(run))["phase"] == "done", "the original ends well")


def test_A15_the_failure_of_an_automaton_is_an_error_of_the_step_that_called_it(tmp_path: Path) -> None:
    narval = make(tmp_path / "home")
    narval.write("recipes/mid.xml", MID.replace("touch mid.reached", "exit 7"))
    narval.write("modules/gates.py", MODULE)
    narval.write("recipes/outer.xml", OUTER)
    (tmp_path / "home/outer.open").touch()
    run = narval.ask("start", "g.outer")["eid"]
    with narval.running():
        until(lambda: narval.ask("show", str(run))["phase"] != "active", "it is over")
        shown = narval.ask("show", str(run))
    assert shown["phase"] == "failed"
    assert "state start ended with status 7" in shown["error"]["message"]


COUNTING = """<automaton group="g" name="count" max-parallel="6">
<env name="SLOW" value="0.05"/>
<state name="start" command="true"/><transition from="start" label="signal" to="start"/>
<state name="end" command="true"/><transition from="end" label="signal" to="end"/>
{states}
{arcs}
</automaton>"""
LENGTH, LINES = 12, 5


def counting() -> str:
    """Lines of states that each write a line when they end; one that was killed is run again."""
    states, arcs = [], []
    for line in range(LINES):
        for place in range(LENGTH):
            name = f"s{line}x{place}"
            script = f"sleep $SLOW &amp; wait; echo {name} >> results; sync results"
            states.append(f'<state name="{name}" command="sh">{script}</state>')
            before = f"s{line}x{place - 1}" if place else "start"
            arcs.append(f'<transition from="{before}" label="0" to="{name}"/>')
            for how in ("signal", "137", "143"):  # or a program that it had started
                arcs.append(f'<transition from="{name}" label="{how}" to="{name}"/>')
        arcs.append(f'<transition from="s{line}x{LENGTH - 1}" label="0" to="end"/>')
    return COUNTING.format(states="".join(states), arcs="".join(arcs))


@pytest.mark.parametrize("seed", [int(os.environ.get("NARVAL_SEED", "1"))])
def test_A12_random_kills_of_programs_and_daemons_lose_nothing_and_leave_nothing(
    tmp_path: Path, seed: int
) -> None:
    """As long as NARVAL_SOAK says, in seconds, from the first line on; 6 usually."""
    chance, home = random.Random(seed), tmp_path / "home"
    narval = make(home)
    narval.write("recipes/count.xml", counting())
    ends = inf
    expected = {f"s{line}x{place}" for line in range(LINES) for place in range(LENGTH)}
    rounds = kills = 0
    while time.monotonic() < ends:
        rounds += 1
        (home / "results").unlink(missing_ok=True)
        run = narval.ask("start", "g.count")["eid"]
        while narval.ask("show", str(run))["phase"] == "active":
            with narval.running() as daemon:
                if ends == inf:
                    until((home / "results").exists, "the first program has written its line")
                    ends = time.monotonic() + float(os.environ.get("NARVAL_SOAK", "6"))
                kills += shoot(home, chance, min(ends, time.monotonic() + chance.uniform(0.3, 2.0)))
                if time.monotonic() > ends:
                    until(partial(is_over, narval, run), "it is over")
                elif not is_over(narval, run):
                    kills += 1
                    killed(daemon)
        shown = narval.ask("show", str(run))
        assert shown["phase"] == "done", shown["error"]
        assert set((home / "results").read_text().split()) == expected
        until(lambda: not carrying(home), "nothing is left")
    assert kills
    print(f"{rounds} rounds, {kills} kills")


def is_over(narval: Narval, run: int) -> bool:
    return bool(narval.ask("show", str(run))["phase"] != "active")


def shoot(home: Path, chance: random.Random, until_then: float) -> int:
    """Kill one program after the other; how many."""
    kills = 0
    while time.monotonic() < until_then:
        found = carrying(home)
        if found:
            kills += 1
            with suppress(psutil.Error):
                chance.choice(found).send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        time.sleep(chance.uniform(0.0, 0.1))
    return kills
