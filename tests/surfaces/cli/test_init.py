"""The command init: questions at a terminal, options for scripts, and the demo put into a home."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from lxml import etree

from narval.files.settings import Settings
from narval.surfaces.cli import main
from tests.surfaces.cli.command_line import data, narval, well


@pytest.fixture
def owner(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who has a Maildir."""
    for part in ("new", "cur", "tmp"):
        (tmp_path / "ann" / "Maildir" / part).mkdir(parents=True)
    known = {name: value for name, value in os.environ.items() if name not in ("MAIL", "MAILDIR")}
    return known | {"HOME": str(tmp_path / "ann"), "EMAIL": "ann@example.org", "TZ": "Europe/Paris"}


class Dialogue:
    """A command at a terminal: what it writes, and what is typed."""

    def __init__(self, environment: dict[str, str], *arguments: object) -> None:
        self._ours, theirs = pty.openpty()
        line = [sys.executable, "-m", "narval", *map(str, arguments)]
        self.program = subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self._written = ""

    def until(self, text: str) -> str:
        """What is written up to a text."""
        while text not in self._written:
            self._written += os.read(self._ours, 4096).decode().replace("\r\n", "\n")
        before, _, self._written = self._written.partition(text)
        return before + text

    def answer(self, prompt: str, text: str) -> str:
        """What is written up to a prompt, which is answered by a line."""
        written = self.until(f"  {prompt}") + self.until("]: ")
        os.write(self._ours, f"{text}\n".encode())
        return written

    def rest(self) -> str:
        """What is written up to the end."""
        with suppress(OSError):  # the terminal is closed
            while read := os.read(self._ours, 4096):
                self._written += read.decode()
        os.close(self._ours)
        return self._written.replace("\r\n", "\n")


@contextmanager
def dialogue(environment: dict[str, str], *arguments: object) -> Iterator[Dialogue]:
    """A command at a terminal, ended in any case."""
    at_work = Dialogue(environment, *arguments)
    try:
        yield at_work
    finally:
        at_work.program.kill()
        at_work.program.wait()


def declared(home: Path) -> etree._Element:
    """What `data/memory.xml` declares."""
    return etree.parse(home / "data" / "memory.xml").getroot()


def verdicts(home: Path) -> dict[str, str]:
    """The verdicts of the rules."""
    return {str(rule.get("name")): str(rule.get("verdict")) for rule in declared(home).iterfind("rule")}


def test_at_a_terminal_three_questions_make_a_home_of_the_mail_that_is_found(
    tmp_path: Path, owner: dict[str, str]
) -> None:
    home = tmp_path / "home"
    with dialogue(owner, "init", home) as typed:
        assert f"[{tmp_path}/ann/Maildir]: " in typed.answer("mail", "")
        assert "[Europe/Paris]: " in typed.answer("zone", "")
        assert "(nothing, ask, acknowledge) [nothing]: " in typed.answer("answer", "")
        assert f"{home} is a home; start it: narval --home {home} run\n" in typed.rest()
        assert typed.program.wait() == 0
    mailbox = declared(home).find("mailbox")
    assert mailbox is not None
    given = dict(mailbox.attrib)
    assert datetime.now(UTC) - datetime.fromisoformat(given.pop("since")) < timedelta(hours=1)
    assert given == {"name": "mail", "kind": "maildir", "path": f"{tmp_path}/ann/Maildir"}
    assert verdicts(home)["people"] == verdicts(home)["elsewhere"] == "leave"
    assert Settings.load(home).timezone == "Europe/Paris"
    assert declared(home).find("feed") is None
    assert not (home / "data" / "demo").exists()
    assert data(home, "check") == []


