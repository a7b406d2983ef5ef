"""Scripts of tasks at a daemon: a kill at any commit, and each goes on where it stood (KA27, K69)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.daemon.at_work import Scene, told
from tests.daemon.test_tasks import ask, put

MODULE = """
from lxml import etree
from narval import Input, Output, action

@action(
    inputs=[Input("o", "loan", outdates=True), Input("how", "argument[@n='1']")],
    outputs=[Output("out", "loan")],
    runs="inline",
)
def stamp(o, how):
    root = o.tree()
    root.attrib.pop("eid", None)
    root.set(how.text, str(int(root.get(how.text, "0")) + 1))
    return etree.tostring(root)
"""
TASKS = """
TASK TYPE enter
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON ASSERT { m.stamp("one"); if (one == 1) assert(b); }
    ON LEAVING { exec("true"); m.stamp("left"); }
    ON EVENT go GOTO b
  STATE b EXPOSED
    ON ASSERT { raise(desk, ask, 7); split("page"); assert(FORWARD); }
    ON EVENT go GOTO FORWARD
  ON FORWARD
    m.stamp("end"); route(hand, "*");

TASK TYPE hand
  INVOCATION: AUTO
  INITIAL s
  STATE s EXPOSED
    ON ASSERT { raise(desk, bring, object); assert(COMMIT); }
    ON EVENT go GOTO COMMIT

TASK TYPE desk
  INVOCATION: AUTO
  INITIAL d
  STATE d EXPOSED
    ON EVENT ask (n) SYNC CONDITION ACTION { assert(FORWARD); }
    ON EVENT bring SYNC CONDITION ACTION { assert(COMMIT); }
    ON EVENT go GOTO FORWARD
    ON EVENT gone GOTO COMMIT
  ON FORWARD
    route(desk);
"""
OBJECT = "<loan sum='5'><page/></loan>"


async def story(scene: Scene) -> Mapping[str, Any]:
    """What there is once all is done; an object is put unless one is there."""
    daemon = await scene.open()
    if not await ask(daemon, "memory", xpath="loan"):
        await ask(daemon, "add", elements=[put("bank.enter", OBJECT)])
    await daemon.main_loop.until_idle()
    while any(
        call.kind == "program" for run in daemon.agent.runs.active.values() for call in run.calls.values()
    ):
        await asyncio.sleep(0.01)
        await daemon.main_loop.until_idle()
    runs = Counter(f"{row['kind']} {row['name']} {row['state']}" for row in await ask(daemon, "runs"))
    errors = [row["xml"] for row in await ask(daemon, "memory", xpath="error")]
    versions = [row["xml"].partition(" eid=")[0] for row in await ask(daemon, "memory", xpath="loan")]
    return {**runs, "errors": errors, "versions": versions}


async def lived(folder: Path, kill_at: tuple[int, bool] | None) -> tuple[Mapping[str, Any], int]:
    """What it came to; the commits that it took."""
    scene = Scene(folder, limit=3)
    scene.write("modules/m.py", MODULE)
    scene.write("recipes/bank.task", TASKS)
    return await told(story, scene, kill_at), scene.commits


def test_KA27_a_kill_at_any_commit_and_a_script_goes_on_where_it_stood(tmp_path: Path) -> None:
    whole, commits = asyncio.run(lived(tmp_path / "whole", None))
    assert whole == {
        "task-case bank.enter committed": 1,
        "task bank.enter done": 1,
        "task bank.hand done": 1,
        "task bank.desk done": 2,
        "errors": [],
        "versions": [
            '<loan sum="5"',
            '<loan sum="5" one="1"',
            '<loan sum="5" one="1" left="1"',
            '<loan sum="5" one="1" left="1" end="1"',
        ],
    }
    for commit in range(1, commits + 1):
        for is_written in (False, True):
            found, _ = asyncio.run(lived(tmp_path / f"{commit}{is_written}", (commit, is_written)))
            assert found == whole, (commit, is_written)
