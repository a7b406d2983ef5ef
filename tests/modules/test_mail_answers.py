"""The shipped assistant answers strangers: one address a mail, one answer an address a day (RFC 3834)."""

from __future__ import annotations

import email
import email.policy
from collections import Counter
from email.message import EmailMessage
from pathlib import Path

import pytest
from lxml import etree

import narval
from narval import SimulatedClock
from narval.surfaces.python.agent import Agent
from tests.acceptance.home import shipped

START = 1_794_326_400.0  # 2026-11-10T16:00:00Z
DAY = 86_400.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The shipped home without mail of its own."""
    shipped(tmp_path / "home")
    for file in (tmp_path / "home/data/demo/Maildir/new").iterdir():
        file.unlink()
    return tmp_path / "home"


def arrive(agent: Agent, **facts: str) -> None:
    """A mail comes in, as its `email` element."""
    given = {"mailbox": "demo", "from": "ana@example.com", "subject": "Hello"} | facts
    root = etree.Element("email", {name.replace("_", "-"): value for name, value in given.items()})
    etree.SubElement(root, "body").text = "Hello"
    agent.add(etree.tostring(root, encoding="unicode"))


def outbox(home: Path) -> list[EmailMessage]:
    """What was sent."""
    files = sorted((home / "var/outbox/new").glob("*"))
    found = [email.message_from_bytes(file.read_bytes(), policy=email.policy.default) for file in files]
    return [mail for mail in found if isinstance(mail, EmailMessage)]


def reasons(agent: Agent) -> Counter[str]:
    return Counter(verdict.attributes["why"] for verdict in agent.memory("triage[@verdict='leave']"))


@pytest.mark.parametrize("header", ["return_path", "from"])
def test_one_mail_is_answered_to_one_address_however_many_it_names(home: Path, header: str) -> None:
    many = " ".join(f"victim{n}@example.net" for n in range(50))
    with narval.open(home) as agent:
        arrive(agent, **{header: many})
        agent.until_idle()
    [answer] = outbox(home)
    assert answer["To"] == "victim0@example.net"
    assert "Cc" not in answer


def test_many_mails_get_one_answer_for_an_address_and_the_others_are_left_alone_and_why(home: Path) -> None:
    with narval.open(home) as agent:
        for number in range(60):
            arrive(agent, **{"from": f"forged{number}@example.org", "return_path": "Victim@example.net"})
        for number in range(5):
            arrive(agent, return_path=f"victim+{number}@example.NET")
        agent.until_idle()
        assert reasons(agent) == {"its sender was answered that day": 64}
        assert not agent.memory("error")
    assert len(outbox(home)) == 1


def test_another_address_and_another_day_are_answered_anew(home: Path) -> None:
    clock = SimulatedClock(START)
    with narval.open(home, clock=clock) as agent:
        arrive(agent)
        arrive(agent)
        arrive(agent, **{"from": "ben@example.com"})
        agent.until_idle()
        assert len(outbox(home)) == 2
        clock.advance(DAY)
        arrive(agent)
        agent.until_idle()
        assert len(outbox(home)) == 3


def test_of_a_stranger_s_subject_and_name_no_more_than_a_line_is_repeated(home: Path) -> None:
    with narval.open(home) as agent:
        arrive(agent, subject="Buy now! " * 100, **{"from-name": "Cheap watches " * 60})
        agent.until_idle()
    [answer] = outbox(home)
    assert answer["Subject"].startswith("Re: Buy now! ")
    assert len(answer["Subject"]) <= len("Re: ") + 78
    assert len(answer.get_content()) < 500