def test_what_cannot_be_is_asked_again_with_what_was_expected(tmp_path: Path, owner: dict[str, str]) -> None:
    home = tmp_path / "home"
    with dialogue(owner, "init", home) as typed:
        typed.answer("mail", "/no/where")
        typed.answer("mail", "ann@example.org")
        typed.answer("mail", "imaps://imap.example.org")
        said = typed.answer("mail", "imaps://ann@example.org@imap.example.org:1993/Lists")
        assert "expected imaps://USER@HOST" in said
        typed.answer("zone", "Europe/Pariss")
        assert "did you mean Europe/Paris?" in typed.answer("zone", "UTC")
        typed.answer("answer", "perhaps")
        assert "'perhaps' is not one of" in typed.answer("answer", "ask")
        told = typed.rest()
        assert typed.program.wait() == 0
    assert f"(umask 077; cat > {home}/etc/mail-password)\n" in told
    assert "answers come from ann@example.org and stay in" in told
    mailbox = declared(home).find("mailbox")
    assert mailbox is not None
    given = dict(mailbox.attrib)
    assert given.pop("since").startswith(f"{datetime.now(UTC):%Y-}")
    assert given == {
        "name": "mail", "kind": "imap", "host": "imap.example.org", "port": "1993", "tls": "implicit",
        "user": "ann@example.org", "secret": "mail-password", "folder": "Lists",
    }  # fmt: skip
    assert verdicts(home)["people"] == "ask"
    assert data(home, "check") == []


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_an_interrupt_leaves_nothing_half_made(tmp_path: Path, owner: dict[str, str], answered: int) -> None:
    with dialogue(owner, "init", tmp_path / "deep" / "home") as typed:
        for prompt in ("mail", "zone")[:answered]:
            typed.answer(prompt, "")
        typed.until(("  mail", "  zone", "  answer")[answered])
        typed.until("]: ")
        while typed.program.poll() is None:  # one that comes before it reads the terminal is not seen there
            typed.program.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                typed.program.wait(5)
        assert "nothing was made" in typed.rest()
        assert typed.program.wait() == 130
    assert not (tmp_path / "deep").exists()


def test_nothing_is_asked_where_a_home_is_already_or_options_say_it(
    tmp_path: Path, owner: dict[str, str]
) -> None:
    home = tmp_path / "home"
    with dialogue(owner, "init", home, "--mail", "none", "--zone", "UTC") as typed:
        assert "is a home; start it" in typed.rest()
    assert declared(home).find("mailbox") is None
    with dialogue(owner, "init", home) as typed:
        assert f"is a home already; start it: narval --home {home} run" in typed.rest()
    with dialogue(owner, "init", tmp_path / "demo", "--demo") as typed:
        assert "is a home; start it" in typed.rest()
    assert (tmp_path / "demo" / "data" / "demo").is_dir()


def test_options_say_it_to_scripts(tmp_path: Path) -> None:
    home, box = tmp_path / "home", tmp_path / "old.mbox"
    box.write_text("From ann@example.org Mon Nov  2 13:15:38 2026\n\nHello\n")
    made = data(home, "init", home, "--mail", box, "--zone", "Asia/Tokyo", "--answer", "acknowledge")
    assert made == {"home": str(home)}
    assert [box.get("kind") for box in declared(home).iterfind("mailbox")] == ["mbox"]
    assert verdicts(home)["people"] == "acknowledge"
    assert Settings.load(home).timezone == "Asia/Tokyo"
    server = data(tmp_path, "init", tmp_path / "second", "--mail", "imap://ann@localhost")
    assert server["secret"] == f"{tmp_path}/second/etc/mail-password"
    for wrong, said in (
        (("--mail", tmp_path), "is another folder"),
        (("--zone", "Mars"), "expected the name of a time zone"),
        (("--answer", "all"), "is not one of"),
        (("--bare", "--mail", "demo"), "--demo and --bare exclude each other"),
    ):
        refused = narval(tmp_path, "init", tmp_path / "third", *wrong)
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert not (tmp_path / "third").exists()


