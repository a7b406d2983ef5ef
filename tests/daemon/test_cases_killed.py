"""A case whose daemon is killed at any commit: each step is done once, and undone once (K47, K69)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from tests.daemon.at_work import Killed, Scene, watched_commits

TASKS = """
TASK TYPE order
  COMPENSATED BY call_off
  TASK CODE "m.order"
  INITIAL ordering
  STATE ordering EXPOSED
    ON EVENT done GOTO FORWARD
  ON FORWARD route(pay);

TASK TYPE pay
  COMPENSATED BY pay_back
  TASK CODE "m.pay"
  INITIAL paying
  STATE paying EXPOSED
    ON EVENT done GOTO FORWARD
  ON FORWARD { copy(2); route(wait, 1); route(send, 2); }

TASK TYPE wait
  ROLES: buyer
  INITIAL waiting
  STATE waiting EXPOSED
    ON EVENT came GOTO COMMIT

TASK TYPE send
  INVOCATION: AUTO
  INITIAL sending
  STATE sending EXPOSED
    ON ASSERT { assert(ABORT); }
    ON EVENT lost GOTO ABORT
  ON ABORT route(tell);

TASK TYPE tell
  INVOCATION: AUTO
  INITIAL telling
  STATE telling INTERNAL
    ON ASSERT { assert(COMMIT); }
    ON EVENT told GOTO COMMIT

TASK TYPE call_off
  INVOCATION: COMPENSATION
  TASK CODE "m.call_off"
  INITIAL calling
  STATE calling EXPOSED
    ON EVENT done GOTO FORWARD

TASK TYPE pay_back
  INVOCATION: COMPENSATION
  TASK CODE "m.pay_back"
  INITIAL paying
  STATE paying EXPOSED
    ON EVENT done GOTO FORWARD
"""
MODULE = """
from narval import action, Input, Output

def of(name, given):
    @action(name=name, inputs=[Input("given", given)], outputs=[Output("made", name)], runs="inline")
    def made(given):
        return f"<{name}/>"
    return made

order, pay = of("order", "request"), of("pay", "request")
call_off, pay_back = of("call_off", "order"), of("pay_back", "pay")
"""
ONCE = Counter({"order": 1, "pay": 1, "pay_back": 1, "call_off": 1})


async def story(scene: Scene) -> Counter[str]:
    """A request is put to the first task, if it has not been, and goes its way; what was made of it."""
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    if not await invoke(daemon, PROGRAM, "memory", {"xpath": "request"}):
        await invoke(daemon, PROGRAM, "task_put", {"name": "buy.order", "elements": [b"<request/>"]})
    await daemon.main_loop.until_idle()
    return Counter({name: len(list(daemon.agent.memory.named([name]))) for name in ONCE})


async def lived(folder: Path, kill_at: tuple[int, bool] | None) -> tuple[Counter[str], Scene]:
    scene = Scene(folder, limit=1)
    scene.write("recipes/buy.task", TASKS)
    scene.write("modules/m.py", MODULE)
    scene.write("etc/people.toml", '[people.ann]\nroles = ["buyer"]\n')
    with watched_commits(scene):
        scene.kill_at = kill_at
        try:
            found = await story(scene)
        except Killed:
            await scene.end()
            scene.kill_at = None
            found = await story(scene)
        assert scene.alive is not None
        (case,) = await invoke(scene.alive, PROGRAM, "runs", {"kind": "task-case"})
        shown = await invoke(scene.alive, PROGRAM, "show", {"run": case["eid"]})
        assert [(step["type"], step["state"]) for step in shown["trail"]] == [
            ("buy.order", "compensated"),
            ("buy.pay", "compensated"),
        ]
        assert case["state"] == "committed", "what ON ABORT routed came to COMMIT"
        assert sorted(row["state"] for row in shown["objects"]) == ["aborted", "committed", "withdrawn"]
        await scene.end_as_recorded()
    return found, scene


def test_K69_a_kill_at_any_commit_does_and_undoes_nothing_twice(tmp_path: Path) -> None:
    expected, scene = asyncio.run(lived(tmp_path / "whole", None))
    assert expected == ONCE
    for commit in range(1, scene.commits + 1):
        for is_written in (False, True):
            found, _ = asyncio.run(lived(tmp_path / f"{commit}{is_written}", (commit, is_written)))
            assert found == ONCE, f"killed at commit {commit}, written: {is_written}"
