"""Answering work at a terminal: what elements hold is text there, and orders nothing (P11)."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import narval
from tests.surfaces.cli.command_line import program

WORK = """<work group="w" name="ask"><title>Well?</title>
<input id="r"><match>request</match></input>
<field name="why" default="{$r/@why}"/></work>"""


def test_P86_a_default_cannot_order_the_terminal_about(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/w.xml").write_text(WORK)
    with narval.open(tmp_path) as agent:
        item = agent.start("w.ask", "<request why='a&#x202e;b&#x9b;31mc'/>")
        agent.until_idle()
    main_end, their_end = pty.openpty()
    given = {"stdin": their_end, "stdout": their_end, "stderr": their_end}
    running = subprocess.Popen(program(tmp_path, "work", "answer", item), **given)
    os.close(their_end)
    os.write(main_end, b"\n")
    written = b""
    try:
        while received := os.read(main_end, 65536):
            written += received
    except OSError:
        pass
    os.close(main_end)
    assert running.wait() in (0, 1)
    text = written.decode()
    assert "why" in text
    assert "\x9b" not in text
    assert "\u202e" not in text