def test_a_home_of_a_maildir_answers_what_comes_and_nothing_that_came_before(
    tmp_path: Path, owner: dict[str, str]
) -> None:
    home, box = tmp_path / "home", Path(owner["HOME"]) / "Maildir"

    def arrives(name: str, sender: str) -> None:
        (box / name).write_text(f"From: {sender}\nSubject: Hello\nMessage-ID: <{sender}>\n\nHi.\n")

    arrives("new/1", "old@example.com")
    os.utime(box / "new/1", (time.time() - 60,) * 2)
    runner = CliRunner(env=owner)
    line = ["init", str(home), "--mail", str(box), "--answer", "acknowledge", "--zone", "UTC"]
    made = runner.invoke(main, line)
    assert made.exit_code == 0
    assert "what came to its mailbox before now is not read, and not answered" in made.stdout
    assert f"narval --home {home} simulate mail.triage --mails {box}\n" in made.stdout
    arrives("new/2", "new@example.com")
    arrives("cur/3:2,S", "seen@example.com")
    arrives("cur/4:2,RS", "answered@example.com")
    ran = runner.invoke(main, ["--home", str(home), "run", "--until-idle"])
    assert ran.exit_code == 0
    assert "mailbox mail: 1 mail lies there that was delivered before" in ran.stderr
    assert f"narval --home {home} simulate mail.triage --mails {box}\n" in ran.stderr
    (answer,) = (home / "var" / "outbox" / "new").iterdir()
    assert "ann@example.org" in answer.read_text()
    assert "new@example.com" in answer.read_text()
    whys = {row["xml"] for row in data(home, "memory", "triage")}
    assert len(whys) == 3
    assert any("you have seen it already" in xml for xml in whys)
    assert any("you have answered it already" in xml for xml in whys)
    assert "old@example.com: Re: Hello" in well(home, "simulate", "mail.triage", "--mails", box)
    memory = home / "data/memory.xml"
    memory.write_text(re.sub('since="[^"]*"', 'since="yesterday"', memory.read_text()))
    assert "since: expected a date, found 'yesterday'" in narval(home, "check").stdout


# --- the demo into a home that is there -------------------------------------------------------------------


def test_the_demo_is_added_to_a_bare_home_which_answers_then(tmp_path: Path) -> None:
    home = tmp_path / "home"
    well(home, "init", home, "--bare")
    (home / "data" / "memory.xml").write_text("<memory><todo/></memory>")
    added = data(home, "init", "--demo", home)
    assert added["left"] == []
    assert {"recipes/mail.xml", "data/memory.xml", "scenarios/triage.xml"} <= set(added["added"])
    assert data(home, "check") == []
    assert declared(home)[0].tag == "todo"
    narval(home, "run", "--until-idle")
    assert len(list((home / "var" / "outbox" / "new").iterdir())) == 36
    again = well(home, "init", "--demo", home)
    assert again == "nothing was added\n"


def test_the_demo_alters_nothing_and_says_what_it_left_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    well(home, "init", home, "--bare")
    mine = (home / "recipes" / "own.xml", home / "recipes" / "digest.page.xsl")
    mine[0].write_text((Path(__file__).parents[3] / "recipes" / "feeds.xml").read_text())
    mine[1].write_text("<mine/>")
    outbox = '<outbox kind="smtp" host="smtp.example.org"/>'
    (home / "data" / "memory.xml").write_text(f"<memory>\n  {outbox}\n</memory>\n")
    before = [path.read_text() for path in mine]
    told = well(home, "init", "--demo", home)
    assert [path.read_text() for path in mine] == before
    assert "left out: recipes/digest.page.xsl (there is another of this name)\n" in told
    assert "left out: recipes/feeds.xml (feeds." in told
    assert "is in recipes/own.xml)\n" in told
    assert "left out: mailbox demo (this home has mail of its own)\n" in told
    names = {child.tag for child in declared(home)}
    assert {"outbox", "feed", "counter", "start-plan"} <= names
    assert not {"mailbox", "rule"} & names
    (home / "data" / "memory.xml").write_text("<memory>")
    assert "left out: data/memory.xml (it has faults: narval check)" in well(home, "init", "--demo", home)
