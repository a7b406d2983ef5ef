"""The core of chat: messages are taken, dealt with, and answered, once (C4, C7, C12, C16)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import DaemonGoneError, OperatorError
from narval.files.outside.chats import ChatSettings
from narval.surfaces.chat import connection
from narval.surfaces.chat.contract import ChatError
from narval.surfaces.chat.program import alone
from tests.daemon.at_work import in_a_loop
from tests.surfaces.chat.at_work import chat_at_work, make_chat_home


@in_a_loop
async def test_C4_a_command_is_answered_and_what_is_none_becomes_an_element(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        assert "status" in await chat.says("help")
        assert "runs under way" in await chat.says("Status")
        assert "nothing waits for it" in await chat.says("the kettle is on")
        (xml,) = [row["xml"] for row in (await chat.ask("elements", xpath="chat-message"))["elements"]]
        attributes = 'person="ann" chat="phone" thread="ann@example.org" eid="1"'
        assert xml == f"<chat-message {attributes}>the kettle is on</chat-message>"
        await chat.settled()


@in_a_loop
async def test_C17_a_stranger_for_whose_message_memory_has_no_room_keeps_nobody_from_the_chat(
    tmp_path: Path,
) -> None:
    home = make_chat_home(tmp_path, 'strangers = "element"\n[agent]\nelement_bytes = 2000\n')
    async with chat_at_work(home) as chat:
        await chat.service.write("short", "eve@example.org")
        await chat.service.write("long " * 1000, "eve@example.org")
        assert "runs under way" in await chat.says("status")
        assert len((await chat.ask("elements", xpath="chat-message"))["elements"]) == 1
        await chat.settled()


@in_a_loop
async def test_C16_a_chat_that_is_broken_is_told(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path), begin=False) as chat:
        assert [row["state"] for row in await chat.ask("chats")] == ["unknown"]
        chat.service.refusal = ChatError("the login is refused", final=True)
        chat.begin()
        while (row := (await chat.ask("chats"))[0])["state"] != "broken":
            await asyncio.sleep(0.01)
        assert row["fault"] == "the login is refused"
        (told,) = [one for one in await chat.ask("attention") if one["what"] == "chat"]
        assert told["text"] == "the chat phone is not connected: the login is refused"


@in_a_loop
async def test_C16_a_chat_is_connected_once_the_service_has_accepted_the_session(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path), begin=False) as chat:
        chat.service.accepts.clear()
        chat.service.warning = "the room team cannot be joined"
        chat.begin()
        message = {"id": "m1", "position": "1", "sender": "ann@example.org", "place": "ann@example.org"}
        (taken,) = await chat.ask("chat_take", chat="phone", messages=[message], position="1")
        await chat.ask("chat_reply", chat="phone", message=taken["number"], replies=[{"text": "hello"}])
        await chat.service.answers()
        while (await chat.ask("chats"))[0]["outbox"]:
            await asyncio.sleep(0.01)
        assert [row["state"] for row in await chat.ask("chats")] == ["unknown"], "to send is not to listen"
        assert chat.service.opened == 1
        chat.service.accepts.set()
        while (row := (await chat.ask("chats"))[0])["state"] != "connected":
            await asyncio.sleep(0.01)
        assert row["warning"] == "the room team cannot be joined"
        (told,) = [one for one in await chat.ask("attention") if one["what"] == "chat"]
        assert told["text"] == "the chat phone: the room team cannot be joined"


class Daemon:
    """A daemon that is away at the next questions, so many, and notes what it is told."""

    def __init__(self) -> None:
        self.away = 0
        self.told: list[tuple[str, str]] = []

    async def ask(self, method: str, /, **params: Any) -> Any:
        if self.away:
            self.away -= 1
            raise DaemonGoneError("away")
        if method == "chat_state":
            self.told.append((params["fault"], params["warning"]))

    async def again(self) -> None:
        pass


@in_a_loop
async def test_C16_a_daemon_is_told_how_a_chat_is_when_that_changes_and_when_it_begins_anew() -> None:
    daemon = Daemon()
    records = connection.ChatRecords(ChatSettings(name="phone", kind="xmpp"), daemon)
    await records.sent("no connection")
    assert daemon.told == [], "nobody knows yet how it is"
    for _ in range(2):
        await records.connected()
    await records.sent("the server is full")
    assert daemon.told == [("", ""), ("", "a message could not be sent: the server is full")]
    await records.sent()
    await records.broken("cut")
    assert daemon.told[2:] == [("", ""), ("cut", "")]
    daemon.away = 1
    await records.ask("chat_outgoing")
    await records.tell()
    assert daemon.told[4:] == [("cut", "")]


def test_C16_one_program_alone_holds_the_chats(tmp_path: Path) -> None:
    at_work = pytest.raises(OperatorError, match=r"already running on this home, as program \d+")
    with alone(tmp_path), at_work, alone(tmp_path):
        pass


def test_C16_the_program_that_is_kept_waits_for_one_that_is_at_work(tmp_path: Path) -> None:
    is_at_work = threading.Event()

    def work() -> None:
        with alone(tmp_path, waits=True):
            is_at_work.set()

    kept = threading.Thread(target=work)
    with alone(tmp_path):
        kept.start()
        assert not is_at_work.wait(0.1)
    assert is_at_work.wait(60)
    kept.join()


@in_a_loop
async def test_C1_a_login_that_is_refused_is_tried_again_with_the_secret_as_it_is_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LONGEST_PAUSE", 0.01)
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        assert "status" in await chat.says("help")
        opened = chat.service.opened
        chat.service.refusal = ChatError("wrong password", final=True)
        await chat.service.tell()
        async with asyncio.timeout(60):
            while chat.service.opened == opened:
                await asyncio.sleep(0.01)
        chat.service.refusal = None
        assert "status" in await chat.says("help")
