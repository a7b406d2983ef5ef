"""Nobody but who owns an address speaks for a person, and nothing is done twice (C8, C13, C17, C19)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from narval.calls import kept_files
from narval.calls.kept_files import CHAT_FILES
from narval.core.errors import RequestError
from narval.people.chat.messages import IncomingFile
from narval.surfaces.chat import connection, dealing
from tests.daemon.at_work import in_a_loop
from tests.surfaces.chat.at_work import ChatAtWork, chat_at_work, make_chat_home

ROOM = "team@rooms.example.org"


async def elements(chat: ChatAtWork) -> list[dict[str, Any]]:
    """The elements that messages became, oldest first."""
    rows: list[dict[str, Any]] = (await chat.ask("elements", xpath="chat-message"))["elements"]
    return sorted(rows, key=lambda row: row["eid"])


@in_a_loop
async def test_C17_names_and_cases_that_another_account_has_speak_for_nobody(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        for sender in (
            "ann@example.org.evil",
            "an\u017f@example.org",
            "ann@evil.org",
            "ann%40example.org",
            "Ann",
        ):
            await chat.service.write("status", sender, name="ann@example.org")
        await chat.settled()
        assert chat.service.sent == []
        assert "under way" in await chat.says("status", "ANN@example.org/phone")


@in_a_loop
async def test_C17_what_the_server_gives_again_is_not_done_again(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        await chat.says("help")
        (message,) = chat.service.messages
        again = {"sender": message.sender, "place": message.place, "text": "help", "id": message.id}
        assert (
            await chat.ask("chat_take", chat="phone", messages=[again | {"position": "9"}], position="9")
            == []
        )
        other = again | {"sender": "ben@example.org", "position": "10"}
        (taken,) = await chat.ask("chat_take", chat="phone", messages=[other], position="10")
        assert taken["person"] == "ben", "another may use the same id, which its sender chooses"


@in_a_loop
async def test_C8_an_edit_and_what_is_forwarded_command_nothing(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        assert "stays as it is" in await chat.says("status", is_edit=True)
        assert "nothing waits for it" in await chat.says("status", is_forwarded=True)
        (row,) = await elements(chat)
        assert ('forwarded="yes"' in row["xml"], row["labels"]) == (True, ["chat"])
        assert "encrypted" in await chat.says("", is_encrypted=True)
        await chat.service.write("", is_encrypted=True)
        await chat.settled()
        assert len(chat.service.sent) == 3, "told once"


@in_a_loop
async def test_C13_a_room_is_heard_where_the_settings_name_it_and_a_line_the_assistant(
    tmp_path: Path,
) -> None:
    home = make_chat_home(tmp_path, settings=f'rooms = ["{ROOM}"]\ncalled = "Jarvis"\n')
    async with chat_at_work(home) as chat:
        for text, sender, room in (
            ("status", "ann@example.org", ROOM),
            ("Jarvison: status", "ann@example.org", ROOM),
            ("Jarvis: status", "ann@example.org", "other@rooms.example.org"),
            ("Jarvis: status", "eve@example.org", ROOM),
        ):
            await chat.service.write(text, sender, room=room, place=room, name="ann")
        await chat.settled()
        assert chat.service.sent == []
        assert await chat.says("@jarvis, the kettle", room=ROOM, place=ROOM)
        (row,) = await elements(chat)
        assert f'thread="{ROOM}"' in row["xml"]
        assert row["xml"].endswith(">the kettle</chat-message>")


@in_a_loop
async def test_C5_a_person_may_ask_by_chat_what_they_may_on_pages(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        said = await chat.says("status", "ben@example.org")
        assert said == (
            "ben may not see what the home remembers and does: that is for readers and operators; "
            "`web` in etc/people.toml gives a person the right"
        )
        assert "under way" in await chat.says("status", "rob@example.org")
        as_rob = {"acting_as": "rob", "session": "chat:phone"}
        with pytest.raises(RequestError, match=r"rob may not alter .* that is for operators"):
            await chat.ask("add", elements=[b"<note/>"], **as_rob)
        with pytest.raises(RequestError, match="bob may not see "):
            await chat.ask("status", acting_as="bob", session="chat:phone")


@in_a_loop
async def test_C18_what_is_asked_once_for_a_message_is_done_once(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path), begin=False) as chat:
        message = await chat.service.write("add a note")
        form = {name: getattr(message, name) for name in ("id", "position", "sender", "place")}
        await chat.ask("chat_take", chat="phone", messages=[form], position="1")
        as_ann = {"acting_as": "ann", "session": "chat:phone", "once": "phone/1"}

        async def add() -> Any:
            return await chat.ask("add", elements=[b"<note/>"], **as_ann)

        outcomes = await asyncio.gather(*(add() for _ in range(5)), return_exceptions=True)
        assert sum(isinstance(one, RequestError) for one in outcomes) == 4
        assert (await chat.ask("count", xpath="note"))["count"] == 1
        (owed,) = await chat.ask("chat_inbox", chat="phone")
        assert (owed["number"], owed["operation"]) == (1, "add")
        chat.begin()
        assert "was done (add), but I was stopped" in (await chat.service.answers())[0].text
        await chat.settled()


@in_a_loop
async def test_C19_more_lines_than_thirty_a_minute_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LINES", 3)
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        for _ in range(6):
            await chat.service.write("help")
        await chat.says("help", "ben@example.org")
        await chat.service.answers(4)
        (row,) = await chat.ask("chats")
        assert row["inbox"] == 3, "the rest of one person waits, and nobody else"
        await chat.kill()
        monkeypatch.setattr(connection, "LINES", 30)
        chat.begin()
        await chat.settled()
        assert len(chat.service.sent) == 7


@in_a_loop
async def test_C8_a_file_is_fetched_into_the_home_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        service = chat.service
        service.files = {"r1": b"a picture", "r2": b"x" * 2000}
        file = {"name": "../../etc/people.toml", "media_type": "image/png", "size": 9, "reference": "r1"}
        await chat.says("look", file=file)
        (row,) = await elements(chat)
        assert row["labels"] == ["chat"]
        (path,) = (tmp_path / CHAT_FILES).glob("*/*")
        assert (path.name, path.read_bytes()) == ("people.toml", b"a picture")
        assert f'path="{path.relative_to(tmp_path)}"' in row["xml"]
        monkeypatch.setattr(dealing, "MOST_BYTES", 1000)
        refused = await chat.says("", file=file | {"size": None, "reference": "r2"})
        assert "more than 1,000 bytes" in refused
        monkeypatch.setattr(dealing, "QUOTA", 1)
        assert "has no room" in await chat.says("", file=file)
        assert [one.name for one in (tmp_path / CHAT_FILES).iterdir()] == [path.parent.name]


@in_a_loop
async def test_C8_a_file_that_nothing_names_any_more_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "SWEEP_EVERY", 0.0)
    old = tmp_path / CHAT_FILES / ("c" * 32) / "old.png"
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        chat.service.files = {"r1": b"one", "r2": b"two"}
        file = {"name": "a.png", "media_type": "image/png", "size": 3}
        await chat.says("look", file=file | {"reference": "r1"})
        (named,) = (tmp_path / CHAT_FILES).glob("*/*")
        old.parent.mkdir()
        old.write_bytes(b"old")
        for path in (named, old):
            os.utime(path, (1.0, 1.0))
        await chat.says("look", file=file | {"reference": "r2"})
        async with asyncio.timeout(60):
            while old.parent.exists():
                await asyncio.sleep(0.01)
        assert named.exists()


@in_a_loop
async def test_C8_files_that_nothing_names_are_removed_at_the_start_and_when_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / CHAT_FILES / ("c" * 32) / "old.png"

    def put_old() -> None:
        old.parent.mkdir(parents=True)
        old.write_bytes(b"old")
        os.utime(old, (1.0, 1.0))

    async def removed() -> None:
        async with asyncio.timeout(60):
            while old.parent.exists():
                await asyncio.sleep(0.01)

    home = make_chat_home(tmp_path)
    put_old()
    async with chat_at_work(home) as chat:
        await removed()
        put_old()
        monkeypatch.setattr(dealing, "QUOTA", 1)
        monkeypatch.setattr(kept_files, "SWEEP_EVERY", 0.0)
        file = {"name": "a.png", "media_type": "image/png", "size": 3, "reference": "r"}
        refused = await chat.says("", file=file)
        assert "has no room" in refused
        await removed()


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a b.png", "a_b.png"),
        ("..", "file"),
        ("C:\\x\\y.txt", "y.txt"),
        ("-rf", "rf"),
        ("é\u202egnp.exe", "é_gnp.exe"),
        ("x" * 300 + ".jpg", "x" * 96 + ".jpg"),
    ],
)
def test_C8_the_name_of_a_file_is_a_name(name: str, plain: str) -> None:
    assert dealing.plain_name(name) == plain
    assert IncomingFile(name=name, media_type="", size=None, reference="").name == name


def test_a_long_text_goes_in_several(tmp_path: Path) -> None:
    assert connection.pieces("") == [""]
    text = "one two three\nfour five six"
    assert connection.pieces(text, 15) == ["one two three", "four five six"]
    assert connection.pieces("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


@in_a_loop
async def test_C8_parts_of_files_count_and_what_a_kill_left_of_them_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dealing, "QUOTA", 10)
    part = tmp_path / CHAT_FILES / ".5eed"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 9)
    picture = {"name": "a.png", "media_type": "image/png", "size": 5, "reference": "a"}
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        chat.service.files["a"] = b"12345"
        assert "nothing waits for it" in await chat.says("", file=picture)
        assert not part.exists()
        part.write_bytes(b"x" * 4)
        assert "var/chat has no room" in await chat.says("", file={**picture, "size": 2})
