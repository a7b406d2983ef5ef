"""What work and actions say to people by chat: recorded once, whole, in time, and over with the item."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from msgspec.structs import replace

import narval
from narval.agent.loop import Request
from narval.ask.asker import CHAT, Asker
from narval.ask.chat import inbox
from narval.ask.operations import invoke
from narval.calls.context import CallContext
from narval.core.errors import RequestError, StoreAwayError
from narval.files.shipped import shipped
from narval.people.chat import boxes
from narval.people.chat.answering import end_of_item
from narval.people.chat.messages import ENDED, Reply
from narval.store.batch import ResultRow
from narval.system.clock import SimulatedClock

PEOPLE = """
ways = ["chat"]
[people.ann]
chat = ["xmpp:ann@example.org"]
roles = ["approver"]
[people.ben]
chat = ["telegram:12", "xmpp:ben@example.org"]
roles = ["approver"]
quiet = "22:00-07:00"
zone = "Europe/Paris"
[people.dan]
"""
SETTINGS = """
timezone = "UTC"
[chats.phone]
kind = "xmpp"
user = "home@example.org"
secret = "CHAT_PASSWORD"
rooms = ["team@rooms.example.org"]
"""
RECIPES = """<cookbook group="w">
<work name="approve">
  <title>Approve {$request/@what}</title>
  <input id="request"><match>request</match></input>
  <for roles="approver"/>
  <outcome name="approve"/><outcome name="reject"/>
  <field name="comment" required="reject">Why</field>
</work>
<work name="soon"><title>Soon</title><for people="ben"/><deadline after="3h"/></work>
<work name="late"><title>Late</title><for people="dan"/><escalate after="1h" people="ben"/></work>
<recipe name="tell" start_step="tell" end_step="tell">
  <step id="tell" type="action" target="notify.tell"/>
</recipe>
<recipe name="remind" start_step="tell" end_step="tell">
  <step id="tell" type="action" target="chat.remind"/>
</recipe>
<recipe name="send" start_step="send" end_step="send">
  <step id="send" type="action" target="chat.send"/>
