"""The kind Matrix, against a stand-in for a homeserver; Synapse itself is asked in `make soak`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from narval.files import people_file
from narval.files.outside.chats import ChatSettings
from narval.surfaces.chat import web_api
from narval.surfaces.chat.contract import ChatError, Outgoing
from narval.surfaces.chat.kinds import matrix
from narval.surfaces.chat.kinds.matrix import Matrix, open_chat
from narval.surfaces.chat.kinds.matrix_session import KEYS, read
from tests.surfaces.chat.listening import listening
from tests.surfaces.chat.matrix_server import ANN, BEN, CARL, EVE, NARVAL, PASSWORDS, MatrixServer, refusal
from tests.surfaces.chat.synapse import Synapse

Homeserver = MatrixServer | Synapse


@pytest.fixture
def server() -> Iterator[MatrixServer]:
    """A stand-in for a homeserver, with accounts of narval, Ann, Ben and Eve."""
    server = MatrixServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    """Synapse with the same accounts; tests use rooms of their own."""
    server = Synapse(tmp_path_factory.mktemp("synapse"))
    yield server
    server.close()


@pytest.fixture(params=["stand-in", pytest.param("Synapse", marks=pytest.mark.soak)])
def either(request: pytest.FixtureRequest) -> Homeserver:
    """The stand-in, and in `make soak` Synapse."""
    server: Homeserver = request.getfixturevalue("server" if request.param == "stand-in" else "synapse")
    return server


def opened(at: Homeserver, secret: str = "", home: Path = Path("/home"), **settings: Any) -> Matrix:
    about = {"user": NARVAL, "server": at.url, "allow": (at.place,), **settings}
    made = ChatSettings(name="phone", kind="matrix", **about)
    return open_chat(made, home, secret or at.token(NARVAL))


def out(text: str, place: str = ANN, **more: Any) -> Outgoing:
    return Outgoing(**{"id": "1", "place": place, "text": text, **more})


def home_of(folder: Path, *people: str) -> Path:
    """A home whose people write from these accounts."""
    (folder / "etc").mkdir(exist_ok=True)
    tables = [f'[people.p{number}]\nchat = ["matrix:{one}"]\n' for number, one in enumerate(people)]
    (folder / "etc/people.toml").write_text("".join(tables))
    return folder


def run(what: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(what)


async def until(is_there: Any) -> None:
    async with asyncio.timeout(60):
        while not is_there():
            await asyncio.sleep(0.01)


def test_a_room_of_two_is_talk_between_two(either: Homeserver) -> None:
    room = either.room(ANN, NARVAL)
    either.write(ANN, room, "of before: it is not heard")

    async def listen() -> None:
        chat = opened(either)
        async with listening(chat) as heard:
            either.write(ANN, room, "status")
            (message,) = await heard.until(1)
            assert (message.sender, message.place, message.room) == (ANN, ANN, "")
            assert (message.text, message.name, message.is_edit) == ("status", "ann", False)
            sent = await chat.send(out("all is well <b>@room</b>", replies_to=message.id))
            either.write(NARVAL, room, "what we say is no news")
            first = either.write(ANN, room, "yes", **_relates(in_reply_to=sent))
            either.write(
                ANN, room, "* no", **{"m.new_content": {"msgtype": "m.text", "body": "no"}}, **_edits(first)
            )
            either.write(ANN, room, "cancel 5", **{"m.forwarded": {"event_id": "$x"}})
            either.write(ANN, room, "a program says", msgtype="m.notice")
            either.write(ANN, room, "> <@narval:example.org> cancel 5\n\ngo on", **_relates(in_reply_to=sent))
            either.event(room, ANN, "m.room.redaction", {"redacts": message.id.partition("/")[2]})
            either.event(room, ANN, "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2"})
            _, yes, no, forwarded, quoting, encrypted = await heard.until(6)
        assert (yes.text, yes.replies_to, yes.is_edit) == ("yes", sent, False)
        assert (no.text, no.is_edit) == ("no", True)
        assert (forwarded.is_forwarded, yes.is_forwarded) == (True, False)
        assert (quoting.text, quoting.replies_to) == ("go on", sent)
        assert (encrypted.is_encrypted, encrypted.text) == (True, "")
        assert either.sent(room)[0] == {
            "msgtype": "m.text",
            "body": "all is well <b>@room</b>",
            "m.mentions": {},
            "m.relates_to": {"m.in_reply_to": {"event_id": message.id.partition("/")[2]}},
        }

    run(listen())


def test_rooms_where_others_are_count_where_the_settings_name_them(either: Homeserver) -> None:
    team, other = either.room(ANN, BEN, EVE, alias="#team:example.org"), either.room(ANN, EVE, NARVAL)

    async def listen() -> None:
        chat = opened(either, rooms=("#team:example.org", "#gone:example.org"))
        either.write(ANN, team, "narval: of before it was here")
        async with listening(chat) as heard:
            assert either.membership(team, NARVAL) == "join"
            either.write(ANN, other, "narval: nobody heeds this")
            either.write(EVE, team, "narval: status")
            (message,) = await heard.until(1)
            assert (message.sender, message.room, message.place) == (EVE, "#team:example.org", team)
            assert heard.warnings[0].startswith("the room #gone:example.org cannot be joined: ")
            await chat.send(out("to the team", "#team:example.org"))
            await chat.send(out("to the team, again", team, id="2"))
            with pytest.raises(ChatError, match="no room of"):
                await chat.send(out("to others", other))
        closed = either.room(EVE)  # which needs an invitation
        chat = opened(either, rooms=(closed,))
        async with listening(chat) as heard:
            either.member(closed, NARVAL, "invite", by=EVE)
            await until(lambda: either.membership(closed, NARVAL) == "join")
            either.write(EVE, closed, "narval: help")
            assert (await heard.until(1))[0].room == closed
        assert [sent["body"] for sent in either.sent(team)] == ["to the team", "to the team, again"]

    run(listen())


def test_invitations_of_known_people_alone_are_followed(either: Homeserver, tmp_path: Path) -> None:
    """What was written before the invitation was not written to the assistant; what came with it was."""
    of_eve = either.room(EVE, invited=(NARVAL,))
    room = either.room(ANN)
    either.write(ANN, room, "cancel 1")

    async def listen() -> None:
        async with listening(opened(either, home=home_of(tmp_path, ANN))) as heard:
            either.member(room, NARVAL, "invite", by=ANN)
            either.write(ANN, room, "status")
            await heard.until(1)
            assert heard.texts == ["status"]
            assert either.membership(of_eve, NARVAL) == "invite"
            position = heard.position
        async with listening(opened(either, home=home_of(tmp_path, ANN, EVE)), position) as heard:
            either.write(EVE, of_eve, "a code")
            await heard.until(1)  # an invitation of before is heeded once its sender is known
            assert heard.texts == ["a code"]

    run(listen())


def test_strangers_that_count_invite_to_so_many_rooms_and_people_to_any(
    server: MatrixServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MOST_ROOMS", 2)
    rooms = [server.room(EVE, invited=(NARVAL,)) for _ in range(4)]

    async def listen() -> None:
        async with listening(opened(server, home=home_of(tmp_path, ANN), strangers=True)) as heard:
            of_ann = server.room(ANN, invited=(NARVAL,))
            await until(lambda: server.membership(of_ann, NARVAL) == "join")
            assert heard.texts == []
        assert [server.membership(room, NARVAL) for room in rooms] == ["join", "join", "invite", "invite"]

    run(listen())


def test_invitations_of_strangers_are_bounded_and_people_are_read_once(
    server: MatrixServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MOST_INVITATIONS", 2)
    read = Counter[Path]()
    monkeypatch.setattr(people_file, "read_people", _counting(read, people_file.read_people))
    rooms = [server.room(EVE, invited=(NARVAL,)) for _ in range(4)]

    async def listen() -> None:
        async with listening(opened(server, home=home_of(tmp_path, ANN))) as heard:
            await until(lambda: heard.warnings)
            assert read == {tmp_path: 1}
            home_of(tmp_path, ANN, EVE)
            of_ann = server.room(ANN, invited=(NARVAL,))
            await until(lambda: server.membership(of_ann, NARVAL) == "join")
            await until(lambda: server.membership(rooms[-1], NARVAL) == "join")
        assert [server.membership(room, NARVAL) for room in rooms] == ["invite", "invite", "join", "join"]
        assert read == {tmp_path: 2}

    run(listen())


def _counting(read: Counter[Path], really: Any) -> Any:
    def counted(home: Path) -> Any:
        read[home] += 1
        return really(home)

    return counted


def test_many_messages_of_an_absence_come_each_once_in_order(
    either: Homeserver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MOST_EVENTS", 7)
    monkeypatch.setitem(matrix.MESSAGES["room"]["timeline"], "limit", 7)
    room = either.room(ANN, NARVAL)

    async def listen() -> None:
        async with listening(opened(either)) as heard:
            position = heard.position
        written = [str(number) for number in range(40)]
        for number in written:
            either.write(ANN, room, number)
        either.write(ANN, either.room(ANN, NARVAL), "in another room")
        async with listening(opened(either), position) as heard:
            await heard.until(41)
            assert [text for text in heard.texts if text != "in another room"] == written
        room_of_before = either.room(ANN)
        for number in written[:20]:
            either.write(ANN, room_of_before, number)
        either.member(room_of_before, NARVAL, "invite", by=ANN)
        for number in written[20:]:
            either.write(ANN, room_of_before, number)
        async with listening(opened(either, home=home_of(tmp_path, ANN)), heard.position) as heard:
            await heard.until(20)
            assert heard.texts == written[20:]

    run(listen())


def test_a_message_that_is_sent_again_is_there_once(
    server: MatrixServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its transaction id, after a restart too: with a password the device is always the same."""
    room = server.room(ANN, NARVAL)
    for fault in ("lost", "half", "never", "cut", refusal(502, "M_UNKNOWN")):
        server.faults["send"] = [fault]
        chat = opened(server, PASSWORDS[NARVAL])
        run(chat.rooms.of(ANN))
        with monkeypatch.context() as patch:
            patch.setattr(web_api, "SECONDS", 0.5 if fault == "never" else 30.0)
            with pytest.raises(ConnectionError):
                run(chat.send(out("hello")))
    server.faults["send"] = ["late", refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=1)]
    run(opened(server, PASSWORDS[NARVAL]).send(out("hello")))
    run(opened(server, PASSWORDS[NARVAL]).send(out("hello", id="2")))
    assert [sent["body"] for sent in server.sent(room)] == ["hello", "hello"]


