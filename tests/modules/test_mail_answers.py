"""The shipped assistant answers strangers: one address a mail, one answer an address a day (RFC 3834)."""

from __future__ import annotations

import email
import email.policy
import re
from collections import Counter
from email.message import EmailMessage
from pathlib import Path

import aiosmtplib
import pytest
from lxml import etree

import narval
from narval import SimulatedClock
from narval.files.check import check_home
from narval.files.home import Home
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
    body = facts.pop("body", "Hello")
    given = {"mailbox": "demo", "from": "ana@example.com", "subject": "Hello"} | facts
    root = etree.Element("email", {name.replace("_", "-"): value for name, value in given.items()})
    etree.SubElement(root, "body").text = body
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
    clock = SimulatedClock(START)
    with narval.open(home, clock=clock) as agent:
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


def test_another_answer_for_other_mails_is_one_rule_and_one_template(home: Path) -> None:
    memory = home / "data/memory.xml"
    rule = """<rule order="50" when="email[contains(@subject, 'invoice')]" verdict="{verdict}" why="-"
      template="invoices"/>""".format
    text = memory.read_text().replace(
        "</memory>",
        f"""{rule(verdict="acknowledge")}
      <ack-template name="invoices">It will be paid, {{from-name}}.</ack-template></memory>""",
    )
    memory.write_text(text)
    with narval.open(home) as agent:
        arrive(agent, subject="Your invoice")
        arrive(agent, **{"from": "ben@example.com"})
        agent.until_idle()
        answers = {mail["To"]: mail.get_content() for mail in outbox(home)}
        assert answers["ana@example.com"].strip() == "It will be paid, ana@example.com."
        assert "It has arrived and will be read" in answers["ben@example.com"]
    memory.write_text(text.replace('template="invoices"', 'template="invoice"'))
    (fault,) = check_home(Home(home))
    assert (fault.path, fault.message) == (
        "data/memory.xml",
        "template: there is no ack-template of the name 'invoice'; did you mean 'invoices'?",
    )


def test_who_is_asked_about_an_answer_is_shown_the_mail_that_it_is_to(home: Path) -> None:
    long = "A long letter. " * 2_000
    with narval.open(home, clock=SimulatedClock(START)) as agent:
        arrive(agent, subject="Before", **{"from": "ben@example.com"})
        arrive(agent, subject="Prices", reply_to="otto@example.com", body=long)
        arrive(agent, subject="After", **{"from": "eva@example.com"})
        agent.until_idle()
        (item,) = agent.ask("worklist", every=True)
        text = agent.ask("work_item", item=item["item"])["text"]
    assert (
        "| It is asked, because it wants its answers elsewhere. The mail that this answers is from ana@"
        in text
    )
    _, _, about = text.partition("\nInput mail: element ")
    assert "the first 16,384 of 30," in about.partition("\n")[0]
    assert 'reply-to="otto@example.com"' in about
    assert "A long letter." in about
    assert "Input verdict: element " in about


# --- the server is away -----------------------------------------------------------------------------------

SMTP = '<outbox name="out" kind="smtp" host="127.0.0.1" tls="none"/>'


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """The server of the outbox: it has the last of these troubles, none when there is none, and counts."""
    memory = home / "data/memory.xml"
    memory.write_text(memory.read_text().replace('<outbox kind="maildir" path="var/outbox"/>', SMTP))
    troubles: list[Exception] = []

    async def send(*_: object, **__: object) -> tuple[dict[str, object], str]:
        if troubles:
            raise troubles[-1]
        return {}, "taken"

    monkeypatch.setattr(aiosmtplib, "send", send)
    return troubles


AWAY = aiosmtplib.SMTPConnectError("Error connecting to 127.0.0.1 on port 25")


def test_N29_a_server_that_is_away_for_an_hour_gets_the_mail_when_it_is_back(
    home: Path, server: list[Exception]
) -> None:
    clock = SimulatedClock(START)
    server.append(AWAY)
    with narval.open(home, clock=clock) as agent:
        arrive(agent)
        agent.until_idle()
        clock.advance(3_600)
        agent.until_idle()
        assert not agent.memory("sent | error")
        server.clear()
        clock.advance(3 * 3_600)
        agent.until_idle()
        assert len(agent.memory("sent")) == 1
        assert not agent.memory("error")


def test_a_mail_given_up_after_hours_is_an_error_that_names_the_command_which_sends_it(
    home: Path, server: list[Exception]
) -> None:
    clock = SimulatedClock(START)
    server.append(AWAY)
    with narval.open(home, clock=clock) as agent:
        arrive(agent)
        agent.until_idle()
        for _ in range(12 * 60):
            clock.advance(60)
            agent.until_idle()
        [error] = agent.memory("error")
        assert error.attributes["type"] == "not-sent"
        [command] = re.findall(r"`narval retry ([0-9]+)`", error.text)
        server.clear()
        agent.wait(agent.retry(int(command)))
        [sent] = agent.memory("sent")
        assert sent.attributes["to"] == "ana@example.com"


@pytest.mark.parametrize(
    "trouble",
    [
        aiosmtplib.SMTPRecipientsRefused(
            [aiosmtplib.SMTPRecipientRefused(550, "no such user", "a@b.example")]
        ),
        aiosmtplib.SMTPDataError(554, "no"),
    ],
)
def test_what_a_server_refuses_for_good_is_told_at_once(
    home: Path, server: list[Exception], trouble: Exception
) -> None:
    server.append(trouble)
    with narval.open(home, clock=SimulatedClock(START)) as agent:
        arrive(agent)
        agent.until_idle()
        [error] = agent.memory("error")
        assert "narval retry" in error.text


@pytest.mark.parametrize(
    "trouble",
    [
        aiosmtplib.SMTPRecipientsRefused([aiosmtplib.SMTPRecipientRefused(451, "later", "a@b.example")]),
        aiosmtplib.SMTPSenderRefused(421, "busy", "me@example.org"),
        aiosmtplib.SMTPAuthenticationError(535, "wrong password"),
        ConnectionResetError("reset"),
    ],
)
def test_N29_what_may_pass_is_tried_again(home: Path, server: list[Exception], trouble: Exception) -> None:
    server.append(trouble)
    with narval.open(home, clock=SimulatedClock(START)) as agent:
        arrive(agent)
        agent.until_idle()
        assert not agent.memory("error")


# --- several mailboxes ------------------------------------------------------------------------------------

MAIL = """From: ana@example.com
To: assistant@example.org
Subject: hello
Message-ID: <one@example.com>

hello
"""


def test_N28_a_mailbox_that_fails_is_tried_again_while_another_works(home: Path) -> None:
    clock, mbox = SimulatedClock(START), home / "second.mbox"
    mbox.mkdir()
    settings = home / "etc/narval.toml"  # what is added later than the files is not granted there
    settings.write_text(settings.read_text().replace('grants = "ask"', 'grants = "trust"'))
    with narval.open(home, clock=clock) as agent:
        agent.add(f'<mailbox name="second" kind="mbox" path="{mbox}"/>')
        agent.until_idle()
        assert [error.attributes["step"] for error in agent.memory("error")] == ["watch"]
        mbox.rmdir()
        mbox.write_text(f"From ana@example.com Tue Nov 10 16:00:00 2026\n{MAIL}")
        clock.advance(60)
        agent.until_idle()
        assert [mail.attributes["mailbox"] for mail in agent.memory("email[not(@kind)]")] == ["second"]
        assert len([run for run in agent.runs() if run["name"] == "mail.watch"]) == 1, "the other went on"
