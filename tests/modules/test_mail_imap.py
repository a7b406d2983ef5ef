"""Mailboxes on a server: IMAP, its connection, its certificate (N35, N36; docs/reference/modules/mail.md)."""

from __future__ import annotations

import asyncio
import imaplib
import ssl
from pathlib import Path
from typing import Any

import pytest

from modules import mail
from modules.mail import boxes as mail_boxes
from modules.mail import letters
from modules.mail.mailbox import Mailbox
from narval.core.errors import ActionError
from tests.modules.imap_server import ImapServer
from tests.modules.mailboxes import letter, read, subjects, watching
from tests.modules.mailboxes import no_thread_is_left as no_thread_is_left


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "imap-secret").write_text("pass word\n")
    (tmp_path / "etc" / "imap-secret").chmod(0o600)
    return tmp_path


def test_N36_imap_gives_what_is_there_then_what_comes_and_alters_nothing(home: Path) -> None:
    async def scenario() -> None:
        async with ImapServer(letter(1), letter(2)) as server, watching(home, server.element()) as watcher:
            assert subjects(await watcher.take(2)) == ["mail 1", "mail 2"]
            waiting = asyncio.ensure_future(watcher.take())
            await server.idling.wait()
            server.deliver(letter(3))
            assert subjects(await waiting) == ["mail 3"]
        commands = {command.split()[0] for command in server.asked}
        assert commands <= {"CAPABILITY", "LOGIN", "EXAMINE", "UID", "IDLE", "LOGOUT"}
        assert all("PEEK" in command for command in server.asked if "fetch" in command.lower())

    asyncio.run(scenario())


def test_N35_after_a_restart_imap_fetches_only_what_is_new(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "SAFE_SECONDS", 0)

    async def scenario() -> None:
        async with ImapServer(letter(1), letter(2)) as server:
            async with watching(home, server.element()) as watcher:
                await watcher.take(2)
                await watcher.catch_up()
            server.deliver(letter(3))
            server.asked.clear()
            async with watching(home, server.element()) as watcher:
                assert subjects(await watcher.take()) == ["mail 3"]
            assert sum("fetch" in command.lower() for command in server.asked) == 1
            server.validity = 8  # the server numbers its mails anew: what is known means nothing any more
            async with watching(home, server.element()) as watcher:
                assert len(await watcher.take(3)) == 3

    asyncio.run(scenario())


def test_N36_a_lost_imap_connection_is_told_once_and_made_again(home: Path) -> None:
    async def scenario() -> None:
        async with ImapServer(letter(1)) as server, watching(home, server.element()) as watcher:
            await watcher.take()
            waiting = asyncio.ensure_future(watcher.take(2))
            await server.idling.wait()
            server.hang_up()
            server.mails[2] = letter(2)
            assert subjects(await waiting) == ["mailbox-unreachable", "mail 2"]

    asyncio.run(scenario())


def test_what_a_server_got_before_since_is_left_out_and_its_flags_are_told(home: Path) -> None:
    async def scenario() -> None:
        async with ImapServer(letter(1), letter(2), letter(3)) as server:
            server.dates = {2: "02-Nov-2026 09:00:01 +0100", 3: "02-Nov-2026 08:30:00 +0000"}
            server.flags = {3: r"\Seen \ANSWERED $Later"}
            xml = server.element(since="2026-11-02T08:00:00Z")
            async with watching(home, xml) as watcher:
                second, third = await watcher.take(2)
            assert subjects([second, third]) == ["mail 2", "mail 3"]
            assert [second.attributes.get(name) for name in ("seen", "answered")] == [None, None]
            assert [third.attributes.get(name) for name in ("seen", "answered")] == ["yes", "yes"]
            assert not any("fetch 1 " in command.lower() for command in server.asked)

    asyncio.run(scenario())


def test_imap_without_idle_is_read_all_the_same(home: Path) -> None:
    async def scenario() -> None:
        async with ImapServer(letter(1), idle=False) as server, watching(home, server.element()) as watcher:
            assert subjects(await watcher.take()) == ["mail 1"]
            await watcher.catch_up()
        assert not any(command.startswith("IDLE") for command in server.asked)

    asyncio.run(scenario())