def test_each_message_is_taken_once_whatever_the_server_does(
    server: MatrixServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = server.room(ANN, NARVAL)

    async def listen() -> None:
        async with listening(opened(server)) as heard:
            with monkeypatch.context() as patch:
                patch.setattr(matrix, "HELD_SECONDS", 0)
                patch.setattr(web_api, "SECONDS", 0.5)
                server.write(ANN, room, "zero")  # ends the request that is held for long
                await heard.until(1)
                server.faults["sync"] = ["never", "late", "half", "lost", "cut", refusal(502, "M_UNKNOWN")]
                await until(lambda: not server.faults["sync"])
            server.write(ANN, room, "one")
            await heard.until(2)
            heard.fails_once = True
            server.write(ANN, room, "two")
            await heard.until(3)
            lost = len(heard.lost)
            server.close()
            await until(lambda: len(heard.lost) >= lost + 2)
            server.write(ANN, room, "three")
            server.open()
            await heard.until(4)
            assert heard.texts == ["zero", "one", "two", "three"]

    run(listen())


def test_reactions_are_buttons(either: Homeserver) -> None:
    either.room(ANN, NARVAL)

    async def listen() -> None:
        chat = opened(either)
        async with listening(chat) as heard:
            sent = await chat.send(out("pay?", buttons=(("approve:7", "approve"), ("reject:7", "reject"))))
            room, _, event = sent.partition("/")
            shown = [content["m.relates_to"] for content in either.sent(room, "m.reaction")]
            assert [(one["event_id"], one["key"]) for one in shown] == [(event, KEYS[0]), (event, KEYS[1])]
            either.react(ANN, room, event, "👍")
            either.react(ANN, room, event, KEYS[2])
            forged = either.write(ANN, room, "mine", **{matrix.BUTTONS: ["approve:9"]})
            either.react(ANN, room, forged, KEYS[0])
            either.react(ANN, room, event, KEYS[1].replace("\ufe0f", ""))
            _, pressed = await heard.until(2)
            assert (pressed.button, pressed.replies_to, pressed.sender) == ("reject:7", sent, ANN)
            assert await chat.send(out("rejected", edits=sent, id="2")) == sent
        edit = either.sent(room)[-1]
        assert edit["m.relates_to"] == {"rel_type": "m.replace", "event_id": event}
        assert (edit["body"], edit["m.new_content"]["body"]) == ("* rejected", "rejected")

    run(listen())


def test_a_busy_server_is_spared_the_buttons(server: MatrixServer) -> None:
    room = server.room(ANN, NARVAL)
    busy = refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=3_600_000)
    server.faults["send"] = [None, None, busy]
    buttons = tuple((word, word) for word in ("approve", "reject", "later"))
    run(opened(server).send(out("pay?", buttons=buttons)))
    assert (len(server.sent(room)), len(server.sent(room, "m.reaction"))) == (1, 1)


