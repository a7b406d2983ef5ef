"""Runs move to a new version by the command line, and the daemon is killed meanwhile (issue 42)."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.home import make, until

MODULE = """
import time
import narval
from narval import Output, action

@action(outputs=[Output("rested", "rested")])
def rest():
    home = narval.call().home
    with (home / "performed").open("a") as file:
        file.write(f"rest {narval.call().id}\\n")
    while not (home / "enough").exists():
        time.sleep(0.02)
    return "<rested/>"

@action(runs="inline")
def one(): pass

@action(runs="inline", outputs=[Output("other", "other")])
def other(): return "<other/>"
"""
BEFORE = """<recipe group="w" name="rest" start_step="s" end_step="e">
  <step id="s" type="action" target="w.rest"/><step id="e" type="action" target="w.one"/>
  <transition id="t"><in idref="s"/><out idref="e"/></transition>
</recipe>"""
AFTER = """<recipe group="w" name="rest" start_step="sleep" end_step="e">
  <step id="sleep" type="action" target="w.rest"/><step id="m" type="action" target="w.other"/>
  <step id="e" type="action" target="w.one"/>
  <transition id="t"><in idref="sleep"/><out idref="m"/></transition>
  <transition id="u"><in idref="m"/><out idref="e"/></transition>
</recipe>"""


def test_a_plan_that_was_migrated_goes_on_by_the_new_version_after_a_kill(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", recipes=BEFORE, module=MODULE)
    performed = narval.home / "performed"
    with narval.running() as daemon:
        run = narval.ask("start", "w.rest")["eid"]
        until(performed.exists, "the call is under way")
        narval.write("recipes/w.xml", AFTER)
        done = narval("migrate", str(run))
        assert done.returncode == 1, done
        assert b"recipes/w.xml:2:3: step s is running, and the new version has no such step" in done.stdout
        [row] = narval.ask("migrate", str(run), "--names", "s=sleep")["runs"]
        assert row["outcome"] == "migrated"
        assert row["kept"] == [{"part": "s", "name": "sleep", "state": "running"}]
        daemon.kill()
        daemon.communicate()
        with narval.running():
            until(lambda: len(performed.read_text().split("\n")) == 3, "the call is made again")
            narval.write("enough", "")
            until(lambda: narval.ask("show", str(run))["phase"] == "done", "the plan is done")
            assert len(narval.ask("memory", "other")) == 1
    first, again = performed.read_text().splitlines()
    assert first == again, "another attempt is the same call"


PROCESS = """<process-definition group="w" name="sale">
  <node name="ask" type="wait" isStart="true"><arc to="pack"/></node>{}
  <node name="pack"/>
</process-definition>"""
AUTOMATON = """<automaton group="w" name="door">
  <state name="start" command="true"><wait signal="go"/></state>{}
</automaton>"""
MORE = '<state name="more" command="true"/><transition from="start" to="more" label="0"/>'


def test_processes_and_automata_move_and_go_back_by_the_command_line(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", recipes=BEFORE, module=MODULE)
    narval.write("recipes/p.xml", PROCESS.format(""))
    narval.write("recipes/a.xml", AUTOMATON.format(""))
    with narval.running():
        sale, door = (narval.ask("start", name)["eid"] for name in ("w.sale", "w.door"))
        narval.write("recipes/p.xml", PROCESS.format('<node name="later"/>').replace('"ask"', '"sign"'))
        narval.write("recipes/a.xml", AUTOMATON.format(MORE))
        stays = narval("migrate", str(sale), "--dry-run")
        assert stays.returncode == 1
        assert b"p.xml:2:3: a token is on node ask, and the new version has no such node" in stays.stdout
        dry = narval("migrate", str(sale), "--names", "ask=sign", "--dry-run")
        assert b"would go on with version" in dry.stdout
        moved = narval("migrate", str(sale), "--names", "ask=sign")
        assert moved.returncode == 0
        assert b"keeps: ask as sign (active)" in moved.stdout
        assert b"has new: later" in moved.stdout
        assert b"From version" in moved.stdout
        assert b"has new: more" in narval("migrate", "w.door").stdout
        assert b"goes back to version" in narval("migrate", str(sale), "--undo").stdout
        narval.ask("complete", str(sale), "ask")
        narval.ask("signal", str(door), "go")
        for run in (sale, door):
            until(lambda run=run: narval.ask("show", str(run))["phase"] == "done", f"run {run} is done")
        assert [state["id"] for state in narval.ask("show", str(door))["states"]] == ["start", "more"]
