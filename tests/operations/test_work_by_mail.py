"""Work by mail, with Maildirs on both sides: what goes out, what counts as an answer (P60–P68, P86)."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.operations.asker import Asker
from narval.runtime.system.clock import SimulatedClock
from narval.surfaces.python.agent import Agent

PEOPLE = """
[people.ann]
mail = ["ann@example.org", "ann@home.example"]
roles = ["approver"]
[people.ben]
mail = ["ben@example.org"]
roles = ["approver"]
[people.cleo]
mail = ["cleo@example.org"]
roles = ["director"]
[people.dan]
[admin]
roles = ["director"]
"""
WORK = """<cookbook group="w">
<work name="approve">
  <title>Approve {$request/@what}</title>
  <input id="request"><match>request</match></input>
  <for roles="approver"/>
  <outcome name="approve"/><outcome name="reject"/>
  <field name="comment" type="text" required="reject">Why</field>
  <remind after="1d"/>
  <escalate after="2d" roles="director"/>
  <deadline after="5d"/>
  <ways names="terminal mail"/>
</work>
<work name="quiet"><title>Quiet</title><for people="ann"/></work>
<recipe name="fetch" start_step="read" end_step="read">
  <step id="read" type="action" target="mail.read"/>
</recipe>
</cookbook>"""
SETTINGS = '[mail]\nfrom = "narval@example.org"\npath = "out"\n'
TOKEN = re.compile(r"[0-9]+-[a-z2-7]{16}-[a-z2-7]{24}")


class Post:
    """A home that writes to people, and what they write back."""

    def __init__(self, home: Path, **files: str) -> None:
        texts = {"etc/people.toml": PEOPLE, "etc/narval.toml": SETTINGS, "recipes/w.xml": WORK} | files
        for path, text in texts.items():
            file = home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.home, self.clock, self.written = home, SimulatedClock(1_000_000.0), 0

    def open(self) -> Agent:
        self.agent = narval.open(self.home, clock=self.clock)
        return self.agent

    def start(self, name: str = "w.approve", request: str = '<request what="a desk"/>') -> int:
        self.agent.asker = Asker("dan", 0, "python")
        item = self.agent.start(name, request)
        self.agent.until_idle()
        return int(item)

    def sent(self, to: str = "") -> list[EmailMessage]:
        """The mails that went out, oldest first."""
        files = sorted((self.home / "out" / "new").glob("*"), key=lambda file: file.stat().st_mtime_ns)
        found = [email.message_from_bytes(file.read_bytes(), policy=email.policy.default) for file in files]
        return [mail for mail in found if isinstance(mail, EmailMessage) and to in str(mail["To"])]

    def reply(self, to: EmailMessage | str, text: str, sender: str = "", **fields: str) -> None:
        """A mail arrives, which answers another: its subject and its text are quoted below."""
        subject, quoted = (to, "") if isinstance(to, str) else (str(to["Subject"]), quote(to))
        sender = sender or (str(to["To"]) if isinstance(to, EmailMessage) else "ann@example.org")
        self.written += 1
        header = {"From": sender, "Subject": f"Re: {subject}", "Message-ID": f"<{self.written}@example.org>"}
        header |= {"Content-Type": 'text/plain; charset="utf-8"'}
        header |= {name.replace("_", "-"): value for name, value in fields.items()}
        raw = (
            "".join(f"{name}: {value}\n" for name, value in header.items() if value) + f"\n{text}\n\n{quoted}"
        )
        box = self.home / "in"
        for folder in ("new", "cur", "tmp"):
            (box / folder).mkdir(parents=True, exist_ok=True)
        (box / "new" / f"{self.written}.mail").write_bytes(raw.encode())

    def take(self) -> None:
        """The mails that have arrived are read."""
        self.agent.start("w.fetch", '<mailbox path="in" kind="maildir"/>')
        self.agent.until_idle()

    def log(self, item: int) -> list[Any]:
        self.agent.asker = Asker("cleo", 0, "python")
        return list(self.agent.work_log(item))

    def kinds(self, item: int) -> list[str]:
        return [row.get("kind") or row["did"] for row in self.log(item)]


def quote(mail: EmailMessage) -> str:
    return "On a day, narval wrote:\n" + "".join(
        f"> {line}\n" for line in str(mail.get_content()).splitlines()
    )


def token_in(mail: EmailMessage) -> bool:
    return TOKEN.search(str(mail["Subject"])) is not None


def token(mail: EmailMessage) -> str:
    found = {*TOKEN.findall(str(mail["Subject"])), *TOKEN.findall(str(mail.get_content()))}
    assert len(found) == 1
    return str(found.pop())


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    made = Post(tmp_path)
    with made.open():
        yield made


def test_P60_each_who_may_answer_is_sent_the_text_and_how_to_answer(post: Post) -> None:
    item = post.start()
    (ann,), (ben,) = post.sent("ann"), post.sent("ben")
    assert (ann["To"], ben["To"]) == ("ann@example.org", "ben@example.org")
    assert ann["From"] == "narval <narval@example.org>"
    assert str(ann["Subject"]) == f"Approve a desk [{token(ann)}]"
    assert ann["Auto-Submitted"] == "auto-generated"
    assert ann.get_param("format") == "flowed"
    text = post.agent.work_item(item)["text"]
    assert ann.get_content().startswith(text)
    assert "approve\ncomment: …\n" in ann.get_content()
    assert token(ann) != token(ben)
    assert len(token(ann)) == 44 - 2 + len(str(item))
    assert token(ann).startswith(f"{item}-")
    notified = [row for row in post.log(item) if row["did"] == "Notified"]
    assert {(row["to"], row["way"], row["why"]) for row in notified} == {
        ("ann", "mail", "offered"),
        ("ben", "mail", "offered"),
    }
    assert {f"<{row['message']}>" for row in notified} == {ann["Message-ID"], ben["Message-ID"]}
    assert post.start("w.quiet")
    assert len(post.sent()) == 2, "mail is a way only where it is named"


def test_P61_a_person_answers_by_replying(post: Post) -> None:
    item = post.start()
    post.reply(post.sent("ann")[0], "Reject\ncomment: too dear\n\nSee you, Ann")
    post.take()
    answer = post.agent.memory("decision")[0]
    assert answer.attributes["outcome"] == "reject"
    assert (answer.attributes["by"], answer.attributes["way"]) == ("ann", "mail")
    assert answer.tree().findtext("comment") == "too dear"
    assert "TokenSpent" in post.kinds(item)
    (told,) = [mail for mail in post.sent("ben") if "Over" in str(mail["Subject"])]
    assert "it is done by ann" in told.get_content(), "who was written to is told of the end"
    assert len(post.sent("ann")) == 1, "and who ended it is not"
    (mail,) = post.agent.memory("email")
    assert not TOKEN.search(mail.xml.decode()), "no recipe can have a token"
    assert b"[token]" in mail.xml


def test_P63_a_claim_by_mail_spends_the_token_and_brings_another(post: Post) -> None:
    item = post.start()
    first, of_ben = post.sent("ann")[0], post.sent("ben")[0]
    post.reply(first, "claim")
    post.take()
    assert post.agent.work_item(item)["claimed"]["by"] == "ann"
    (second,) = [mail for mail in post.sent("ann") if "You have this" in str(mail["Subject"])]
    post.reply(of_ben, "approve")
    post.take()
    assert "claimed" in post.kinds(item), "it is told who has it"
    post.reply(first, "approve")
    post.take()
    post.reply(first, "approve", sender="ann@home.example")
    post.take()
    assert post.kinds(item).count("token-spent") == 2
    assert len([mail for mail in post.sent("ann") if "Not taken" in str(mail["Subject"])]) == 1, "once"
    post.reply(second, "release")
    post.take()
    assert len(post.sent("ben")) == 3, "it is offered again, with another token"
    assert "token-expired" not in post.kinds(item)
    post.reply(of_ben, "approve")
    post.take()
    assert "token-expired" in post.kinds(item)
    post.reply([mail for mail in post.sent("ben") if token_in(mail)][-1], "approve")
    post.take()
    assert post.agent.work_item(item)["state"] == "done"