def test_what_is_said_to_a_person_stays_between_two(either: Homeserver) -> None:
    """A third one in the room, another one in it, encryption: a new room is made, in clear."""
    room = either.room(CARL, NARVAL)

    async def listen() -> None:
        chat = opened(either)
        async with listening(chat) as heard:
            either.write(CARL, room, "hello")
            await heard.until(1)
            first = await chat.send(out("to Carl", CARL))
            either.member(room, EVE, "join")
            either.write(EVE, room, "status")
            either.write(CARL, room, "status")
            await until(lambda: chat.rooms.display_name(room, EVE))
            second = await chat.send(out("to Carl alone", CARL, id="2"))
            with pytest.raises(ChatError, match="no longer alone"):
                await chat.send(out("an edit", CARL, edits=first, id="3"))
            either.member(room, CARL, "leave")
            either.write(EVE, room, "I am Carl")
            message = (await heard.until(2))[1]
            assert message.sender == EVE
            assert await chat.send(out("to Carl alone", CARL, id="4")) != first
            made = second.partition("/")[0]
            assert (either.membership(made, CARL), len(either.sent(made))) == ("invite", 2)
            either.member(made, CARL, "join")
            either.event(made, CARL, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, state_key="")
            either.event(made, CARL, "m.room.encrypted", {})
            assert (await heard.until(3))[2].is_encrypted
            third = (await chat.send(out("in clear", CARL, id="5"))).partition("/")[0]
            assert third not in (room, made)
        again = (await opened(either).send(out("after a restart", CARL, id="6"))).partition("/")[0]
        assert (again, len(either.sent(third))) == (third, 2)
        assert len(either.sent(room)) == 1

    run(listen())


