"""Mailboxes: what is there and what comes, each mail once, and the mailbox as it was (N36, N37)."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import imap_tools
import pytest

from modules import mail, mail_boxes
from modules.mail_boxes import Account
from narval.errors import ActionError
from narval.memory.elements.element import Element
from narval.runtime.calls.context import CallContext, Target


def letter(number: int, text: str = "text", **fields: str) -> bytes:
    header = {"From": "a@example.org", "Message-ID": f"<{number}@example.org>", "Subject": f"mail {number}"}
    header |= {name.replace("_", "-"): value for name, value in fields.items()}
    return "".join(f"{name}: {value}\n" for name, value in header.items()).encode() + f"\n{text}\n".encode()


def maildir(path: Path, count: int) -> Path:
    for folder in ("tmp", "new", "cur"):
        (path / folder).mkdir(parents=True)
    for number in range(count):
        (path / "new" / f"{1793600000 + number}.{number}.host").write_bytes(letter(number))
    return path


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
        for path in folder.rglob("*")
        if path.is_file()
    }


class Watcher:
    """`mail.watch` on a mailbox, asked for one yield after the other: asking says that the last is kept."""

    def __init__(self, home: Path, xml: str) -> None:
        self.call = CallContext("call-1", 1, "watch", home, target=Target(where="source"))
        self.taken: list[Element] = []
        self._context = self.call.context()
        self._source = mail.watch(Element(1, xml.encode()))

    async def take(self, count: int = 1) -> list[Element]:
        """The next elements, at least so many."""
        taken: list[Element] = []
        while len(taken) < count:
            taken += [Element(0, xml) for xml in await self._next()]
        self.taken += taken
        return taken

    async def catch_up(self) -> None:
        """Go on until the source says that it has caught up; nothing more may come meanwhile."""
        self.call.has_caught_up = False
        going_on = self._next()
        while not self.call.has_caught_up:
            assert not going_on.done()
            await asyncio.sleep(0.005)
        going_on.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going_on

    def _next(self) -> asyncio.Task[list[bytes]]:
        async def step() -> list[bytes]:
            return await anext(self._source)

        return asyncio.get_running_loop().create_task(step(), context=self._context)

    async def close(self) -> None:
        """Nobody listens any more."""
        await self._source.aclose()


@contextlib.asynccontextmanager
async def watching(home: Path, xml: str) -> AsyncIterator[Watcher]:
    watcher = Watcher(home, xml)
    try:
        yield watcher
    finally:
        await watcher.close()


Scenario = Callable[[Watcher], Coroutine[Any, Any, None]]


def watched(home: Path, xml: str, scenario: Scenario) -> list[Element]:
    """All that is taken while a scenario is played on a watched mailbox."""

    async def play() -> list[Element]:
        async with watching(home, xml) as watcher:
            await scenario(watcher)
            return watcher.taken

    return asyncio.run(play())


def subjects(elements: list[Element]) -> list[str]:
    return [element.attributes.get("subject", element.attributes.get("type", "")) for element in elements]


def read(home: Path, xml: str) -> list[Element]:
    context = CallContext("call-1", 1, "read", home).context()
    return [Element(0, each) for each in context.run(mail.read, Element(1, xml.encode()))]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if not thread.name.startswith("asyncio"):
            thread.join()


# --- Maildir ----------------------------------------------------------------------------------------------

BOX = '<mailbox name="demo" kind="maildir" path="Maildir"/>'


def test_read_gives_each_mail_of_a_maildir_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 3)
    (folder / "cur" / "1793500000.9.host:2,S").write_bytes(letter(9))
    (folder / "new" / ".keep").write_bytes(b"")
    before = snapshot(folder)
    assert subjects(read(tmp_path, BOX)) == ["mail 9", "mail 0", "mail 1", "mail 2"]
    assert snapshot(folder) == before


def test_read_tells_of_a_bad_mail_and_gives_the_others(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 2)
    (folder / "new" / "1793600000.5.host").write_bytes(b"\x00\x01 no mail at all")
    found = read(tmp_path, BOX)
    assert subjects(found) == ["mail 0", "bad-mail", "mail 1"]
    error = found[1]
    assert error.attributes["mailbox"] == "demo"
    assert (tmp_path / error.attributes["file"]).read_bytes() == b"\x00\x01 no mail at all"
    assert "no header" in error.text


def test_a_mail_that_is_too_large_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = maildir(tmp_path / "Maildir", 1)
    (folder / "new" / "1793600005.5.host").write_bytes(letter(5, "x" * 2_000))
    monkeypatch.setattr(mail_boxes, "MAX_MAIL", 1_000)
    found = read(tmp_path, BOX)
    assert subjects(found) == ["mail 0", "bad-mail"]
    assert "1793600005.5.host" in found[1].text
    assert "file" not in found[1].attributes
    (again,) = [error for error in read(tmp_path, BOX) if error.name == "error"]
    assert again.attributes["key"] == found[1].attributes["key"], "a source tells of it once (N37)"


def test_a_full_disk_is_not_the_fault_of_a_mail(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 1)
    (tmp_path / "var").write_text("a file where a folder should be")
    with pytest.raises(OSError, match="var"):
        read(tmp_path, BOX)


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ('<mailbox path="nowhere"/>', "expected a Maildir"),
        ('<mailbox kind="pop" path="x"/>', "one of maildir, mbox, imap"),
        ('<mailbox kind="mbox"/>', "expected a path"),
    ],
)
def test_an_account_that_cannot_be_opened_says_what_was_expected(
    tmp_path: Path, xml: str, message: str
) -> None:
    with pytest.raises(ActionError, match=message) as caught:
        read(tmp_path, xml)
    assert caught.value.kind == "bad-account"


def test_N36_a_watched_maildir_gives_what_is_there_then_what_comes(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 3)

    async def scenario(watcher: Watcher) -> None:
        await watcher.take(3)
        assert not watcher.call.has_caught_up
        (folder / "tmp" / "x").write_bytes(letter(7))
        (folder / "tmp" / "x").rename(folder / "new" / "1793600100.7.host")
        await watcher.take()
        assert watcher.call.has_caught_up
        (folder / "new" / "1793600100.7.host").rename(folder / "cur" / "1793600100.7.host:2,S")
        (folder / "tmp" / "y").write_bytes(letter(8))
        os.link(folder / "tmp" / "y", folder / "new" / "1793600100.8.host")
        await watcher.take()

    found = watched(tmp_path, BOX, scenario)
    assert subjects(found) == ["mail 0", "mail 1", "mail 2", "mail 7", "mail 8"]


def test_N36_an_empty_maildir_is_caught_up_at_once(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 0)
    assert watched(tmp_path, BOX, Watcher.catch_up) == []


def test_a_thousand_mails_come_in_few_batches(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 1_000)
    yields = 0

    async def scenario(watcher: Watcher) -> None:
        nonlocal yields
        taken = 0
        while taken < 1_000:
            taken += len(await watcher.take())
            yields += 1

    assert len(watched(tmp_path, BOX, scenario)) == 1_000
    assert yields == 1_000 // mail_boxes.BATCH


def test_N35_a_restart_reads_what_was_not_recorded_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maildir(tmp_path / "Maildir", 120)
    monkeypatch.setattr(mail, "SAFE_SECONDS", 0)

    async def stopped_while_the_second_batch_is_recorded(watcher: Watcher) -> None:
        assert len(await watcher.take()) == 50
        assert len(await watcher.take()) == 50

    async def rest(watcher: Watcher) -> None:
        await watcher.take(70)
        await watcher.catch_up()

    first = watched(tmp_path, BOX, stopped_while_the_second_batch_is_recorded)
    second = watched(tmp_path, BOX, rest)
    assert subjects(first)[:50] + subjects(second) == [f"mail {number}" for number in range(120)]
    assert watched(tmp_path, BOX, Watcher.catch_up) == []


def test_N35_what_was_recorded_only_just_is_read_again_as_a_power_cut_may_have_undone_it(
    tmp_path: Path,
) -> None:
    maildir(tmp_path / "Maildir", 3)

    async def scenario(watcher: Watcher) -> None:
        await watcher.take(3)
        await watcher.catch_up()

    keys = [
        [each.attributes["key"] for each in watched(tmp_path, BOX, scenario)]
        for _ in ("before", "after a restart")
    ]
    assert keys[0] == keys[1]


def test_a_mail_that_is_written_bit_by_bit_ends_up_whole(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 0)
    whole = letter(1, "one\ntwo\nthree")

    async def scenario(watcher: Watcher) -> None:
        with (folder / "new" / "1793600000.1.host").open("wb") as file:
            for at in range(0, len(whole), 10):
                file.write(whole[at : at + 10])
                file.flush()
                await asyncio.sleep(0.01)
        while "three" not in (await watcher.take())[-1].text:
            pass

    found = watched(tmp_path, BOX, scenario)
    assert found[-1].tree().findtext("body") == "one\ntwo\nthree"


def test_an_error_of_the_follower_ends_the_step(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 1)
    (tmp_path / "var").write_text("a file where a folder should be")

    async def scenario(watcher: Watcher) -> None:
        with pytest.raises(OSError, match="var"):
            await watcher.take()

    watched(tmp_path, BOX, scenario)


def test_a_home_in_memory_keeps_files_for_as_long_as_the_program_runs(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 1)
    context = CallContext("call-1", 1, "read", None).context()
    mailbox = Element(1, f'<mailbox path="{tmp_path}/Maildir"/>'.encode())
    (found,) = (Element(0, each) for each in context.run(mail.read, mailbox))
    (file,) = found.xpath("email/raw/@file")
    assert Path(file).read_bytes() == letter(0)


# --- mbox -------------------------------------------------------------------------------------------------

MBOX = '<mailbox name="old" kind="mbox" path="mbox"/>'
FROM = b"From a@example.org Mon Nov  2 08:00:00 2026\n"


def test_an_mbox_is_split_unquoted_and_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "mbox"
    file.write_bytes(
        b"".join(
            (
                FROM + letter(1, "first\nFrom here it goes on\n\n>From there\n>>From nowhere") + b"\n",
                FROM + letter(2) + b"\n",
                FROM + letter(3).replace(b"\n", b"\r\n") + b"\r\n",
            )
        )
    )
    before = file.read_bytes(), file.stat().st_mtime_ns
    found = read(tmp_path, MBOX)
    assert subjects(found) == ["mail 1", "mail 2", "mail 3"]
    assert found[0].tree().findtext("body") == "first\nFrom here it goes on\n\nFrom there\n>From nowhere"
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_an_mbox_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path, MBOX) == []


def test_one_mail_of_an_mbox_may_be_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mbox").write_bytes(FROM + letter(1, "x\n" * 2_000) + b"\n" + FROM + letter(2))
    monkeypatch.setattr(mail_boxes, "MAX_MAIL", 1_000)
    assert subjects(read(tmp_path, MBOX)) == ["bad-mail", "mail 2"]


def test_N36_a_watched_mbox_gives_what_is_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "SAFE_SECONDS", 0)
    (tmp_path / "mbox").write_bytes(FROM + letter(1) + b"\n")

    async def scenario(watcher: Watcher) -> None:
        await watcher.take()
        with (tmp_path / "mbox").open("ab") as file:
            file.write(FROM + letter(2) + b"\n")
        await watcher.take()
        (tmp_path / "other").write_bytes(b"not ours")
        rewritten = tmp_path / "mbox.new"
        rewritten.write_bytes(FROM + letter(1) + b"\n" + FROM + letter(3) + b"\n")
        rewritten.replace(tmp_path / "mbox")
        await watcher.take()
        await watcher.catch_up()

    assert subjects(watched(tmp_path, MBOX, scenario)) == ["mail 1", "mail 2", "mail 3"]
    assert watched(tmp_path, MBOX, Watcher.catch_up) == []


DELIVERY = """
import fcntl, sys
with open(sys.argv[1], "ab") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    file.write(bytes.fromhex(sys.argv[2])); file.flush()
    print("half", flush=True); sys.stdin.readline()
    file.write(bytes.fromhex(sys.argv[3]))
