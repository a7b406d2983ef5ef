"""The kind Telegram, against a stand-in that follows the published methods of the Bot API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from narval.files.outside.chats import ChatSettings
from narval.surfaces.chat import web_api
from narval.surfaces.chat.contract import AmbiguousError, ChatError, Incoming, Outgoing
from narval.surfaces.chat.kinds import telegram
from narval.surfaces.chat.kinds.telegram import Telegram, open_chat
from tests.surfaces.chat.faulty_server import RefusedError
from tests.surfaces.chat.listening import listening
from tests.surfaces.chat.telegram_server import ANN, EVE, GROUP, TOKEN, TelegramServer, refusal


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    """A Bot API."""
    server = TelegramServer()
    yield server
    server.close()


def opened(server: TelegramServer, token: str = TOKEN, **settings: Any) -> Telegram:
    made = ChatSettings(name="phone", kind="telegram", server=server.url, allow=(server.place,), **settings)
    return open_chat(made, Path(), token)


def out(text: str, place: int = ANN, **more: Any) -> Outgoing:
    return Outgoing(id="1", place=str(place), text=text, **more)


def run(what: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(what)


def heard(server: TelegramServer, do: Any, number: int, **settings: Any) -> list[Incoming]:
    """The messages that come of what people do, so many."""

    async def listen() -> list[Incoming]:
        async with listening(opened(server, **settings)) as heard:
            do()
            return await heard.until(number)

    return run(listen())


def test_a_line_of_a_person_is_given_with_who_wrote_it(server: TelegramServer) -> None:
    server.write(ANN, "of before: it is not heard")
    (message,) = heard(server, lambda: server.write(ANN, "status"), 1)
    assert (message.sender, message.place, message.room) == (str(ANN), str(ANN), "")
    assert (message.text, message.name) == ("status", "Ann")
    assert (message.is_edit, message.is_forwarded, message.replies_to, message.button) == (
        False,
        False,
        "",
        "",
    )
    asked = server.called("getUpdates")[-1]
    assert asked["allowed_updates"] == ["message", "edited_message", "callback_query"]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("/status", "status"),
        ("/show@narval_bot 7", "show 7"),
        ("/show@other_bot 7", "/show@other_bot 7"),
        ("/start", "help"),
        ("/start 83051", "83051"),
        ("/etc/passwd", "/etc/passwd"),
        ("see /status", "see /status"),
    ],
)
def test_a_command_has_no_slash(server: TelegramServer, written: str, text: str) -> None:
    assert heard(server, lambda: server.write(ANN, written), 1)[0].text == text


def test_a_session_is_accepted_once_telegram_gives_updates(server: TelegramServer) -> None:
    server.faults["getUpdates"] = [refusal(500, "Internal Server Error")]

    async def listen() -> None:
        async with listening(opened(server), "1") as heard, asyncio.timeout(60):
            while not heard.warnings:
                await asyncio.sleep(0.01)
            assert len(heard.lost) == 1, "it has told of no session before"

    run(listen())


def test_edits_forwards_replies_and_rooms_are_told_apart(server: TelegramServer) -> None:
    async def listen() -> None:
        chat = opened(server, called="narval")
        async with listening(chat) as heard:
            ours = await chat.send(out("shall I?"))
            first = server.write(ANN, "yes", **server.answer_to(server.sent(ANN)[0]))
            server.edit(first, "no")
            server.write(ANN, "cancel 5", forward_origin={"type": "user", "date": 1})
            server.write(ANN, "cancel 6", via_bot={"id": 7, "is_bot": True, "first_name": "x"})
            server.write(EVE, "narval: status", room=GROUP)
            server.write(ANN, "/status@narval_bot", room=GROUP)
            server.write(ANN, room=GROUP, new_chat_members=[])
            server.write(ANN, "last")
            yes, no, forwarded, inserted, of_eve, command, _ = await heard.until(7)
        assert (yes.text, yes.replies_to, yes.is_edit) == ("yes", ours, False)
        assert (no.text, no.is_edit) == ("no", True)
        assert no.id != yes.id
        assert (forwarded.is_forwarded, inserted.is_forwarded, yes.is_forwarded) == (True, True, False)
        assert (of_eve.sender, of_eve.room, of_eve.place) == (str(EVE), str(GROUP), str(GROUP))
        assert command.text == "narval: status"

    run(listen())


def test_a_button_is_pressed_once_and_rests(server: TelegramServer) -> None:
    async def listen() -> None:
        chat = opened(server)
        async with listening(chat) as heard:
            buttons = (("approve:7", "approve"), ("reject:7", "reject"), ("later", "a label of many words"))
            ours = await chat.send(out("pay 12 EUR?", buttons=buttons))
            shown = server.sent(ANN)[0]["reply_markup"]["inline_keyboard"]
            assert [[key["callback_data"] for key in row] for row in shown] == [
                ["approve:7"],
                ["reject:7"],
                ["later"],
            ]
            server.press(EVE, server.sent(ANN)[0], "approve:7")
            (pressed,) = await heard.until(1)
            assert (pressed.button, pressed.replies_to, pressed.sender) == ("approve:7", ours, str(EVE))
            assert pressed.text == ""
            while server.ended_presses != ["1"]:
                await asyncio.sleep(0.01)
            assert await chat.send(out("approved", edits=ours)) == ours
            assert await chat.send(out("approved", edits=ours)) == ours, "the same again is no error"
        assert server.texts(ANN) == ["approved"]
        assert "reply_markup" not in server.sent(ANN)[0]
        with pytest.raises(ChatError, match="more than 64 bytes"):
            await chat.send(out("?", buttons=(("x" * 65, "x"),)))

    run(listen())


def test_nothing_in_a_text_is_more_than_text(server: TelegramServer) -> None:
    """No mention calls anybody, no command is one tap away, no preview asks for a page."""
    text = "🌧 ask @ben_miller, or ann@example.org; /approve <b>now</b> https://example.org/a/b"
    run(opened(server).send(out(text)))
    (sent,) = server.sent(ANN)
    (body,) = server.called("sendMessage")
    marked = [
        text.encode("utf-16-le")[2 * one["offset"] : 2 * (one["offset"] + one["length"])].decode("utf-16-le")
        for one in sent["entities"]
    ]
    assert (sent["text"], marked) == (text, ["@ben_miller", "/approve", "/b"])
    assert {one["type"] for one in sent["entities"]} == {"code"}
    assert body["link_preview_options"] == {"is_disabled": True}
    assert "parse_mode" not in body
    run(opened(server).send(out("/a " * 200)))
    assert [one["length"] for one in server.sent(ANN)[1]["entities"]] == [600]


def test_pictures_voices_and_documents_are_files(server: TelegramServer, tmp_path: Path) -> None:
    server.files = {"large": b"j" * 900, "voice": b"o" * 50, "plan": b"p" * 5000}
    sizes = [
        {"file_id": "small", "width": 90, "height": 60, "file_size": 9},
        {"file_id": "large", "width": 900, "height": 600, "file_size": 900},
        {"file_id": "middle", "width": 320, "height": 200, "file_size": 99},
    ]

    async def listen() -> None:
        chat = opened(server)
        async with listening(chat) as heard:
            server.write(ANN, photo=sizes, caption="the meter")
            server.write(ANN, voice={"file_id": "voice", "mime_type": "audio/ogg", "file_size": 50})
            server.write(
                ANN, document={"file_id": "plan", "file_name": "plan.pdf", "mime_type": "application/pdf"}
            )
            server.write(ANN, document={"file_id": "gone"})
            photo, voice, plan, gone = await heard.until(4)
        assert photo.text == "the meter"
        assert [
            (m.file.name, m.file.media_type, m.file.size) for m in (photo, voice, plan, gone) if m.file
        ] == [
            ("photo.jpg", "image/jpeg", 900),
            ("voice.ogg", "audio/ogg", 50),
            ("plan.pdf", "application/pdf", None),
            ("document.bin", "application/octet-stream", None),
        ]
        assert photo.file
        assert plan.file
        assert gone.file
        await chat.fetch(photo.file, tmp_path / "photo", 1000)
        assert (tmp_path / "photo").read_bytes() == b"j" * 900
        for file, most, why in (
            (photo.file, 800, "900 bytes"),
            (plan.file, 800, "at most 800"),
            (gone.file, 9, "file_id"),
        ):
            with pytest.raises(ChatError, match=why) as error:
                await chat.fetch(file, tmp_path / "other", most)
            assert error.value.final
        assert not (tmp_path / "other").exists()

    run(listen())


def test_a_lost_answer_is_ambiguous_and_the_second_message_is_marked(
    server: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = opened(server)
    for fault in ("lost", "half", "never", refusal(502, "Bad Gateway")):
        server.faults["sendMessage"] = [fault]
        with monkeypatch.context() as patch:
            patch.setattr(web_api, "SECONDS", 0.5 if fault == "never" else 30.0)
            with pytest.raises(AmbiguousError):
                run(chat.send(out("hello")))
    server.faults["editMessageText"] = ["lost"]
    with pytest.raises(ConnectionError):  # an edit may be made twice
        run(chat.send(out("hello!", edits=f"{ANN}:1")))
    run(chat.send(out("hello", is_repeated=True)))
    assert server.texts(ANN) == ["hello!", "hello", "hello", telegram.REPEATED + "hello"]
    server.close()
    with pytest.raises(ConnectionError):
        run(chat.send(out("nobody is there")))


def test_each_message_is_taken_once_whatever_the_server_does(
    server: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listen() -> None:
        async with listening(opened(server)) as heard:
            with monkeypatch.context() as patch:
                patch.setattr(telegram, "HELD_SECONDS", 0)
                patch.setattr(web_api, "SECONDS", 0.5)
                server.write(ANN, "zero")  # ends the request that is held for long
                await heard.until(1)
                server.faults["getUpdates"] = [
                    "never",
                    "late",
                    "half",
                    "lost",
                    "cut",
                    refusal(502, "Bad Gateway"),
                ]
                while server.faults["getUpdates"]:
                    await asyncio.sleep(0.01)
            server.write(ANN, "one")
            await heard.until(2)
            heard.fails_once = True
            server.write(ANN, "two")
            await heard.until(3)
            lost = len(heard.lost)
            server.close()
            while len(heard.lost) < lost + 2:
                await asyncio.sleep(0.01)
            server.write(ANN, "three")
            server.write(ANN, "four")
            server.open()
            await heard.until(5)
            assert heard.texts == ["zero", "one", "two", "three", "four"]
            position = heard.position
        server.write(ANN, "while nobody listened")
        async with listening(opened(server), position) as heard:
            await heard.until(1)
            assert heard.texts == ["while nobody listened"]

    run(listen())


def test_the_first_position_is_recorded_before_anything_is_written(server: TelegramServer) -> None:
    async def listen() -> None:
        server.write(ANN, "of before")
        async with listening(opened(server)) as heard:
            position = heard.position
        server.write(ANN, "after")
        async with listening(opened(server), position) as heard:
            await heard.until(1)
            assert heard.texts == ["after"]

    run(listen())


def test_it_waits_as_long_as_telegram_asks(server: TelegramServer) -> None:
    busy = refusal(429, "Too Many Requests: retry after 0", retry_after=0)
    server.faults["sendMessage"] = [busy, busy, "late"]
    run(opened(server).send(out("hello")))
    assert server.texts(ANN) == ["hello"]
    server.faults["sendMessage"] = [refusal(429, "Too Many Requests", retry_after=3600)]
    with pytest.raises(ConnectionError, match="no request for 3600 s"):
        run(opened(server).send(out("hello")))


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (refusal(403, "Forbidden: bot was blocked by the user"), "blocked by the user"),
        (
            refusal(400, "Bad Request: group chat was upgraded", migrate_to_chat_id=-100),
            r'rooms = \["-100"\]',
        ),
    ],
)
def test_what_never_works_is_said_to_be_final(
    server: TelegramServer, refusal: RefusedError, words: str
) -> None:
    server.faults["sendMessage"] = [refusal]
    with pytest.raises(ChatError, match=words) as error:
        run(opened(server).send(out("hello")))
    assert error.value.final
    with pytest.raises(ChatError, match="expected the number of a chat"):
        run(opened(server).send(Outgoing(id="1", place="@ann", text="x")))


@pytest.mark.parametrize(
    ("token", "fault", "words"),
    [
        ("110201543:wrong", None, "@BotFather"),
        ("not a token", None, "@BotFather"),
        (
            TOKEN,
            refusal(409, "Conflict: can't use getUpdates method while webhook is active"),
            "webhook",
        ),
    ],
)
def test_a_wrong_login_is_final_and_the_token_is_never_shown(
    server: TelegramServer,
    caplog: pytest.LogCaptureFixture,
    token: str,
    fault: RefusedError | None,
    words: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.faults["getUpdates"] = [fault]

    async def listen() -> None:
        async with listening(opened(server, token)):
            pass

    with pytest.raises(ChatError, match=words) as error:
        run(listen())
    assert error.value.final
    assert token not in f"{error.value!r} {caplog.text}"
    server.close()
    with pytest.raises(ConnectionError) as lost:
        run(opened(server).send(out("x")))
    assert TOKEN not in f"{lost.value!r} {caplog.text}"


def test_a_server_of_this_machine_must_be_allowed(server: TelegramServer) -> None:
    made = ChatSettings(name="phone", kind="telegram", server=server.url)
    with pytest.raises(ChatError, match=rf'allow = \["{server.place}"\]'):
        run(open_chat(made, Path(), TOKEN).send(out("hello")))
