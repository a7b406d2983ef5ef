"""Stores of each version of the tables, as text, and the home they are of.

    python -m tests.store.older_stores

writes the store of this version under `versions/`; one of a version that others have is never written anew.
In it are runs of each kind that wait, an offer in the queue, moments to come, elements used, replaced
and kept unique.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

from narval.core.elements.canonical import elements_of
from narval.core.elements.element import Origin
from narval.daemon.daemon import Daemon
from narval.kinds.process.operations import complete
from narval.store.tables import HEAD
from tests.daemon.at_work import Killed, Scene, watched_commits

VERSIONS = Path(__file__).with_name("versions")

BEGUN = 1_000_000.0
"""The moment of the home's clock when its runs began."""

FILES = MappingProxyType(
    {
        "data/memory.xml": "<memory><counter value='0'/></memory>",
        "modules/w.py": """
import narval
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("ack", "ack")], runs="inline")
def take(mail):
    return f"<ack of='{mail.attributes['n']}'/>"

@action(inputs=[Input("old", "counter", outdates=True)], outputs=[Output("new", "counter")], runs="inline")
def count(old):
    return f"<counter value='{int(old.attributes['value']) + 1}'/>"

@action(outputs=[Output("once", "once", unique="@step")], runs="inline")
def once():
    return f"<once step='{narval.call().step}'/>"

@action(outputs=[Output("told", "told")], runs="inline")
def tell():
    return f"<told by='{narval.call().id}'/>"

@action(runs="inline")
def stumble():
    raise ValueError("it does not work")
""",
        "recipes/w.xml": """<cookbook>
<recipe group="w" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="w.take"/><step id="b" type="action" target="w.tell"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>go</match></condition></transition>
</recipe>
<recipe group="w" name="calls" start_step="a" end_step="b">
  <step id="a" type="recipe" target="w.waits"/><step id="b" type="action" target="w.tell"/>
  <transition id="t"><in idref="a"/><out idref="b"/></transition>
</recipe>
<recipe group="w" name="later" start_step="a" end_step="b">
  <step id="a" type="action" target="w.count"/><step id="b" type="action" target="w.tell"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <time years="1970" months="1" monthdays="20" hours="0" minutes="0" seconds="0"/>
  </transition>
</recipe>
<recipe group="w" name="ends" start_step="a" end_step="a" decay="1000000">
  <step id="a" type="action" target="w.once"/>
</recipe>
<recipe group="w" name="fails" start_step="a" end_step="a">
  <step id="a" type="action" target="w.stumble"/>
</recipe>
</cookbook>""",
        "recipes/desk.xml": """<process-definition name="order">
  <node name="enter" type="wait" isStart="true"><arc to="bill"/><arc to="ship"/></node>
  <node name="bill" type="wait"><arc to="done"/></node>
  <node name="ship" type="wait"><arc to="done"/></node>
  <node name="done" joinType="and"/>
</process-definition>""",
        "recipes/guard.xml": """<automaton name="door">
  <state name="start" command="true"><wait signal="open"/></state>
</automaton>""",
    }
)


def home(folder: Path) -> Scene:
    """The home that the stores are of, at the moment when its runs began."""
    scene = Scene(folder, settings="timezone = 'UTC'\n")
    for path, text in FILES.items():
        scene.write(path, text)
    return scene


def put(folder: Path, version: Path) -> Scene:
    """The home with a store of an earlier version, the moment after that was written."""
    scene = home(folder)
    scene.home.prepare()
    with closing(sqlite3.connect(scene.home.store)) as connection:
        connection.executescript(version.read_text("utf-8"))
    scene.clock.advance(120.0)
    return scene


async def _fill(scene: Scene) -> None:
    """Have runs of each kind wait, and kill the daemon while it tells of a new element."""
    daemon = await scene.open()
    await _add(daemon, *(f"<mail n='{number}'/>" for number in range(3)))
    names = ("w.waits", "w.calls", "w.later", "w.ends", "w.fails", "desk.order", "guard.door")
    by = {"w.later": Origin(by="ada")}
    runs = {
        name: await daemon.host.submit(lambda turn, name=name: turn.start(name, origin=by.get(name)).eid)
        for name in names
    }
    await daemon.main_loop.until_idle()
    mail = daemon.agent.memory.labels.number(["mail"])
    await daemon.host.submit(lambda turn: turn.transaction.label(runs["guard.door"], mail))
    for node in ("enter", "bill"):
        await complete(daemon, runs["desk.order"], node)
    scene.clock.advance(60.0)
    await daemon.main_loop.until_idle()
    daemon.host.loop.set_limit(1)
    scene.kill_at = (scene.commits + 1, True)
    try:
        await _add(daemon, "<go/>")
        await daemon.main_loop.until_idle()
    except Killed:
        pass
    await scene.end()


async def _add(daemon: Daemon, *texts: str) -> None:
    for text in texts:
        (xml,) = elements_of(text.encode())
        await daemon.host.submit(lambda turn, xml=xml: turn.add(xml))


def write() -> Path:
    """Write the store of this version; the file."""
    version = VERSIONS / f"{HEAD:04}.sql"
    with tempfile.TemporaryDirectory() as folder:
        scene = home(Path(folder))
        with watched_commits(scene):
            asyncio.run(_fill(scene))
        with closing(sqlite3.connect(scene.home.store)) as connection, version.open("w") as file:
            file.writelines(f"{line}\n" for line in connection.iterdump())
    return version


if __name__ == "__main__":
    print(write())
