"""A plan whose call is under way moves to a new version, and the daemon is killed (issue 42)."""

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
