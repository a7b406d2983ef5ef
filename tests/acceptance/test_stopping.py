"""Stopping in good order, and what is left to the next daemon (N34, N35)."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.acceptance.home import PATIENCE, make, one_step, until

MODULE = """
import asyncio
import time
from pathlib import Path
import narval
from narval import Input, Output, action

def noted(name):
    with (narval.call().home / "performed").open("a") as file:
        file.write(f"{name} {narval.call().id}\\n")

@action(outputs=[Output("rested", "rested")])
def rest():
    noted("rest")
    time.sleep(1.0)
    return "<rested/>"

@action
async def sleeps():
    noted("sleeps")
    await asyncio.sleep(3600)

@action(inputs=[Input("rested", "rested")], runs="inline")
def after(rested):
    noted("after")

@action(runs="inline")
def quick():
    noted("quick")

@action(outputs=[Output("tick", "tick", list=True)], source=True)
async def ticks():
    narval.call().caught_up()
    while True:
        await asyncio.sleep(3600)
        yield "<tick/>"
"""
RECIPES = f"""<cookbook>
<recipe group="w" name="rest" start_step="s" end_step="e">
  <step id="s" type="action" target="w.rest"/><step id="e" type="action" target="w.after"/>
  <transition id="t"><in idref="s"/><out idref="e"/></transition>
</recipe>
{one_step("sleeps", "w.sleeps")}
{one_step("quick", "w.quick")}
{one_step("ticks", "w.ticks")}
<recipe group="w" name="dropped" start_step="s" end_step="s">
  <step id="s" type="action" target="w.sleeps" on-restart="error"/>
</recipe>
</cookbook>"""


def test_N34_an_import_that_hangs_keeps_no_daemon_from_its_end(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE, recipes=RECIPES)
    with narval.running() as daemon:
        (narval.home / "modules/hangs.py").write_text(
            "import pathlib, time\npathlib.Path(__file__).with_name('begun').touch()\ntime.sleep(3600)\n"
        )
        until((narval.home / "modules/begun").exists, "the module is imported")
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=PATIENCE)
        assert daemon.returncode == 0


def test_N34_running_actions_get_stop_grace_and_nothing_new_is_performed(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE, recipes=RECIPES, settings="stop_grace = 60\n")
    performed = narval.home / "performed"
    with narval.running() as daemon:
        run = narval.ask("start", "w.rest")["eid"]
        narval("start", "w.ticks")
        until(lambda: performed.exists() and performed.read_text(), "the action runs")
        began = time.monotonic()
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=PATIENCE)
        assert daemon.returncode == 0
        assert time.monotonic() - began < 40.0  # the source was let go, though the grace is a minute
    assert [line.split()[0] for line in performed.read_text().splitlines()] == ["rest"]
    assert {step["id"]: step["state"] for step in narval.ask("show", str(run))["steps"]}["s"] != "running"
    with narval.running():
        assert narval.ask("start", "w.quick", "--wait")["state"] == "done"
        until(lambda: narval.ask("show", str(run))["state"] == "done", "what was left is done")
    assert [line.split()[0] for line in performed.read_text().splitlines()].count("rest") == 1
    assert [line.split()[0] for line in performed.read_text().splitlines()].count("after") == 1


def test_N35_a_call_in_flight_is_tried_again_with_its_id_or_becomes_an_error(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE, recipes=RECIPES, settings="stop_grace = 0.2\n")
    performed = narval.home / "performed"
    with narval.running() as daemon:
        again = narval.ask("start", "w.sleeps")["eid"]
        until(lambda: performed.exists() and performed.read_text().count("\n") == 1, "the first runs")
        dropped = narval.ask("start", "w.dropped")["eid"]
        until(lambda: performed.read_text().count("\n") == 2, "both run")
        daemon.kill()
    with narval.running():
        until(lambda: performed.read_text().count("\n") == 3, "one is tried again")
        assert narval.ask("show", str(again))["state"] == "running"
        failed = narval.ask("show", str(dropped))
        assert (failed["state"], failed["error"]["type"]) == ("failed", "interrupted")
    ids = [line.split()[1] for line in performed.read_text().splitlines()]
    assert len(set(ids)) == 2
    assert ids[2] == ids[0]


def test_N34_a_quit_element_ends_the_daemon(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE, recipes=RECIPES)
    with narval.running() as daemon:
        assert narval("add", "-", given=b"<quit/>").returncode == 0
        daemon.communicate(timeout=PATIENCE)
        assert daemon.returncode == 0


def test_N35_what_was_asked_without_a_daemon_is_performed_by_the_next_one(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE, recipes=RECIPES)
    run = narval.ask("start", "w.quick")["eid"]
    added = narval("add", "-", given=b"<start-plan recipe='w.quick'/>")
    assert added.returncode == 0
    assert not (narval.home / "performed").exists()
    assert narval("run", "--until-idle", "--timeout", "120").returncode == 0
    assert narval.ask("show", str(run))["state"] == "done"
    assert (narval.home / "performed").read_text().count("quick") == 2
