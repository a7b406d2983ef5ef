"""Work by mail, with Maildirs on both sides: what goes out, and what is written back."""

from __future__ import annotations

import email
import email.policy
import re
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import narval
from narval.ask.asker import Asker
from narval.surfaces.python.agent import Agent
from narval.system.clock import SimulatedClock

PEOPLE = """
[people.ann]
mail = ["ann@example.org", "ann@home.example"]
zone = "Europe/Paris"
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
