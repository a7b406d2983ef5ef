"""Answering work at a terminal: what elements hold is text there, and orders nothing (P11)."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import narval
from narval.files.new_home import HomeChoices, create_home, read_mail
from tests.surfaces.cli.command_line import data, program, well
from tests.surfaces.cli.command_line import narval as command

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


def test_an_answer_that_lacks_what_is_required_names_the_option_that_gives_it(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    reason = '<outcome name="ok"/><outcome name="reject"/><field name="why" required="reject">Why</field>'
    (tmp_path / "recipes/w.xml").write_text(
        f'<work group="w" name="ask"><title>Well?</title>{reason}<field name="days" type="integer"/></work>'
    )
    with narval.open(tmp_path) as agent:
        item = agent.start("w.ask")
        agent.until_idle()
    refused = command(tmp_path, "work", "answer", item, "reject")
    assert refused.exit_code == 1
    assert "Why: expected a value, for reject requires it; give it by --set why=TEXT" in refused.stderr
    misused = command(tmp_path, "work", "answer", item, "reject", "--reason", "too dear")
    assert misused.exit_code == 2
    assert "the fields of an answer are given by --set NAME=VALUE" in misused.stderr
    wrong = command(tmp_path, "work", "answer", item, "ok", "--set", "days=two")
    assert "days: expected" in wrong.stderr
    assert "--set days" not in wrong.stderr
    assert well(tmp_path, "work", "answer", item, "reject", "--set", "why=too dear") == (
        f"item {item} is done: reject\n"
    )


def test_what_is_asked_about_a_mail_can_be_read_and_has_the_element_below(tmp_path: Path) -> None:
    box = tmp_path / "Maildir"
    (box / "new").mkdir(parents=True)
    (box / "new/1").write_text("From: Ben <ben@example.com>\nSubject: Hello\nMessage-ID: <1@b>\n\nHi.\n")
    home = create_home(tmp_path / "home", choices=HomeChoices(mailbox=read_mail(str(box)), answer="ask")).path
    assert command(home, "run", "--until-idle").exit_code == 0
    (item,) = [row["item"] for row in data(home, "work")]
    text = well(home, "work", "show", item)
    readable, raw = text.split("It takes mail:")
    assert "| To ben@example.com: Re: Hello\n|\n| Dear Ben,\n" in readable
    assert '| thank you for your message "Hello"' in readable
    assert '| <email kind="ack"' in raw
