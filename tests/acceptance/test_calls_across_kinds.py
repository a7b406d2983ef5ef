"""A recipe calls a process, that an automaton, and that a recipe: results, failures and the end pass through.

Whatever kind is at work when the daemon is killed, it goes on where it was (issue 5, "Calls across kinds").
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.acceptance.home import PATIENCE, Narval, make, until

ACTIONS = """
import pathlib, time
from narval import Output, action

def stage(number):
    home = pathlib.Path({folder!r})
    (home / f"{{number}}.begun").touch()
    while not (home / f"{{number}}.go").exists():
        time.sleep(0.02)
    if (home / f"{{number}}.fails").exists():
        raise ValueError(f"stage {{number}} is to fail")
"""
STAGES = "".join(
    f"""
@action(outputs=[Output("made", "made")], runs="worker")
def stage{number}():
    stage({number})
    return "<made by='{number}'/>"
"""
    for number in range(1, 5)
)
RECIPES = """<cookbook>
<recipe group="w" name="outer" start_step="first" end_step="within">
  <step id="first" type="action" target="w.stage1"/>
  <step id="within" type="process" target="moving.moving"/>
  <transition id="t"><in idref="first"/><out idref="within"/></transition>
</recipe>
<recipe group="w" name="inner" start_step="last" end_step="last">
  <step id="last" type="action" target="w.stage3"/>
</recipe>
</cookbook>"""
PROCESS = """<process-definition name="moving">
  <node name="begin" type="action" isStart="true">
    <arc to="supervise"/><custom><target>w.stage2</target></custom>
  </node>
  <node name="supervise" type="automaton">
    <arc to="end"/><arc name="error" to="sorry"/><custom><target>watching.watching</target></custom>
  </node>
  <node name="end" type="action"><custom><target>w.stage4</target></custom></node>
  <node name="sorry"/>
</process-definition>"""
AUTOMATON = """<automaton name="watching">
  <state name="start" command="true"/>
  <state name="end" target="w.inner"/>
  <transition from="start" label="0" to="end"/>
</automaton>"""


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    """A home with a definition of each kind that calls the next, and actions that wait for a file."""
    folder = tmp_path / "stages"
    folder.mkdir()
    made = make(tmp_path / "home", recipes=RECIPES, module=ACTIONS.format(folder=str(folder)) + STAGES)
    made.write("recipes/moving.xml", PROCESS)
    made.write("recipes/watching.xml", AUTOMATON)
    return made


def mark(narval: Narval, number: int, what: str) -> Path:
    return narval.home.parent / "stages" / f"{number}.{what}"


def states(narval: Narval) -> dict[str, str]:
    """The runs of the test by name, with their states."""
    return {run["name"]: run["state"] for run in narval.ask("runs")}


def test_the_daemon_is_killed_while_each_kind_is_at_work_and_all_ends_well(narval: Narval) -> None:
    with narval.running():
        run = narval.ask("start", "w.outer")["eid"]
        until(mark(narval, 1, "begun").exists, "the first stage begins")
    for number in range(1, 5):
        daemon = narval.daemon()
        try:
            until(mark(narval, number, "begun").exists, f"stage {number} begins")
        finally:
            daemon.send_signal(signal.SIGKILL)
            daemon.communicate(timeout=PATIENCE)
        mark(narval, number, "go").touch()
    with narval.running():
        until(lambda: states(narval)["w.outer"] == "done", "the outer run ends")
        assert states(narval) == {
            "w.outer": "done",
            "moving.moving": "completed",
            "watching.watching": "done",
            "w.inner": "done",
        }
        found = narval.ask("memory", "made")
        assert len(found) == 4
        assert narval.ask("show", str(run))["state"] == "done"


def test_a_failure_deep_within_leaves_the_process_on_its_arc_for_errors(narval: Narval) -> None:
    for number in range(1, 5):
        mark(narval, number, "go").touch()
    mark(narval, 3, "fails").touch()
    with narval.running():
        narval.ask("start", "w.outer")
        until(lambda: states(narval).get("w.outer") == "done", "the outer run ends")
        found = states(narval)
        assert found["w.inner"] == "failed"
        assert found["watching.watching"] == "failed"
        assert found["moving.moving"] == "completed"
        assert not mark(narval, 4, "begun").exists()


def test_a_cancelled_run_cancels_all_that_it_called(narval: Narval) -> None:
    for number in (1, 2):
        mark(narval, number, "go").touch()
    with narval.running():
        run = narval.ask("start", "w.outer")["eid"]
        until(mark(narval, 3, "begun").exists, "the innermost run is at work")
        narval.ask("cancel", str(run))
        over = {"cancelled"}
        until(lambda: set(states(narval).values()) <= over, "every run ends")