def test_files_come_from_the_media_of_the_server(server: MatrixServer, tmp_path: Path) -> None:
    room = server.room(ANN, NARVAL)
    media = server.upload(b"j" * 900)

    async def listen() -> None:
        chat = opened(server)
        async with listening(chat) as heard:
            about = {
                "msgtype": "m.image",
                "url": media,
                "info": {"mimetype": "image/jpeg", "size": 900},
            }
            server.write(ANN, room, "meter.jpg", **about)
            server.write(ANN, room, "the meter", filename="meter.jpg", **{**about, "info": {}})
            server.write(ANN, room, "../../x", **{**about, "url": "mxc://example.org/gone", "info": {}})
            server.write(ANN, room, "x", **{**about, "url": "https://example.org/../etc/x"})
            plain, titled, gone = await heard.until(3)
        assert plain.file
        assert titled.file
        assert gone.file
        assert (plain.file.name, plain.file.media_type, plain.file.size, plain.text) == (
            "meter.jpg",
            "image/jpeg",
            900,
            "",
        )
        assert (titled.file.name, titled.file.size, titled.text) == ("meter.jpg", None, "the meter")
        for is_newer in (True, False):
            server.knows_authenticated_media = is_newer
            await chat.fetch(plain.file, tmp_path / str(is_newer), 1000)
            assert (tmp_path / str(is_newer)).read_bytes() == b"j" * 900
        for file, why in (
            (plain.file, "900 bytes"),
            (titled.file, "at most 800"),
            (gone.file, "answered by 404"),
        ):
            with pytest.raises(ChatError, match=why):
                await chat.fetch(file, tmp_path / "other", 800)

    run(listen())


