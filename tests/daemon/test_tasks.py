"""Tasks at a daemon: objects go their way, and a kill at any commit does nothing twice and loses nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.elements.element import CONTROL
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Scene, in_a_loop, told

MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("o", "*")], outputs=[Output("note", "note", optional=True)], runs="inline")
def work(o):
    return f"<note of='{o.tree().get('n')}'/>"

@action(inputs=[Input("o", "*")], runs="inline")
def undo(o): pass
"""
BANK = """
TASK TYPE enter
  COMPENSATED BY strike
  TASK CODE "m.work"
  INITIAL working FINAL FORWARD
  STATE working EXPOSED ON EVENT done GOTO FORWARD
  ON FORWARD if (sum > 100) route(large); else route(small);

TASK TYPE small
  TASK CODE "m.work"
  INITIAL working FINAL COMMIT
  STATE working EXPOSED ON EVENT done GOTO COMMIT

TASK TYPE large
  INVOCATION: AUTO
  TASK CODE "m.work"
  INITIAL working FINAL ABORT
  STATE working EXPOSED ON EVENT done GOTO ABORT

TASK TYPE strike
  INVOCATION: COMPENSATION
  COMPENSATION TO enter
  TASK CODE "m.undo"
  INITIAL working FINAL FORWARD
  STATE working EXPOSED ON EVENT done GOTO FORWARD
"""


def put(type: str, xml: str) -> bytes:
    return f'<al:task-object xmlns:al="{CONTROL}" type="{type}">{xml}</al:task-object>'.encode()


async def ask(daemon: Daemon, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM, operation, arguments)


def home(folder: Path, **settings: Any) -> Scene:
    scene = Scene(folder, **settings)
    scene.write("modules/m.py", MODULE)
    scene.write("recipes/bank.task", BANK)
    return scene


async def ends(daemon: Daemon) -> Mapping[str, int]:
    """The runs there are, by kind, type and state."""
    return Counter(f"{row['kind']} {row['name']} {row['state']}" for row in await ask(daemon, "runs"))


EXPECTED = {
    "task-case bank.enter committed": 1,
    "task-case bank.enter aborted": 1,
    "task bank.enter done": 2,
    "task bank.small done": 1,
    "task bank.large aborted": 1,
    "task bank.strike done": 1,
}


@in_a_loop
async def test_K43_K47_objects_are_routed_committed_and_what_was_done_is_undone(tmp_path: Path) -> None:
    daemon = await (scene := home(tmp_path / "home")).open()
    for n, total in enumerate((3, 300)):
        await ask(daemon, "add", elements=[put("bank.enter", f"<loan n='{n}' sum='{total}'/>")])
    await daemon.main_loop.until_idle()
    assert await ask(daemon, "memory", xpath="error") == []
    assert await ends(daemon) == EXPECTED
    await scene.end_as_recorded()


async def story(scene: Scene) -> Mapping[str, int]:
    daemon = await scene.open()
    known = {row["xml"] for row in await ask(daemon, "memory", xpath="loan")}
    for n, total in enumerate((3, 300)):
        if not any(f'n="{n}"' in xml for xml in known):
            await ask(daemon, "add", elements=[put("bank.enter", f"<loan n='{n}' sum='{total}'/>")])
    await daemon.main_loop.until_idle()
    found = dict(await ends(daemon))
    assert await ask(daemon, "memory", xpath="error") == []
    found["notes"] = len(await ask(daemon, "memory", xpath="note"))
    return found


async def lived(folder: Path, kill_at: tuple[int, bool] | None) -> tuple[Mapping[str, int], int]:
    """What it came to; the commits that it took."""
    scene = home(folder, limit=3)
    return await told(story, scene, kill_at), scene.commits


def test_K69_a_kill_at_any_commit_neither_loses_an_object_nor_does_a_thing_twice(tmp_path: Path) -> None:
    whole, commits = asyncio.run(lived(tmp_path / "whole", None))
    assert whole == EXPECTED | {"notes": 4}
    for commit in range(1, commits + 1):
        for is_written in (False, True):
            found, _ = asyncio.run(lived(tmp_path / f"{commit}{is_written}", (commit, is_written)))
            assert found == whole, (commit, is_written)