def test_a_mail_that_comes_while_another_is_fetched_is_not_left_for_later(home: Path) -> None:
    async def scenario() -> None:
        async with ImapServer(letter(1)) as server:
            answer = server.respond

            def deliver_meanwhile(command: str, rest: str) -> bytes:
                told = answer(command, rest)
                if "fetch" in rest.lower() and len(server.mails) == 1:
                    server.mails[2] = letter(2)
                    return told + b"* 2 EXISTS\r\n"
                return told

            server.respond = deliver_meanwhile  # type: ignore[method-assign]
            async with watching(home, server.element()) as watcher:
                assert subjects(await watcher.take(2)) == ["mail 1", "mail 2"]

    asyncio.run(scenario())


def test_a_mail_too_large_for_imap_is_told_and_the_next_is_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "MAX_MAIL", 1_000)

    async def scenario() -> None:
        async with (
            ImapServer(letter(1, "x" * 5_000), letter(2)) as server,
            watching(home, server.element()) as watcher,
        ):
            assert subjects(await watcher.take(2)) == ["bad-mail", "mail 2"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"user": "stranger"}, "refuses the login of stranger: .AUTHENTICATIONFAILED. who are you"),
        ({"secret": ""}, 'account imap: expected secret="NAME", where etc/NAME or the environment variable'),
        ({"secret": "nothing"}, "neither in the environment nor a file"),
        ({"secret": "../etc/imap-secret"}, "the name of an environment variable or of a file"),
        ({"host": "imap.example.org"}, "in the clear"),
        ({"tls": "maybe"}, "implicit, starttls or none"),
        ({"port": "0x10"}, "port"),
    ],
)
def test_an_imap_account_that_cannot_be_used_ends_the_step(
    home: Path, more: dict[str, str], message: str
) -> None:
    async def scenario() -> None:
        async with ImapServer() as server, watching(home, server.element(**more)) as watcher:
            with pytest.raises(ActionError, match=message) as caught:
                await watcher.take()
            assert caught.value.kind == "bad-account"

    asyncio.run(scenario())


def test_a_secret_that_others_may_read_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = Mailbox({"name": "x", "secret": "imap-secret"}, home)
    assert account.secret() == "pass word"
    (home / "etc" / "imap-secret").chmod(0o640)
    with pytest.raises(ActionError, match="chmod 600"):
        account.secret()
    monkeypatch.setenv("imap-secret", "from the environment")
    assert account.secret() == "from the environment"


@pytest.mark.parametrize(
    ("tls", "opener", "port"), [({}, "IMAP4_SSL", 993), ({"tls": "starttls"}, "IMAP4", 143)]
)
def test_imap_checks_the_certificate_of_the_server(
    home: Path, monkeypatch: pytest.MonkeyPatch, tls: dict[str, str], opener: str, port: int
) -> None:
    asked: dict[str, Any] = {}

    def connect(_: object, host: str, port: int, **given: Any) -> None:
        asked.update(given, host=host, port=port)
        if opener == "IMAP4_SSL":
            raise ConnectionRefusedError

    def starttls(_: object, context: ssl.SSLContext) -> None:
        asked.update(ssl_context=context)
        raise ConnectionRefusedError

    monkeypatch.setattr(getattr(imaplib, opener), "__init__", connect)
    monkeypatch.setattr(imaplib.IMAP4, "starttls", starttls)
    account = Mailbox({"kind": "imap", "host": "imap.example.org", "secret": "imap-secret"} | tls, home)
    with pytest.raises(letters.UnreachableError), mail_boxes.opened(account, letters.Signal()):
        pass
    assert (asked["host"], asked["port"]) == ("imap.example.org", port)
    assert asked["ssl_context"].verify_mode is ssl.CERT_REQUIRED
    assert asked["ssl_context"].check_hostname


def test_read_fails_when_the_server_is_out_of_reach(home: Path) -> None:
    xml = '<mailbox kind="imap" host="127.0.0.1" port="1" tls="none" user="you" secret="imap-secret"/>'
    with pytest.raises(ActionError, match=r"127\.0\.0\.1") as caught:
        read(home, xml)
    assert caught.value.kind == "mailbox-unreachable"
