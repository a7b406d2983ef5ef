"""XMPP on a real server: what is taken, what is sent, and what nobody may say in another's name."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import OperatorError
from narval.files.outside.chats import ChatSettings
from narval.surfaces.chat.contract import ChatError, Incoming, IncomingFile, Outgoing
from narval.surfaces.chat.kinds import xmpp_stream
from narval.surfaces.chat.kinds.xmpp import XmppChat, open_chat
from narval.surfaces.chat.kinds.xmpp_session import Session
from tests.loopback import LoopbackServer
from tests.surfaces.chat.prosody import DOMAIN, PASSWORD, ROOMS, Peer, Prosody

ANN, EVE, NARVAL = (f"{name}@{DOMAIN}" for name in ("ann", "eve", "narval"))


class Home:
    """What the assistant has taken, and its chat while it is connected."""

    def __init__(self, prosody: Prosody, folder: Path, **settings: Any) -> None:
        place = {"server": f"127.0.0.1:{prosody.port}", "tls_ca": str(prosody.ca)}
        values = {"name": "phone", "kind": "xmpp", "user": NARVAL, "secret": "x", **place, **settings}
        self.settings, self.folder = ChatSettings(**values), folder
        self.taken: list[Incoming] = []
        self.position = ""
        self.warnings: list[str] = []
        self.chat: XmppChat
        self.listening: asyncio.Future[None]

    async def take(self, messages: Sequence[Incoming], position: str) -> None:
        self.taken += messages
        self.position = position

    async def tell(self, warning: str) -> None:
        self.warnings.append(warning)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.taken]

    @asynccontextmanager
    async def connected(self, secret: str = PASSWORD) -> AsyncIterator[XmppChat]:
        """The chat from the position on, in a program of its own: it remembers nothing."""
        chat = open_chat(self.settings, self.folder, secret)
        assert isinstance(chat, XmppChat)
        self.chat = chat
        self.listening = asyncio.ensure_future(chat.listen(self.position, self.take, self.tell))
        try:
            ready = asyncio.ensure_future(chat.is_ready.wait())
            await asyncio.wait((ready, self.listening), timeout=60, return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if self.listening.done():
                self.listening.result()
            yield chat
        finally:
            await chat.close()
            self.listening.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, ChatError):
                await self.listening

    def hear(self, stanza: str) -> None:
        """Have the server itself say something on the connection of now."""
        session = self.chat.session
        assert session is not None
        session.xml_stream.data_received(stanza.encode())


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 60))


def test_C12_each_message_is_taken_once_in_its_order_also_what_came_while_nobody_was_there(
    prosody: Prosody, tmp_path: Path
) -> None:
    async def main() -> None:
        home = Home(prosody, tmp_path)
        async with Peer(prosody, "ann") as ann:
            async with home.connected():
                ann.write("one")
                await ann.until(lambda: home.texts == ["one"])
            for number in range(3):
                ann.write(f"away {number}")
            await ann.done()
            async with home.connected():
                ann.write("two")
                await ann.until(lambda: "two" in home.texts)
        assert home.texts == ["one", "away 0", "away 1", "away 2", "two"]
        message = home.taken[1]
        assert (message.sender, message.place, message.room) == (ANN, ANN, "")
        assert message.at is not None
        assert len({message.id for message in home.taken}) == 5
        assert set(home.warnings) == {""}, "the session was accepted, and nothing is wrong"

    run(main)


def test_C15_a_server_that_dies_is_a_lost_connection_and_nothing_is_lost(
    prosody: Prosody, tmp_path: Path
) -> None:
    async def main() -> None:
        home = Home(prosody, tmp_path)
        async with home.connected():
            async with Peer(prosody, "ann") as ann:
                ann.write("before")
                await ann.until(lambda: home.texts)
            prosody.end()
            with pytest.raises(ConnectionError):
                await home.listening
            with pytest.raises(ConnectionError, match=r"refused|Connect call failed"):
                async with home.connected():
                    pass
            prosody.begin()
        async with Peer(prosody, "ann") as ann:
            ann.write("while it was away")
            await ann.done()
            async with home.connected():
                await ann.until(lambda: len(home.taken) == 2)
        assert home.texts == ["before", "while it was away"]

    run(main)


def test_C12_a_message_is_sent_once_though_its_answer_was_lost(
    prosody: Prosody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(_: Session) -> None:
        raise ConnectionError("the connection was lost")

    async def main() -> None:
        home = Home(prosody, tmp_path)
        message = Outgoing(id="n-lost", place=ANN, text="approve \x00 <b>5 & 6</b>?")
        async with Peer(prosody, "ann") as ann:
            async with home.connected() as chat:
                with monkeypatch.context() as patched:
                    patched.setattr(Session, "ping", lost)
                    with pytest.raises(ConnectionError):
                        await chat.send(message)
                ann.write("hm")  # the position is behind what was sent
                await ann.until(lambda: home.texts)
            async with home.connected() as chat:
                assert await chat.send(message) == "n-lost"
                edit = Outgoing(id="n-edit", place=ANN, text="decided", edits="n-lost")
                assert await chat.send(edit) == "n-edit"
                await ann.until(lambda: "decided" in ann.texts)
        assert ann.texts == ["approve \ufffd <b>5 & 6</b>?", "decided"]
        replaces = ann.messages[-1].find("{urn:xmpp:message-correct:0}replace")
        assert replaces is not None
        assert replaces.get("id") == "n-lost"

    run(main)


def test_C14_what_can_never_be_sent_says_so(prosody: Prosody, tmp_path: Path) -> None:
    async def main() -> None:
        home = Home(prosody, tmp_path)
        async with home.connected() as chat:
            for place in (f"nobody@{DOMAIN}", "@", f"a b@{DOMAIN}"):
                with pytest.raises(ChatError) as caught:
                    await chat.send(Outgoing(id=f"n-{place}", place=place, text="hello"))
                assert caught.value.final, place
            await chat.send(Outgoing(id="n-after", place=ANN, text="the connection is there still"))

    run(main)


def test_C14_a_wrong_login_is_final_and_a_certificate_that_is_not_trusted_is_told(
    prosody: Prosody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        home = Home(prosody, tmp_path)
        with pytest.raises(
            ChatError, match=r"refuses the login of narval@example.org: not-authorized"
        ) as caught:
            async with home.connected(secret="wrong"):
                pass
        assert caught.value.final
        monkeypatch.setattr(xmpp_stream, "DIRECT_TLS_PORTS", (prosody.direct_port,))
        async with Home(prosody, tmp_path, server=f"127.0.0.1:{prosody.direct_port}").connected():
            pass
        for port in (prosody.port, prosody.direct_port):
            home = Home(prosody, tmp_path, tls_ca="", server=f"127.0.0.1:{port}")
            with pytest.raises(ConnectionError, match=r"not trusted: self.signed certificate.*by tls_ca"):
                async with home.connected():
                    pass

    run(main)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"user": "narval"},
            r"\[chats.phone\] in etc/narval.toml: expected user = .*, an account, found 'narval'",
        ),
        ({"tls_ca": "none.pem"}, "expected tls_ca, a file of certificates: none.pem"),
        ({"server": "example.org:many"}, "expected server, a host with or without a port"),
    ],
)
def test_C14_settings_that_name_no_account_say_what_is_expected(
    tmp_path: Path, values: dict[str, str], message: str
) -> None:
    settings = ChatSettings(**{"name": "phone", "kind": "xmpp", "user": NARVAL, **values})
    with pytest.raises(OperatorError, match=message):
        open_chat(settings, tmp_path, PASSWORD)


def test_C14_subscriptions_are_accepted_from_known_people_alone(prosody: Prosody, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/people.toml").write_text(f'[people.ann]\nchat = ["xmpp:{ANN}"]\n')

    async def main() -> None:
        home = Home(prosody, tmp_path)
        async with (
            home.connected(),
            Peer(prosody, "ann") as ann,
            Peer(prosody, "eve") as eve,
        ):
            eve.send_presence(pto=NARVAL, ptype="subscribe")
            await eve.done()
            ann.send_presence(pto=NARVAL, ptype="subscribe")
            await ann.until(lambda: f"{NARVAL}/narval" in [xml.get("from") for xml in ann.presences])
            await eve.done()
            assert f"{NARVAL}/narval" not in [xml.get("from") for xml in eve.presences]

    run(main)


# --- what nobody may say in another's name ----------------------------------------------------------------


FORGED = f"""<forwarded xmlns='urn:xmpp:forward:0'>
<message xmlns='jabber:client' from='{ANN}/phone' to='{NARVAL}' type='chat'><body>forged</body></message>
</forwarded>"""
FORGERIES = {
    "carbon": f"<received xmlns='urn:xmpp:carbons:2'>{FORGED}</received>",
    "own carbon": f"<sent xmlns='urn:xmpp:carbons:2'>{FORGED}</sent>",
    "archive": f"<result xmlns='urn:xmpp:mam:2' queryid='1' id='2'>{FORGED}</result>",
    "room": f"<x xmlns='http://jabber.org/protocol/muc#user'><item jid='{ANN}'/></x><body>forged</body>",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_C17_what_a_stranger_forges_is_nobodys(prosody: Prosody, tmp_path: Path, forgery: str) -> None:
    async def main() -> None:
        home = Home(prosody, tmp_path)
        async with home.connected(), Peer(prosody, "eve") as eve:
            eve.write("", more=FORGERIES[forgery])
            eve.write("end")
            await eve.until(lambda: "end" in home.texts)
            assert home.texts == ["end"]
            assert home.taken[0].sender == EVE

    run(main)


def test_C17_a_stranger_neither_chooses_the_place_in_the_archive_nor_refuses_what_is_sent_to_another(
    prosody: Prosody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        home = Home(prosody, tmp_path)
        async with Peer(prosody, "eve") as eve, Peer(prosody, "ann"):
            async with home.connected() as chat:
                old = "<delay xmlns='urn:xmpp:delay' stamp='2001-01-01T00:00:00Z' from='example.org'/>"
                forged_id = f"<stanza-id xmlns='urn:xmpp:sid:0' id='zzzz' by='{NARVAL}'/>"
                eve.write("says it is old", more=old)
                eve.write("says its id", more=forged_id)
                eve.write("says both", more=old + forged_id)
                eve.write("is kept nowhere", more="<no-store xmlns='urn:xmpp:hints'/>")
                await eve.until(lambda: len(home.taken) == 4)
                ids = [message.id for message in home.taken]
                assert "zzzz" not in ids
                assert len(set(ids)) == 4

                error = "<error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
                ping = Session.ping

                async def ping_after_an_error(session: Session) -> None:
                    home.hear(f"<message from='{EVE}' type='error' id='n-guessed'>{error}</message>")
                    await ping(session)

                monkeypatch.setattr(Session, "ping", ping_after_an_error)
                assert await chat.send(Outgoing(id="n-guessed", place=ANN, text="hello")) == "n-guessed"
            assert home.position.count("zzzz") == 0
            eve.write("and after")
            await eve.done()
            async with home.connected():
                await eve.until(lambda: len(home.taken) == 5)
        assert [message.sender for message in home.taken] == [EVE] * 5
        assert home.texts[4] == "and after"

    run(main)


def test_C17_what_a_server_says_again_is_not_taken_again(prosody: Prosody, tmp_path: Path) -> None:
    async def main() -> None:
        home = Home(prosody, tmp_path)
        async with Peer(prosody, "ann") as ann:
            async with home.connected():
                ann.write("once", id="a-1")
                await ann.until(lambda: home.texts)
            known_as = f"<stanza-id xmlns='urn:xmpp:sid:0' id='{home.taken[0].id}' by='{NARVAL}'/>"
            again = (
                f"<message from='{ANN}/phone' type='chat' id='a-1'><body>once</body>{known_as}%s</message>"
            )
            async with home.connected():
                home.hear(again % "")
                home.hear(again % "<delay xmlns='urn:xmpp:delay' stamp='2001-01-01T00:00:00Z'/>")
                for _ in range(2):
                    home.hear(again.replace("a-1", "a-2").replace(known_as, "") % "")  # in no archive
                ann.write("end")
                await ann.until(lambda: len(home.taken) == 3)
        assert sorted(home.texts) == ["end", "once", "once"]
        assert f"{ANN} a-2" in [message.id for message in home.taken]

    run(main)


# --- rooms ------------------------------------------------------------------------------------------------


def test_C17_in_a_room_a_line_is_of_the_address_that_the_room_says_whatever_its_nick(
    prosody: Prosody, tmp_path: Path
) -> None:
    async def main() -> None:
        room = f"open@{ROOMS}"
        home = Home(prosody, tmp_path, rooms=(f"Open@{ROOMS}",), called="narval")
        forged = f"<x xmlns='http://jabber.org/protocol/muc#user'><item jid='{ANN}'/></x>"
        async with Peer(prosody, "ann") as ann, Peer(prosody, "eve") as eve:
            async with home.connected() as chat:
                await ann.enter(room, "ann")
                await eve.enter(room, "eve")
                ann.write("narval: status", to=room, kind="groupchat")
                await ann.until(lambda: home.texts)
                await ann.enter(room, "someone")  # a nick that is left free may be taken
                await eve.enter(room, "ann")
                await ann.done()
                eve.write("narval: approve", to=room, kind="groupchat", more=forged)
                await eve.until(lambda: len(home.taken) == 2)
                ann.write("narval: still me", to=room, kind="groupchat")
                await ann.until(lambda: len(home.taken) == 3)
                eve.write("in private", to=f"{room}/narval")
                assert await chat.send(Outgoing(id="r-1", place=room, text="all is well")) == "r-1"
                await ann.until(lambda: "all is well" in ann.texts)
                assert [message.sender for message in home.taken] == [ANN, EVE, ANN]
                assert {message.place for message in home.taken} == {room}
                assert {message.room for message in home.taken} == {f"Open@{ROOMS}"}
            eve.write("forged while away", to=room, kind="groupchat", more=forged)
            await eve.done()
            ann.write("while away", to=room, kind="groupchat")
            await ann.done()
            async with home.connected() as chat:
                await ann.until(lambda: len(home.taken) == 4)
                assert await chat.send(Outgoing(id="r-1", place=room, text="all is well")) == "r-1"
                ann.write("end", to=room, kind="groupchat")
                await ann.until(lambda: "end" in home.texts)
        assert [(message.sender, message.text) for message in home.taken[3:]] == [
            (ANN, "while away"),
            (ANN, "end"),
        ]
        assert ann.texts.count("all is well") == 1

    run(main)


def test_C17_in_a_room_that_shows_no_addresses_nobody_is_known(prosody: Prosody, tmp_path: Path) -> None:
    async def main() -> None:
        room = f"hidden@{ROOMS}"
        home = Home(prosody, tmp_path, rooms=(room,))
        async with Peer(prosody, "ann") as ann:
            await ann.enter(room, "ann")
            await ann.configure(room, "muc#roomconfig_whois", "moderators")
            async with home.connected():
                ann.write("narval: status", to=room, kind="groupchat")
                await ann.done()
                ann.write("end")
                await ann.until(lambda: "end" in home.texts)
                assert home.texts == ["end"]
                # what is shown from now on counts, and no longer than that
                hidden = f"room {room} shows no addresses, so no person is known there"
                await ann.until(lambda: home.warnings[-1] == hidden)
                await ann.configure(room, "muc#roomconfig_whois", "anyone")
                await ann.enter(room, "ann-2")
                ann.write("narval: runs", to=room, kind="groupchat")
                await ann.until(lambda: len(home.taken) == 2)
                assert home.taken[1].sender == ANN
                await ann.configure(room, "muc#roomconfig_whois", "moderators")
                ann.write("narval: work", to=room, kind="groupchat")
                await ann.done()
                ann.write("end again")
                await ann.until(lambda: "end again" in home.texts)
                assert len(home.taken) == 3

    run(main)


# --- hostile streams --------------------------------------------------------------------------------------


STREAM = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"
BOMB = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]>"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (f"{BOMB}{STREAM}", "document type"),
        (f"{STREAM}<message from='{ANN}'><body>before TLS</body></message>%s", "offers no TLS"),
        (
            f"{STREAM}<stream:error><see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>evil.example"
            "</see-other-host></stream:error>",
            "ended the connection: see-other-host",
        ),
        (f"{STREAM}<message><body>" + "x" * 9_000_000, "a stanza of more than 8,388,608 bytes"),
        ("nothing of XML", "not well-formed|syntax error"),
    ],
    ids=["bomb", "message", "elsewhere", "endless", "noise"],
)
def test_C17_before_tls_nothing_is_believed(tmp_path: Path, said: str, reason: str) -> None:
    plain = "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms>"
    text = said.replace("%s", f"<stream:features>{plain}</stream:features>")
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            heard.append(await reader.read(1000))
            writer.write(text.encode())
            await writer.drain()
            heard.append(await reader.read(1000))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = ChatSettings(name="phone", kind="xmpp", user=NARVAL, server=f"127.0.0.1:{port}")
        taken: list[Incoming] = []
        warnings: list[str] = []

        async def take(messages: Sequence[Incoming], _: str) -> None:
            taken.extend(messages)

        async def tell(warning: str) -> None:
            warnings.append(warning)

        with pytest.raises(ConnectionError, match=reason):
            await open_chat(settings, tmp_path, PASSWORD).listen("", take, tell)
        assert not warnings, "no session was accepted"
        assert not taken
        assert b"auth" not in b"".join(heard)
        server.close()

    run(main)


def test_C17_a_stanza_without_bottom_or_end_says_nothing_and_harms_nobody(
    prosody: Prosody, tmp_path: Path
) -> None:
    async def main() -> None:
        home = Home(prosody, tmp_path)
        async with home.connected(), Peer(prosody, "ann") as ann:
            head = f"<message from='{EVE}' type='chat'><body>hello</body>"
            home.hear(f"{head}{'<a>' * 30_000}{'</a>' * 30_000}</message>")
            home.hear(f"{head}{'<a/>' * 30_000}</message>")
            home.hear(f"{head}<a>{'b' * 600_000}</a></message>")
            long = "z" * 150_000
            home.hear(
                f"<message from='{ANN}' type='chat' id='{long}'><body>{long}</body>"
                f"<reply xmlns='urn:xmpp:reply:0' id='{long}'/></message>"
            )
            home.hear(f"<message from='@@@' type='chat'>{head}</message></message>")
            home.hear(
                "<presence from='\u2100@@' type='subscribe'/><iq from='///' type='get' id='1'><a/></iq>"
            )
            ann.write("end")
            await ann.until(lambda: "end" in home.texts)
            cut, _ = sorted(home.taken, key=lambda message: message.text, reverse=True)
            assert (len(cut.text), len(cut.replies_to)) == (64_000, 500)
            assert len(cut.id) < 600

    run(main)


# --- what a message says ----------------------------------------------------------------------------------


def test_C14a_edits_answers_files_forwarded_and_encrypted_messages_are_told_apart(
    prosody: Prosody, tmp_path: Path
) -> None:
    link = "https://up.example.org/1/a%20b.jpg"
    hint = "This message is encrypted."

    async def main() -> None:
        home = Home(prosody, tmp_path)
        async with home.connected(), Peer(prosody, "ann") as ann:
            ann.write("5 pm", more="<replace xmlns='urn:xmpp:message-correct:0' id='m'/>")
            ann.write("gone", more="<retract xmlns='urn:xmpp:message-retract:1' id='m'/>")
            ann.write(
                "&gt; approve?\nyes",
                more="<reply xmlns='urn:xmpp:reply:0' to='x' id='n-5'/><fallback xmlns='urn:xmpp:fallback:0' "
                "for='urn:xmpp:reply:0'><body start='0' end='11'/></fallback>",
            )
            ann.write(link, more=f"<x xmlns='jabber:x:oob'><url>{link}</url></x>")
            ann.write("aesgcm", more="<x xmlns='jabber:x:oob'><url>aesgcm://up.example.org/1</url></x>")
            ann.write("look", more=FORGED)
            keys = "<encrypted xmlns='eu.siacs.conversations.axolotl'>%s</encrypted>"
            ann.write(hint, more=keys % "<payload>x</payload>")
            ann.write("", more=keys % "" + "<store xmlns='urn:xmpp:hints'/>")
            ann.write(hint, more="<openpgp xmlns='urn:xmpp:openpgp:0'>x</openpgp>")
            ann.write("", more="<received xmlns='urn:xmpp:receipts' id='n-5'/>")
            ann.write("end")
            await ann.until(lambda: "end" in home.texts)
        edit, withdrawn, answer, file, no_file, forwarded, omemo, openpgp, _ = home.taken
        assert edit.is_edit
        assert withdrawn.is_edit
        assert (answer.text, answer.replies_to, answer.is_edit) == ("yes", "n-5", False)
        assert file.text == ""
        assert file.file == IncomingFile(name="a b.jpg", media_type="image/jpeg", size=None, reference=link)
        assert (no_file.text, no_file.file) == ("aesgcm", None)
        assert (forwarded.text, forwarded.is_forwarded, forwarded.sender) == ("look", True, ANN)
        assert omemo.is_encrypted
        assert openpgp.is_encrypted
        assert omemo.text == openpgp.text == ""

    run(main)


class Uploads(LoopbackServer):
    """A server where people leave files, by TLS."""

    def __init__(self, certificate: str, key: str) -> None:
        super().__init__()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = b"x" * (50_000 if "large" in handler.path else 50)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


def test_C8_a_file_is_fetched_by_https_alone_from_where_the_settings_allow(
    prosody: Prosody, tmp_path: Path
) -> None:
    server = Uploads(*prosody.certificate)

    async def main() -> None:
        chats = {
            allow: open_chat(Home(prosody, tmp_path, allow=allow).settings, tmp_path, PASSWORD)
            for allow in ((), (server.place,))
        }
        path = tmp_path / "file"
        link = f"https://{server.place}"

        async def fetch(url: str, allow: tuple[str, ...] = (server.place,)) -> None:
            file = IncomingFile(name="a", media_type="", size=None, reference=url)
            await chats[allow].fetch(file, path, 1000)

        await fetch(f"{link}/a")
        assert path.read_bytes() == b"x" * 50
        for url, allow, reason in (
            (f"{link}/a", (), r"to allow it, write allow = \[\"127.0.0.1:\d+\"\] there"),
            (f"{link}/large", (server.place,), "at most 1,000 bytes"),
            (f"http://{server.place}/a", (server.place,), "by https"),
        ):
            with pytest.raises(ChatError, match=reason) as caught:
                await fetch(url, allow)
            assert caught.value.final

    try:
        run(main)
    finally:
        server.close()
