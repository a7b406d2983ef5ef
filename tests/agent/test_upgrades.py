"""What an earlier narval kept is read as it was meant then, though a file that says it has a fault (N35)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from narval.ask.memory import changing
from narval.ask.runs import acts
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Scene, in_a_loop

MODULE = """
from narval import Input, Output, action

@action(outputs=[Output("sender", "sender")], runs="inline")
def ask():
    return "<sender name='ann'/>"

@action(inputs=[Input("letter", "letter")], outputs=[Output("sent", "sent")], runs="inline")
def send(letter):
    return f"<sent>{letter.text}</sent>"
"""
LETTER = """<recipe group="w" name="write" start_step="a" end_step="b">
  <step id="a" type="action" target="w.ask"/>
  <step id="b" type="action" target="w.send"><arguments>
    <letter>Dear {$a/@name}, %s.</letter></arguments></step>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>go</match></condition></transition>
</recipe>"""
THEN = "{word} or {a: 1} or {substring('a', 1)} or [0-9]{4} or {} or if (a) {"
"""A text that an argument might have before all that stands in braces was a value."""


async def sent(daemon: Daemon) -> str:
    await changing.add(daemon, [b"<go/>"])
    await daemon.main_loop.until_idle()
    memory = daemon.agent.memory
    [element] = filter(None, map(memory.element, memory.named({"sent"})))
    return element.xml.decode()


async def begun_by_an_earlier_narval(scene: Scene, text: str) -> None:
    """A run that waits of a version with that text, which files may have no more, kept in the store."""
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", LETTER % "THEN")
    daemon = await scene.open()
    await acts.start(daemon, "w.write")
    await daemon.main_loop.until_idle()
    await scene.end()
    with sqlite3.connect(scene.home.store) as database:
        then = "CAST(replace(CAST(data AS TEXT), 'THEN', ?) AS BLOB)"
        database.execute(f"UPDATE texts SET data = {then}", (text,))
    database.close()
    scene.write("recipes/w.xml", LETTER % text)


@in_a_loop
async def test_N35_braces_that_were_text_stay_text_in_what_was_kept(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home")
    await begun_by_an_earlier_narval(scene, THEN)
    daemon = await scene.open()
    assert {(fault.path, fault.line) for fault in daemon.files.loaded.faults} == {("recipes/w.xml", 4)}
    assert await sent(daemon) == f"<sent>Dear ann, {THEN}.</sent>"
    assert [run.status for run in daemon.agent.runs.values()] == ["done"]
    await scene.end()