</recipe>
</cookbook>"""
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC).timestamp()
NIGHT = datetime(2026, 11, 30, 22, 0, tzinfo=UTC).timestamp()


class Home:
    """A home with a chat, whose program is a test."""

    def __init__(self, path: Path, at: float = NOON) -> None:
        texts = {"etc/people.toml": PEOPLE, "etc/narval.toml": SETTINGS, "recipes/w.xml": RECIPES}
        for name, text in texts.items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.path, self.agent = path, narval.open(path, clock=SimulatedClock(at))

    def ask(self, name: str, **given: Any) -> Any:
        return self.agent.runner.run(invoke(self.agent.daemon, Asker(), name, given))

    def ask_as(self, asker: Asker, name: str, **given: Any) -> Any:
        return self.agent.runner.run(invoke(self.agent.daemon, asker, name, given))

    def takes(self, text: str, sender: str = "ann@example.org", at: float | None = None) -> Any:
        """Have a message come that the server got at a moment; what was taken."""
        id = f"m{len(self.ask('chat_inbox', chat='phone')) + 1}"
        message = {"id": id, "position": id, "sender": sender, "place": sender, "text": text, "at": at}
        return self.ask("chat_take", chat="phone", messages=[message], position=id)

    def start(self, name: str, *elements: str) -> int:
        self.agent.asker = Asker("dan", 0, "python")
        item = int(self.agent.start(name, *elements))
        self.agent.until_idle()
        return item

    def asks(self, what: str = "a desk") -> int:
        return self.start("w.approve", f'<request what="{what}"/>')

    def acts(self, person: str, name: str, *given: Any) -> None:
        self.agent.asker = Asker(person, 0, "python")
        getattr(self.agent, name)(*given)
        self.agent.until_idle()

    def outgoing(self) -> list[Any]:
        return list(self.ask("chat_outgoing", chat="phone"))

    def sends(self) -> list[Any]:
        """All that is to be sent is sent; what that was."""
        rows = self.outgoing()
        for row in rows:
            self.ask("chat_sent", chat="phone", id=row["id"], message_ids=[f"k-{row['id']}"])
        return rows


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.agent.close()


def test_C9_the_whole_text_goes_out_with_numbers_and_buttons(home: Home) -> None:
    item = home.asks()
    rows = home.outgoing()
    assert [(row["place"], row["purpose"]) for row in rows] == [
        ("ann@example.org", "asked"), ("ben@example.org", "asked")
    ]  # fmt: skip
    shown = home.agent.work_item(item)
    for row in rows:
        assert row["text"].startswith(shown["text"])
        assert "\n1 approve\n2 reject\n" in row["text"]
        assert "Then you are asked for: Why." in row["text"]
        assert row["shown"] == shown["shown"]
        assert row["buttons"] == (
            (f"{item}.1.{shown['shown'][:8]}", "approve"), (f"{item}.2.{shown['shown'][:8]}", "reject")
        )  # fmt: skip
    assert home.outgoing()[0]["id"] == rows[0]["id"], "it is there until it is sent"


def test_C10_the_end_stands_in_place_of_what_asked(home: Home) -> None:
    item = home.asks()
    asked = home.sends()
    home.acts("ann", "answer", item, "approve")
    ends = home.sends()
    assert [(row["place"], row["purpose"], row["edits"]) for row in ends] == [
        (row["place"], "ended", f"k-{row['id']}") for row in asked
    ]
    assert ends[1]["text"].startswith(f"{item} Approve a desk: it is done by ann since")


def test_C14a_a_telephone_that_is_unlinked_is_told_nothing_more(home: Home) -> None:
    item = home.asks()
    home.sends()
    people = home.path / "etc/people.toml"
    people.write_text(people.read_text().replace("ann@example.org", "ann@elsewhere.example"))
    home.ask("reload")
    home.acts("ben", "answer", item, "approve")
    assert [row["place"] for row in home.sends()] == ["ben@example.org"]
    home.asks("a chair")
    assert [row["place"] for row in home.sends()] == ["ann@elsewhere.example", "ben@example.org"]


def test_C10_a_message_that_nobody_has_begun_to_send_never_comes(home: Home) -> None:
    item = home.asks()
    home.acts("ann", "claim", item)
    assert [row["to"] for row in home.outgoing()] == ["ann"], "ben was not told, and need not be"
    home.acts("ann", "answer", item, "approve")
    assert [(row["to"], row["purpose"]) for row in home.outgoing()] == [
        ("ann", "ended"), ("ann", "ended")
    ], "it was handed to the program, so it may have come"  # fmt: skip


def test_C14a_quiet_hours_hold_back_what_can_wait(tmp_path: Path) -> None:
    home = Home(tmp_path, NIGHT)
    home.asks()
    assert [row["to"] for row in home.sends()] == ["ann"]
    soon = home.start("w.soon")
    late = home.start("w.late")
    assert [row["item"] for row in home.sends()] == [soon], "its deadline falls within them"
    home.start("w.send", '<chat-out to="ben">Hello</chat-out>')
    home.start("w.remind", '<reminder at="2026-11-30T22:00:00Z" person="ben" chat="phone">bins</reminder>')
    (row,) = home.sends()
    assert (row["text"], row["purpose"]) == ("Reminder: bins", "reminder"), "he set it himself"
    home.agent.elapse(hours=1)
    assert [row["item"] for row in home.sends()] == [late], "an escalation comes"
    home.agent.elapse(hours=7)
    texts = [row["text"] for row in home.sends()]
    assert texts[0].startswith("w.approve asks")
    assert texts[1] == "Hello"
    assert texts[2].startswith(f"{soon} Soon: it is expired")
    home.agent.close()


def test_C9_what_quiet_hours_hold_back_is_not_answered_after_a_restart(tmp_path: Path) -> None:
    home = Home(tmp_path, NIGHT)
    item = home.asks()
    assert [row["to"] for row in home.sends()] == ["ann"]
    home.agent.close()
    home = Home(tmp_path, NIGHT + 60)
    (taken,) = home.takes("yes", "ben@example.org")
    assert home.ask("chat_asked", chat="phone", message=taken["number"])["asked"] == []
    home.acts("ann", "answer", item, "approve")
    home.sends()
    home.agent.elapse(hours=8)
    assert home.outgoing() == [], "ben was not asked, and need not be told"
    home.agent.close()


def test_C8_a_request_is_done_though_the_files_have_changed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (taken,) = home.takes("in 1h: the oven")
    monkeypatch.setattr(type(home.agent.daemon), "follows_files", True)
    copy(shipped() / "recipes/reminders.xml", home.path / "recipes")
    once = Asker("ann", 0, CHAT, "phone", once=f"phone/{taken['number']}")
    home.ask_as(once, "remind", text="in 1h: the oven")
    assert [row["text"] for row in home.ask_as(Asker("ann", 0, CHAT, "phone"), "reminders")] == ["the oven"]
    with pytest.raises(RequestError, match="is dealt with already"):
        home.ask_as(once, "remind", text="in 1h: the oven")


def test_C10_an_end_in_the_turn_in_which_a_message_is_sent_stays(home: Home) -> None:
    items, host = (home.asks(), home.asks("a chair")), home.agent.daemon.host
    first, second = (row["id"] for row in home.outgoing() if row["to"] == "ann")
    box, about = host.chats.box("phone"), Reply(text="over", to="ann", purpose=ENDED)
    for item, id, name, more in (
        (items[0], first, "chat_begun", {}),
        (items[1], second, "chat_sent", {"message_ids": ["k"]}),
    ):
        over = partial(end_of_item, box=box, id=f"end {item}", reply=replace(about, item=item))
        host.post(Request(over))
        home.ask(name, chat="phone", id=id, **more)
    assert {one.purpose for one in box.outbox.values() if one.to == "ann"} == {ENDED}
    assert box.outbox[first].begun == 1
    assert box.sent["k"].purpose == ENDED


def test_boxes_that_were_read_in_part_are_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.takes("hello")
    agent = home.agent.daemon.host.agent
    chats, results = boxes.ChatBoxes(agent, SimulatedClock(NOON)), agent.store.results

    def is_away(scope: str, *most: int) -> list[ResultRow]:
        if scope.endswith(boxes.SEEN):
            raise StoreAwayError("the store is away")
        return list(results(scope, *most))

    monkeypatch.setattr(agent.store, "results", is_away)
    with pytest.raises(StoreAwayError):
        chats.box("phone")
    monkeypatch.undo()
    box = chats.box("phone")
    assert [taken.message.text for taken in box.inbox.values()] == ["hello"]
    assert list(box.seen) == ["ann@example.org m1"]


def test_C12_what_cannot_be_sent_is_given_up_after_a_day(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    home.start("w.send", '<chat-out to="ann">Hello</chat-out>')
    (row,) = home.outgoing()
    tries = 0
    while row["id"] in {each["id"] for each in home.outgoing()}:
        home.ask("chat_unsent", chat="phone", id=row["id"], why="no such room")
        home.agent.elapse(hours=1)
        tries += 1
        assert tries < 50
    assert tries == 34
    assert "a message to ann by phone is given up: no such room" in caplog.text


def test_C12_what_has_no_place_is_given_up_after_a_day(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.start("w.send", '<chat-out to="ann">Hello</chat-out>')
    people = home.path / "etc/people.toml"
    people.write_text(people.read_text().replace('chat = ["xmpp:ann@example.org"]', ""))
    home.ask("reload")
    home.agent.elapse(hours=23)
    assert home.outgoing() == []
    assert [row["outbox"] for row in home.ask("chats")] == [1]
    home.agent.elapse(hours=2)
    assert home.outgoing() == []
    assert [row["outbox"] for row in home.ask("chats")] == [0]
    assert "a message to ann by phone is given up: its person has no address there" in caplog.text


def test_C3_of_strangers_nothing_is_recorded_and_of_people_the_last_messages(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, "MOST_SEEN", 4)
    box = home.agent.daemon.host.chats.box("phone")
    for first in (0, 10, 20):
        messages = [
            {"id": f"{sender}{first + n}", "position": "1", "sender": sender, "place": sender, "text": "x"}
            for n in range(5)
            for sender in ("ann@example.org", "eve@example.org")
        ]
        home.ask("chat_take", chat="phone", messages=messages, position=str(first))
        assert not [key for key in box.seen if key.startswith("eve")]
    assert len(box.seen) <= 4 + 5


def test_C3_messages_of_strangers_push_out_none_of_people(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, "MOST_SEEN", 4)
    settings = home.path / "etc/narval.toml"
    settings.write_text(f'{SETTINGS}strangers = "element"\n')
    home.ask("reload")

    def takes(sender: str, *ids: str) -> list[Any]:
        about = {"position": "1", "sender": sender, "place": sender, "text": "x"}
        messages = [{"id": id, **about} for id in ids]
        return list(home.ask("chat_take", chat="phone", messages=messages, position=ids[-1]))

    assert len(takes("ann@example.org", "a1")) == 1
    for number in range(9):
        takes("eve@example.org", f"e{number}")
    assert takes("ann@example.org", "a1") == [], "the server has repeated it"
    assert len(home.agent.daemon.host.chats.box("phone").strange) == 4
    takes("eve@example.org", "e8")
    assert len(home.agent.memory("chat-message")) == 9


def test_C5_more_than_may_wait_is_told_once(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(inbox, "MOST_WAITING", 2)
    messages = [
        {"id": f"m{n}", "position": "1", "sender": "ann@example.org", "place": "ann@example.org"}
        for n in range(9)
    ]
    assert len(home.ask("chat_take", chat="phone", messages=messages, position="1")) == 2
    assert caplog.text.count("no more are taken") == 1


def test_C11_an_action_sends_to_people_and_rooms_once(home: Home) -> None:
    home.start("w.send", '<chat-out to="ann">The \u202eoven is hot.</chat-out>')
    home.start("w.send", '<chat-out to="team@rooms.example.org">*hot*</chat-out>')
    rows = home.sends()
    assert [(row["place"], row["text"], row["purpose"]) for row in rows] == [
        ("ann@example.org", "The \\u{202e}oven is hot.", "send"),
        ("team@rooms.example.org", "*hot*", "send"),
    ]
    assert [element.attributes["to"] for element in home.agent.memory("chat-sent")] == [
        "ann", "team@rooms.example.org"
    ]  # fmt: skip
    assert not home.outgoing()


def test_C12_a_call_that_is_made_again_sends_once(home: Home) -> None:
    main_loop, call = home.agent.daemon.main_loop, CallContext("a.7", 7, "send")

    async def send() -> None:
        sending = asyncio.ensure_future(home.agent.daemon.host.chat_outbox.send(call, "ann", "Hello"))
        await asyncio.sleep(0)
        await main_loop.run(until_idle=True)
        await sending

    for _ in range(2):
        home.agent.runner.run(send())
    assert [row["id"] for row in home.sends()] == ["a.7"]
    home.agent.runner.run(send())
    assert not home.outgoing(), "nor once it is sent"


def test_C11_a_notice_goes_by_chat(home: Home) -> None:
    home.start("w.tell", '<notice subject="Failed">so</notice>', '<notify way="chat" to="ann"/>')
    (row,) = home.sends()
    assert (row["place"], row["text"]) == ("ann@example.org", "Failed\nso")
    home.start("w.tell", '<notice subject="Failed">so</notice>', '<notify way="chat"/>')
    (error,) = home.agent.memory("error")
    assert "a notice by chat needs to=" in error.text


def test_C12_a_call_that_is_made_again_at_another_chat_sends_once(home: Home) -> None:
    main_loop, call = home.agent.daemon.main_loop, CallContext("a.7", 7, "send")

    async def send() -> None:
        sending = asyncio.ensure_future(home.agent.daemon.host.chat_outbox.send(call, "ben", "Hello"))
        await asyncio.sleep(0)
        await main_loop.run(until_idle=True)
        await sending

    home.agent.runner.run(send())
    settings = home.path / "etc/narval.toml"
    settings.write_text(SETTINGS + '[chats.second]\nkind = "telegram"\nsecret = "TELEGRAM_TOKEN"\n')
    home.ask("reload")
    home.agent.runner.run(send())
    assert [row["id"] for row in home.outgoing()] == ["a.7"]
    assert not home.ask("chat_outgoing", chat="second")


@pytest.mark.parametrize(
    ("element", "error"),
    [
        (
            '<chat-out to="bob">x</chat-out>',
            "there is no person 'bob', and no room of [chats.NAME]; there is 'ann', 'ben'",
        ),
        ('<chat-out to="eve@example.org">x</chat-out>', "there is no person 'eve@example.org'"),
        (
            '<chat-out to="dan">x</chat-out>',
            "dan has no address at a chat of this home: `narval chat link dan`",
        ),
        ('<chat-out to="ann"/>', "expected a text, got none"),
        (f'<chat-out to="ann">{"x" * 4001}</chat-out>', "at most 4,000 characters, got 4,001"),
    ],
)
def test_C11_nobody_else_is_written_to(home: Home, element: str, error: str) -> None:
    home.start("w.send", element)
    (found,) = home.agent.memory("error")
    assert error in found.text
    assert not home.outgoing()


def test_C9_a_message_that_is_being_sent_may_be_answered_already(home: Home) -> None:
    item = home.asks()
    assert home.outgoing()
    (taken,) = home.takes("1")
    about = home.ask("chat_asked", chat="phone", message=taken["number"])
    assert [asked["item"] for asked in about["asked"]] == [item]


def test_C9_a_message_written_before_its_person_was_asked_answers_no_item(home: Home) -> None:
    def is_early(taken: Any) -> bool:
        return bool(home.ask("chat_asked", chat="phone", message=taken["number"])["early"])

    (waited,) = home.takes("1")
    home.asks()
    assert is_early(waited), "it waited here while something was asked"
    home.sends()
    assert is_early(waited)
    (late,) = home.takes("1", at=NOON - 60)
    assert is_early(late), "it waited at the server"
    (after,) = home.takes("1", at=NOON - 1)
    assert not is_early(after), "a server may give whole seconds"
    (unknown,) = home.takes("1")
    assert not is_early(unknown)