"""


def test_an_mbox_that_is_being_delivered_to_is_left_alone_until_that_is_over(tmp_path: Path) -> None:
    file = tmp_path / "mbox"
    file.write_bytes(b"")
    whole = FROM + letter(1, "one\ntwo") + b"\n"
    arguments = [sys.executable, "-c", DELIVERY, str(file), whole[:60].hex(), whole[60:].hex()]

    async def scenario(watcher: Watcher) -> None:
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
            assert agent.stdout
            assert agent.stdin
            assert agent.stdout.readline() == b"half\n"
            await watcher.catch_up()
            agent.communicate(b"go on\n")

    assert watched(tmp_path, MBOX, scenario) == []
    (found,) = read(tmp_path, MBOX)
    assert found.tree().findtext("body") == "one\ntwo"
    with file.open("rb+") as again:
        fcntl.lockf(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- IMAP -------------------------------------------------------------------------------------------------


class ImapServer:
    """As much of RFC 3501 and RFC 2177 as a reader needs; what it was asked is kept in `asked`."""

    def __init__(self, *mails: bytes, idle: bool = True) -> None:
        self.mails = dict(enumerate(mails, 1))
        self.validity = 7
        self.capabilities = "IMAP4rev1 IDLE" if idle else "IMAP4rev1"
        self.asked: list[str] = []
        self.idling = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: list[asyncio.Task[None] | None] = []

    async def __aenter__(self) -> ImapServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.hang_up()
        await asyncio.gather(*filter(None, self._serving))

    def deliver(self, raw: bytes) -> None:
        """A mail arrives; whoever idles is told."""
        self.mails[max(self.mails, default=0) + 1] = raw
        for writer in self._writers:
            writer.write(f"* {len(self.mails)} EXISTS\r\n".encode())

    def hang_up(self) -> None:
        """All connections are lost."""
        self.idling.clear()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self._serving.append(asyncio.current_task())
        writer.write(b"* OK ready\r\n")
        try:
            while line := (await reader.readline()).decode().rstrip("\r\n"):
                tag, command, rest = (*line.split(" ", 2), "")[:3]
                self.asked.append(f"{command} {rest}".strip())
                if command == "IDLE":
                    writer.write(b"+ idling\r\n")
                    self.idling.set()
                    if await reader.readline() != b"DONE\r\n":
                        break
                    self.idling.clear()
                writer.write(
                    self._answer(command, rest) + f"{tag} {self._verdict(command, rest)}\r\n".encode()
                )
                if command == "LOGOUT":
                    break
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _verdict(self, command: str, rest: str) -> str:
        if command == "LOGIN" and rest != '"you" "pass word"':
            return "NO [AUTHENTICATIONFAILED] who are you?"
        return "OK [READ-ONLY] done" if command == "EXAMINE" else "OK done"

    def _answer(self, command: str, rest: str) -> bytes:
        if command == "CAPABILITY":
            return f"* CAPABILITY {self.capabilities}\r\n".encode()
        if command == "EXAMINE":
            return f"* {len(self.mails)} EXISTS\r\n* OK [UIDVALIDITY {self.validity}] ids\r\n".encode()
        if command == "LOGOUT":
            return b"* BYE\r\n"
        if found := re.fullmatch(r"SEARCH UID (\d+):\*", rest):
            last = max(self.mails, default=0)
            uids = [uid for uid in self.mails if uid >= int(found[1]) or uid == last]
            return f"* SEARCH {' '.join(map(str, uids))}\r\n".encode()
        if found := re.fullmatch(r"FETCH (\d+) \(BODY\.PEEK\[\]<0\.(\d+)>\)", rest, re.IGNORECASE):
            raw = self.mails[int(found[1])][: int(found[2])].replace(b"\n", b"\r\n")
            return f"* 1 FETCH (UID {found[1]} BODY[]<0> {{{len(raw)}}}\r\n".encode() + raw + b")\r\n"
        return b""

    def element(self, **more: str) -> str:
        given = {"name": "imap", "kind": "imap", "host": "127.0.0.1", "port": str(self.port), "tls": "none"}
        given |= {"user": "you", "secret": "imap-secret"} | more
        return "<mailbox " + " ".join(f'{name}="{value}"' for name, value in given.items()) + "/>"


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
            answer = server._answer

            def deliver_meanwhile(command: str, rest: str) -> bytes:
                told = answer(command, rest)
                if "fetch" in rest.lower() and len(server.mails) == 1:
                    server.mails[2] = letter(2)
                    return told + b"* 2 EXISTS\r\n"
                return told

            server._answer = deliver_meanwhile  # type: ignore[method-assign]
            async with watching(home, server.element()) as watcher:
                assert subjects(await watcher.take(2)) == ["mail 1", "mail 2"]

    asyncio.run(scenario())


def test_a_mail_too_large_for_imap_is_told_and_the_next_is_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_boxes, "MAX_MAIL", 1_000)

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
        ({"user": "stranger"}, "refuses it"),
        ({"secret": "nothing"}, "neither in the environment nor a file"),
        ({"secret": "../etc/imap-secret", "user": "x"}, "refuses it"),
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
    account = Account({"name": "x", "secret": "imap-secret"}, home)
    assert account.secret() == "pass word"
    (home / "etc" / "imap-secret").chmod(0o640)
    with pytest.raises(ActionError, match="chmod 600"):
        account.secret()
    monkeypatch.setenv("imap-secret", "from the environment")
    assert account.secret() == "from the environment"


@pytest.mark.parametrize(
    ("tls", "opener", "port"), [({}, "MailBox", 993), ({"tls": "starttls"}, "MailBoxStartTls", 143)]
)
def test_imap_checks_the_certificate_of_the_server(
    home: Path, monkeypatch: pytest.MonkeyPatch, tls: dict[str, str], opener: str, port: int
) -> None:
    asked: dict[str, Any] = {}

    def connect(host: str, port: int, **given: Any) -> None:
        asked.update(given, host=host, port=port)
        raise ConnectionRefusedError

    monkeypatch.setattr(imap_tools, opener, connect)
    account = Account({"kind": "imap", "host": "imap.example.org", "secret": "imap-secret"} | tls, home)
    with pytest.raises(mail_boxes.UnreachableError), mail_boxes._imap(account, mail_boxes.Signal()):
        pass
    assert (asked["host"], asked["port"]) == ("imap.example.org", port)
    assert asked["ssl_context"].verify_mode is ssl.CERT_REQUIRED
    assert asked["ssl_context"].check_hostname


def test_read_fails_when_the_server_is_out_of_reach(home: Path) -> None:
    xml = '<mailbox kind="imap" host="127.0.0.1" port="1" tls="none" user="you" secret="imap-secret"/>'
    with pytest.raises(ActionError, match=r"127\.0\.0\.1") as caught:
        read(home, xml)
    assert caught.value.kind == "mailbox-unreachable"