def test_a_login_is_by_token_or_password_and_ended_tokens_are_made_anew(server: MatrixServer) -> None:
    server.room(ANN, NARVAL)
    chat = opened(server, PASSWORDS[NARVAL])
    run(chat.send(out("one")))
    server.tokens.clear()
    run(chat.send(out("two", id="2")))
    token = opened(server)
    run(token.send(out("three", id="3")))
    server.tokens.clear()
    with pytest.raises(ChatError, match="Unrecognised access token"):
        run(token.send(out("four", id="4")))


@pytest.mark.parametrize(
    ("secret", "settings", "words"),
    [
        ("wrong", {}, "neither an access token nor the password of @narval:example.org"),
        ("wrong", {"user": ""}, 'expected user = "@NAME:SERVER"'),
        ("token of Eve", {}, "that of '@eve:example.org', not of '@narval:example.org'"),
        ("wrong", {"server": ""}, "expected server, user, and the secret"),
    ],
)
def test_a_wrong_login_is_final(
    server: MatrixServer, secret: str, settings: dict[str, Any], words: str
) -> None:
    secret = server.token(EVE) if secret == "token of Eve" else secret

    async def listen() -> None:
        async with listening(opened(server, secret, **settings)):
            pass

    with pytest.raises(ChatError, match=words) as error:
        run(listen())
    assert error.value.final
    assert secret not in str(error.value)


def _relates(in_reply_to: str) -> dict[str, Any]:
    return {"m.relates_to": {"m.in_reply_to": {"event_id": in_reply_to.partition("/")[2]}}}


def _edits(event: str) -> dict[str, Any]:
    return {"m.relates_to": {"rel_type": "m.replace", "event_id": event}}


@pytest.mark.soak
def test_synapse_is_stopped_and_started(synapse: Synapse, tmp_path: Path) -> None:
    room = synapse.room(BEN, NARVAL)
    media = synapse.upload(b"j" * 900)

    async def listen() -> None:
        chat = opened(synapse, PASSWORDS[NARVAL])
        async with listening(chat) as heard:
            about = {"msgtype": "m.file", "url": media, "info": {"size": 900}}
            await asyncio.to_thread(synapse.write, BEN, room, "plan.pdf", **about)
            (plan,) = await heard.until(1)
            assert plan.file
            await chat.fetch(plan.file, tmp_path / "plan.pdf", 1000)
            assert (tmp_path / "plan.pdf").read_bytes() == b"j" * 900
            await chat.send(out("before", BEN))
            await asyncio.to_thread(synapse.close)
            with pytest.raises(ConnectionError):
                await chat.send(out("meanwhile", BEN, id="2"))
            await asyncio.to_thread(synapse.open)
            await asyncio.to_thread(synapse.write, BEN, room, "after")
            await heard.until(2)
            await chat.send(out("meanwhile", BEN, id="2"))
        again = opened(synapse, PASSWORDS[NARVAL])
        await again.send(out("meanwhile", BEN, id="2"))
        assert [sent["body"] for sent in synapse.sent(room)] == ["before", "meanwhile"]

    run(listen())


@pytest.mark.parametrize(
    "content",
    [
        {"msgtype": "m.image", "body": "x", "url": "mxc://a/b", "info": "x"},
        {"msgtype": "m.text", "body": "x", "m.relates_to": {"m.in_reply_to": "x"}},
    ],
)
def test_what_anybody_may_write_ends_no_chat(content: dict[str, Any]) -> None:
    event = {"event_id": "$1", "sender": "@eve:a", "type": "m.room.message", "content": content}
    good = {**event, "event_id": "$2", "content": {"msgtype": "m.text", "body": "hello"}}
    member = {**event, "type": "m.room.member", "content": {}, "unsigned": "x"}
    far = {**good, "origin_server_ts": 10**400}
    assert [one.text for one in read([event, member, far, good])] == ["hello"]


@pytest.mark.parametrize("size", [True, -1, 10**30, "1"])
def test_a_size_that_is_none_is_not_known(size: object) -> None:
    content = {"msgtype": "m.file", "body": "x", "url": "mxc://a/b", "info": {"size": size}}
    event = {"event_id": "$1", "sender": "@eve:a", "type": "m.room.message", "content": content}
    (made,) = read([event])
    assert made.file is not None
    assert made.file.size is None
