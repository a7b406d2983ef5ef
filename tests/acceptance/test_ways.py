"""One table of what people answer, played through each way: the rules and the histories are the same (P5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from xml.sax.saxutils import escape

import pytest

import narval as library
from narval.ask.asker import Asker
from narval.core.errors import WorkRefusedError
from narval.surfaces.control.client import Client
from tests.acceptance.home import Narval, make, until
from tests.ask.test_work_by_mail import Post

PEOPLE = """
[people.ann]
mail = ["ann@example.org"]
roles = ["approver"]
[people.ben]
mail = ["ben@example.org"]
roles = ["approver"]
[people.cleo]
roles = ["approver"]
[people.dan]
[people.eve]
[admin]
people = ["eve"]
"""
FORM = """<outcome name="yes"{needs}/><outcome name="no"/>
<field name="why" type="text" required="no">Why</field>
<field name="limit" type="integer" least="0" most="9" default="5"/>"""
WORK = f"""<cookbook group="w">
<work name="one"><title>One</title><for roles="approver" not="requester"/>{FORM.format(needs="")}
<ways names="terminal web file mail chat"/></work>
<work name="two"><title>Two</title><for roles="approver"/>{FORM.format(needs=' needs="2"')}
<ways names="terminal web file mail chat"/></work>
<work name="mail-only"><title>Mail</title><for roles="approver"/>{FORM.format(needs="")}
<ways names="mail"/></work>
<recipe name="fetch" start_step="read" end_step="read">
<step id="read" type="action" target="mail.read"/></recipe>
</cookbook>"""

BY_MAIL = ("who may, answers", "a value", "what is needed", "what is too much", "two people")
"""The rows in which everybody who answers has a mail with a token that counts: others never get so far."""

Act = tuple[str, str, dict[str, str]]
"""A person, an outcome (or another act, which is done beforehand), and fields."""

TABLE: dict[str, tuple[str, str, list[Act], list[str]]] = {
    "who may, answers": ("w.one", "dan", [("ann", "yes", {})], [""]),
    "a value": ("w.one", "dan", [("ann", "no", {"why": "a < b & c"})], [""]),
    "who has it, answers": ("w.one", "dan", [("ann", "claim", {}), ("ann", "yes", {})], [""]),
    "another has it": ("w.one", "dan", [("ben", "claim", {}), ("ann", "yes", {})], ["claimed"]),
    "it is over": ("w.one", "dan", [("ann", "yes", {}), ("ben", "no", {"why": "x"})], ["", "over"]),
    "who asked": ("w.one", "ann", [("ann", "yes", {})], ["excluded"]),
    "an administrator without the role": ("w.one", "dan", [("eve", "yes", {})], ["not-eligible"]),
    "nobody it concerns, who has not seen its text": (
        "w.two",
        "ann",
        [("dan", "yes", {"shown": "00"})],
        ["no-item"],
    ),
    "another outcome": ("w.one", "dan", [("ann", "perhaps", {})], ["no-outcome"]),
    "no outcome": ("w.one", "dan", [("ann", "", {})], ["no-outcome"]),
    "what is needed": ("w.one", "dan", [("ann", "no", {})], ["bad-field"]),
    "what is too much": ("w.one", "dan", [("ann", "yes", {"limit": "10"})], ["bad-field"]),
    "another field": ("w.one", "dan", [("ann", "yes", {"colour": "red"})], ["bad-field"]),
    "another text": ("w.one", "dan", [("ann", "yes", {"shown": "00"})], ["changed"]),
    "two people": ("w.two", "dan", [("ann", "yes", {}), ("ben", "yes", {})], ["", ""]),
    "one person twice": ("w.two", "dan", [("ann", "yes", {}), ("ann", "no", {"why": "x"})], ["", ""]),
    "another way": ("w.mail-only", "dan", [("ann", "yes", {})], ["way-not-allowed"]),
}


NOTICED = ("Offered", "Notified", "NoticeGivenUp", "TokenSpent")
"""Lines that are not of what people do."""


class Way(Protocol):
    """A way: who may be asked anything, and how one answers; the kind of a refusal, or ""."""

    def ask(self, by: str, method: str, **arguments: Any) -> Any: ...

    def answer(self, by: str, item: int, outcome: str, fields: dict[str, str], shown: str) -> str: ...


class Terminal:
    """As a terminal asks: at the socket of the daemon."""

    def __init__(self, narval: Narval) -> None:
        self.narval = narval

    def ask(self, by: str, method: str, **arguments: Any) -> Any:
        with Client(self.narval.home / "var/control.sock", acting_as=by) as client:
            return client.ask(method, **arguments)

    def answer(self, by: str, item: int, outcome: str, fields: dict[str, str], shown: str) -> str:
        try:
            self.ask(by, "answer", item=item, outcome=outcome, fields=fields, shown=shown)
        except WorkRefusedError as error:
            return error.kind
        return ""


class Web(Terminal):
    """A session of the monitor, which asks at the socket too (M67)."""

    def ask(self, by: str, method: str, **arguments: Any) -> Any:
        socket = self.narval.home / "var/control.sock"
        with Client(socket, acting_as=by, session=f"of {by}") as client:
            return client.ask(method, **arguments)


class Chat(Terminal):
    """The program of chats, which asks at the socket in the name of who wrote (C5)."""

    def answer(self, by: str, item: int, outcome: str, fields: dict[str, str], shown: str) -> str:
        socket = self.narval.home / "var/control.sock"
        with Client(socket, acting_as=by, session="chat:phone") as client:
            try:
                client.ask("answer", item=item, outcome=outcome, fields=fields, shown=shown)
            except WorkRefusedError as error:
                return error.kind
        return ""


class InPython(Terminal):
    """A program that opens the home."""

    def ask(self, by: str, method: str, **arguments: Any) -> Any:
        with library.open(self.narval.home, by=by) as agent:
            return agent.ask(method, **arguments)


class Files(Terminal):
    """A file that is moved to `done/`."""

    number = 0

    def answer(self, by: str, item: int, outcome: str, fields: dict[str, str], shown: str) -> str:
        self.number += 1
        name, folder = f"{self.number}.xml", self.narval.home / "work" / by
        inside = "".join(f"<{field}>{escape(value)}</{field}>" for field, value in fields.items())
        text = f'<answer item="{item}" shown="{shown}" outcome="{outcome}">{inside}</answer>'
        scratch = self.narval.write("data/scratch", text)
        scratch.rename(folder / "done" / name)
        reason = folder / "refused" / f"{name}.reason.txt"
        gone = lambda: not any((folder / "done").rglob(f"*{name}"))  # noqa: E731
        until(gone, "it is taken")
        return reason.read_text().split(": ")[1] if reason.exists() else ""


class ByMail:
    """A reply to the mail that somebody was sent."""

    def __init__(self, post: Post) -> None:
        self.post = post

    def ask(self, by: str, method: str, **arguments: Any) -> Any:
        self.post.agent.asker = Asker(by, 0, "python")
        found = self.post.agent.ask(method, **arguments)
        self.post.agent.until_idle()
        return found

    def answer(self, by: str, item: int, outcome: str, fields: dict[str, str], shown: str) -> str:
        mail = next(sent for sent in self.post.sent(by) if f"[{item}-" in str(sent["Subject"]))
        known = len(self.turned_away(item))
        self.post.reply(mail, "\n".join([outcome, *(f"{name}: {text}" for name, text in fields.items())]))
        self.post.take()
        new = self.turned_away(item)[known:]
        return str(new[0]) if new else ""

    def turned_away(self, item: int) -> list[str]:
        return [row["kind"] for row in self.ask("eve", "work_log", item=item) if row["did"] == "TurnedAway"]


@contextmanager
def at_work(way: str, narval: Narval) -> Iterator[Way]:
    if way == "python":
        yield InPython(narval)
        return
    if way == "mail":
        post = Post(narval.home, **{"etc/people.toml": PEOPLE, "recipes/w.xml": WORK})
        with post.open():
            yield ByMail(post)
        return
    with narval.running():
        yield {"file": Files, "web": Web, "chat": Chat}.get(way, Terminal)(narval)


def play(way: str, folder: Path) -> dict[str, Any]:
    """What became of each row of the table, and its history."""
    narval = make(folder, recipes=WORK)
    narval.write("etc/people.toml", PEOPLE)
    found = {}
    with at_work(way, narval) as at:
        if way == "file":
            for name in ("ann", "ben", "dan", "eve"):
                at.ask("eve", "work_folder", person=name)
        for row, (work, by, acts, _) in TABLE.items():
            if way == "mail" and row not in BY_MAIL:
                continue
            item = at.ask(by, "start", name=work)["eid"]
            shown = at.ask("eve", "work_item", item=item)["shown"]
            said = []
            for person, outcome, fields in acts:
                if outcome == "claim":
                    at.ask(person, "claim", item=item)
                    continue
                values = {name: value for name, value in fields.items() if name != "shown"}
                said.append(at.answer(person, item, outcome, values, fields.get("shown", shown)))
            log = [line for line in at.ask("eve", "work_log", item=item) if line["did"] not in NOTICED]
            kept = ("did", "by", "kind", "outcome", "fields", "right")
            found[row] = said, [{key: line.get(key) for key in kept} for line in log]
    return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return {
        way: play(way, tmp_path_factory.mktemp(way))
        for way in ("terminal", "web", "chat", "file", "python", "mail")
    }


@pytest.mark.parametrize("row", TABLE)
def test_P5_each_way_has_the_same_rules_and_the_same_history(
    played: dict[str, dict[str, Any]], row: str
) -> None:
    expected = TABLE[row][3]
    said, history = played["terminal"][row]
    assert said == expected
    assert bool(history) == (expected != ["no-item"]), "all but what one may not even see is recorded"
    assert played["web"][row] == (said, history)
    assert played["chat"][row] == (said, history)
    assert played["file"][row] == (said, history)
    assert played["python"][row] == (said, history)
    if row in BY_MAIL:
        assert played["mail"][row] == (said, history)
