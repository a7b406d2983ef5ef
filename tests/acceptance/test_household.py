"""The household that ships, at a daemon: agents ask one another, one is away, the daemon is killed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from narval.files.new_home import create_home
from tests.acceptance.home import Narval, until

MAIL = "From: {0}\nTo: home@example.org\nSubject: {1}\nMessage-ID: <{2}@example.com>\n\nPlease answer.\n"


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    create_home(tmp_path / "home", bare=True)
    narval = Narval(tmp_path / "home")
    assert narval("take", "examples/household").returncode == 0
    return narval


def comes(narval: Narval, subject: str, number: int) -> None:
    narval.write(f"agents/mail/Maildir/new/{number}.example", MAIL.format("eve@example.com", subject, number))


def goes_out(narval: Narval, text: str) -> None:
    """Wait until one mail with that text lies in the outbox."""
    folder = narval.home / "var/outbox/new"
    until(lambda: sum(text in path.read_text() for path in folder.glob("*")) == 1, text)


def asking(narval: Narval) -> list[dict[str, Any]]:
    """The calls of the agent mail at others."""
    return [call for call in narval.ask("status", "--agent", "mail")["calls"] if "calendar" in call["target"]]


def test_G33_G37_an_agent_that_is_away_is_waited_for_and_why_says_so(narval: Narval) -> None:
    with narval.running():
        goes_out(narval, "With pleasure: 2026-12-05")
        goes_out(narval, "On 2026-12-03 I shall have it")
        [answers, *_] = narval.ask("runs", "--agent", "calendar")
        assert b"agent purchases" in narval("show", str(answers["eid"]), "--agent", "calendar").stdout
        narval("agents", "suspend", "calendar")
        comes(narval, "Invitation: theatre on 2026-12-05", 4)
        until(lambda: len(asking(narval)) == 1, "the call")
        [call] = asking(narval)
        [wait] = narval.ask("why", str(call["run"]), "--agent", "mail")["waiting"]
        at = wait["calls"][0]["at"]
        assert (at["agent"], at["state"], at["agent_state"]) == ("calendar", "untaken", "suspended")
        lines = narval.ask("history", str(call["run"]), "--agent", "mail")
        assert [line["of"] for line in lines if "of" in line] == ["calendar"]
        shown = narval("show", str(call["run"]), "--agent", "mail").stdout.decode()
        assert any(line.split()[1:3] == ["ask", "calendar"] for line in shown.splitlines())
        assert {line["agent"] for line in lines} == {"mail"}
        assert b" at agent calendar with " in narval("history", str(call["run"]), "--agent", "mail").stdout
        narval("agents", "resume", "calendar")
        goes_out(narval, "on 2026-12-05 there is dinner")


def test_G34_a_household_that_is_killed_answers_each_mail_once(narval: Narval) -> None:
    for number in range(3):
        daemon = narval.daemon()
        assert daemon.stdout is not None
        daemon.stdout.readline()
        comes(narval, f"Invitation: walk on 2026-12-1{number}", 10 + number)
        narval("agents")
        daemon.send_signal(signal.SIGKILL)
        daemon.communicate()
    with narval.running():
        for number in range(3):
            goes_out(narval, f"With pleasure: 2026-12-1{number}")
        goes_out(narval, "With pleasure: 2026-12-05")
        goes_out(narval, "We are sorry: on 2026-12-01 there is choir")
        goes_out(narval, "On 2026-12-")
