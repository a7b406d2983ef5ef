"""A person answers by a real mail: real servers of SMTP and IMAP, a real daemon, `kill -9` (P60, P61)."""

from __future__ import annotations

import re
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.home import Narval, make, until
from tests.forked_commands import Command
from tests.mail_servers import PASSWORD, Servers
from tests.mail_servers import servers as servers

pytestmark = pytest.mark.timeout(300)

PEOPLE = """
[people.ann]
mail = ["ann@example.org"]
roles = ["approver"]
[people.ben]
mail = ["ben@example.org"]
roles = ["approver"]
[people.dan]
"""
WORK = """<cookbook group="w">
<work name="approve">
  <title>Approve {$request/@what}</title>
  <input id="request"><match>request</match></input>
  <for roles="approver"/>
  <outcome name="approve"/><outcome name="reject"/>
  <field name="comment" type="text" required="reject">Why</field>
  <ways names="terminal mail"/>
</work>
<recipe name="watch" start_step="watch" end_step="watch">
  <step id="watch" type="action" target="mail.watch"/>
</recipe>
</cookbook>"""
TOKEN = re.compile(r"[0-9]+-[a-z2-7]{16}-[a-z2-7]{24}")


@pytest.fixture
def narval(tmp_path: Path, servers: Servers) -> Narval:
    settings = f'[mail]\nfrom = "{tmp_path.name.lower()}@example.org"\nhost = "127.0.0.1"\ntls = "none"\n'
    made = make(tmp_path, recipes=WORK, settings=f"{settings}port = {servers.smtp}\n")
    made.write("etc/people.toml", PEOPLE.replace("ann@", f"ann-{tmp_path.name.lower()}@"))
    made.write("etc/in", PASSWORD).chmod(0o600)
    return made


def account(narval: Narval, servers: Servers) -> bytes:
    where = f'host="127.0.0.1" port="{servers.imap}" tls="none" user="{narval.home.name.lower()}" secret="in"'
    return f'<mailbox kind="imap" {where}/>'.encode()


def begin(narval: Narval) -> Command:
    daemon = narval.daemon()
    assert b"is ready" in daemon.stdout.readline()
    return daemon


def start(narval: Narval, name: str, given: bytes) -> str:
    done = narval("start", name, "-", "--as", "dan", given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def inbox(narval: Narval, servers: Servers) -> list[EmailMessage]:
    return servers.mails(f"ann-{narval.home.name.lower()}")


def reply(to: EmailMessage, text: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = str(to["To"]), str(to["From"]), f"Re: {to['Subject']}"
    mail["In-Reply-To"] = str(to["Message-ID"])
    quoted = "".join(f"> {line}\n" for line in str(to.get_content()).splitlines())
    mail.set_content(f"{text}\n\nOn a day, narval wrote:\n{quoted}")
    return mail


def shown(narval: Narval, item: str) -> Any:
    return narval.ask("work", "show", item)


def log(narval: Narval, item: str) -> list[str]:
    return [row.get("kind") or row["did"] for row in narval.ask("work", "log", item)]


def test_P61_a_person_answers_by_a_real_mail(narval: Narval, servers: Servers) -> None:
    with narval.running():
        start(narval, "w.watch", account(narval, servers))
        item = start(narval, "w.approve", b'<request what="a desk"/>')
        (mail,) = until(lambda: inbox(narval, servers), "a mail to Ann")
        assert mail.get_content().startswith(shown(narval, item)["text"])
        servers.send(reply(mail, "reject\ncomment: too dear"))
        until(lambda: shown(narval, item)["state"] == "done", "her answer")
        (decision,) = narval.ask("memory", "decision")
        assert 'outcome="reject"' in decision["xml"]
        assert 'by="ann"' in decision["xml"]
        assert "<comment>too dear</comment>" in decision["xml"]
        (kept,) = narval.ask("memory", "email")
        assert not TOKEN.search(kept["xml"])


def test_P76_killed_between_all_steps_a_token_counts_once(narval: Narval, servers: Servers) -> None:
    daemon = begin(narval)
    start(narval, "w.watch", account(narval, servers))
    item = start(narval, "w.approve", b'<request what="a desk"/>')
    daemon.kill()
    daemon.communicate()
    daemon = begin(narval)
    mails = until(lambda: inbox(narval, servers), "a mail to Ann")
    answer = reply(mails[0], "claim")
    daemon.kill()
    daemon.communicate()
    servers.send(answer)
    daemon = begin(narval)
    until(lambda: shown(narval, item)["state"] == "claimed", "her claim")
    daemon.kill()
    daemon.communicate()
    servers.send(answer)
    daemon = begin(narval)
    until(lambda: "token-spent" in log(narval, item), "a copy that is turned away")
    assert log(narval, item).count("Claimed") == 1
    until(lambda: "Not taken" in str([mail["Subject"] for mail in inbox(narval, servers)]), "she is told")
    first = [mail for mail in inbox(narval, servers) if str(mail["Subject"]) == str(mails[0]["Subject"])]
    assert len({str(mail["Message-ID"]) for mail in first}) == 1, "a copy is the same mail"
    daemon.terminate()
    daemon.communicate()


def test_P60_P68_a_server_that_is_away_gets_the_same_mail_later(narval: Narval, servers: Servers) -> None:
    settings = (narval.home / "etc/narval.toml").read_text()
    narval.write("etc/narval.toml", settings.replace(str(servers.smtp), "9"))
    with narval.running():
        item = start(narval, "w.approve", b'<request what="a desk"/>')
        until(lambda: "NoticePutOff" in [row["what"] for row in narval.ask("history", item)], "a try in vain")
        assert not inbox(narval, servers)
        assert shown(narval, item)["state"] == "offered"
