"""Mailboxes on a server: IMAP, within limits even if the server trickles, floods or lies (N36, N37)."""

from __future__ import annotations

import io
import re
import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from narval import ActionError

from . import letters
from .letters import Letter, Session, Signal, UnreachableError
from .mailbox import Mailbox
from .wanted import told_of

if TYPE_CHECKING:
    from imaplib import IMAP4
else:
    IMAP4 = object

SERVER_SECONDS = 30
"""The seconds that a server may take to answer a command."""
IDLE_SECONDS = 5 * 60
"""The seconds until an IDLE is renewed; RFC 2177 allows 29 minutes, but routers forget silent connections."""
FIRST_IDLE_SECONDS = 2
"""The seconds of the first IDLE of a connection: a server that has not hung up by then works."""
ASK_SECONDS = 60
"""The seconds between two checks of a server without IDLE."""
ANSWER_SECONDS = 10 * 60
"""The most seconds for a whole answer, however steadily it trickles in: 64 MB at 110 kB a second."""
MOST_LINE = 20 * 1024 * 1024
"""The most bytes of a line: the numbers of two million mails."""
LULL_SECONDS = 1.0
"""The pause after two announcements in a row without any news."""
_FLAGS = re.compile(rb"FLAGS \(([^)]*)\)", re.IGNORECASE)
_UID = re.compile(rb"UID (\d+)", re.IGNORECASE)
_PASSES = re.compile(r"\[(UNAVAILABLE|INUSE|LIMIT|SERVERBUG)\]")
"""The codes of a server that refuses temporarily (RFC 5530)."""


class Incoming(io.RawIOBase):
    """The bytes that a server sends, limited in an answer's size and time."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self.sock = sock
        self.waits = True
        self.begin_answer()

    def begin_answer(self) -> None:
        """Begin another answer."""
        self._left, self._until = 2 * letters.MAX_MAIL, time.monotonic() + ANSWER_SECONDS

    def readable(self) -> bool:
        """Report that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read some bytes; None if there are none and it does not wait. Raises OSError beyond the limits."""
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError(f"an answer took longer than {ANSWER_SECONDS} seconds")
        self.sock.settimeout(min(seconds, SERVER_SECONDS) if self.waits else 0)
        try:
            count = self.sock.recv_into(buffer)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        self._left -= count
        if self._left < 0:
            raise OSError(f"an answer was longer than {2 * letters.MAX_MAIL >> 20} MB")
        return count


class Bounded(IMAP4):
    """The reading part of the standard library's client, within limits."""

    _incoming: Incoming | None = None
    _buffered: io.BufferedReader

    def _answers(self) -> io.BufferedReader:
        """The reader of the current socket, which changes once TLS has begun."""
        if self._incoming is None or self._incoming.sock is not self.sock:
            self._incoming = Incoming(self.sock)
            self._buffered = io.BufferedReader(self._incoming)
        return self._buffered

    def read(self, size: int) -> bytes:
        """Read `size` bytes. Raises IMAP4.abort for more than a mail may have."""
        if size > 2 * letters.MAX_MAIL:
            raise self.abort(f"announces {size:,} bytes at once")
        return self._answers().read(size)

    def readline(self) -> bytes:
        """Read a line."""
        line = self._answers().readline(MOST_LINE + 1)
        if len(line) > MOST_LINE:
            raise self.abort(f"sends a line of more than {MOST_LINE >> 20} MB")
        return line

    def send(self, data: Any) -> None:
        """Send a command, and expect an answer to it."""
        self._answers()
        if self._incoming is not None:
            self._incoming.begin_answer()
        self.sock.settimeout(SERVER_SECONDS)
        super().send(data)

    def has_more(self) -> bool:
        """True if there is something to read already."""
        answers, incoming = self._answers(), self._incoming
        assert incoming is not None
        incoming.waits = False
        try:
            return bool(answers.peek(1))
        finally:
            incoming.waits = True


@cache
def _kind_of_client(*, secure: bool) -> Any:
    """The class of clients, over TLS from the beginning if `secure`; imported when the first is made."""
    import imaplib

    return type("Client", (Bounded, imaplib.IMAP4_SSL if secure else imaplib.IMAP4), {})


def _server(box: Mailbox) -> Any:
    """The connected server of an account, before the login."""
    import imap_tools

    host, port = box.given.get("host", ""), box.port(implicit=993, starttls=143, none=143)
    more = {"ssl_context": ssl.create_default_context()} if box.tls == "implicit" else {}
    client = _kind_of_client(secure=bool(more))(host, port, timeout=SERVER_SECONDS, **more)
    if box.tls == "starttls":
        client.starttls(ssl.create_default_context())

    class Server(imap_tools.BaseMailBox):
        def _get_mailbox_client(self) -> Any:
            return client

    return Server()


class Connection:
    """A folder of an account on a server, opened; use `connected`."""

    def __init__(self, box: Mailbox, server: Any, secret: str) -> None:
        self.box, self.server, self._secret = box, server, secret

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Raise UnreachableError for any fault of the server, or of the connection to it.

        The words of a server may contain the password sent to it.
        """
        try:
            yield
        except ActionError:
            raise
        except Exception as error:
            said = self._said(error) or type(error).__name__
            raise UnreachableError(f"account {self.box}: {self.box.given.get('host')}: {said}") from error

    def _said(self, error: Exception) -> str:
        """The words of an error; for an invalid answer, the server's words; without the password."""
        answer = getattr(error, "command_result", None)
        lines = answer[1] if isinstance(answer, tuple) and isinstance(answer[1], list) else None
        said = str(error)
        if lines is not None:
            said = b" ".join(line for line in lines if isinstance(line, bytes)).decode("utf-8", "replace")
        return said.replace(self._secret, "…") if self._secret else said

    def begin(self, *, readonly: bool) -> None:
        """Log in, and open the folder. Raises ActionError if the server refuses."""
        import imap_tools

        settings = self.box.given
        for value in (settings.get("user", ""), settings.get("folder", ""), self._secret):
            if not value.isprintable():  # a line break would start another command
                raise self.box.fault("expected user, folder and password without control characters")
        try:
            self.server.login(settings.get("user", ""), self._secret, initial_folder=None)
            # Many servers offer more after a login, and the library does not ask for it.
            words = self.server.client.capability()[1][-1] or b""
            self.server.client.capabilities = tuple(words.decode("ascii", "replace").upper().split())
            self.server.folder.set(settings.get("folder", "INBOX"), readonly=readonly)
        except (imap_tools.MailboxLoginError, imap_tools.MailboxFolderSelectError) as error:
            if _PASSES.search(str(error)):
                raise
            raise self.box.fault(self._refusal(error)) from None
        except self.server.client.readonly:
            folder = settings.get("folder", "INBOX")
            raise self.box.fault(f"the server lets {folder} be read, and nothing be altered there") from None

    def _refusal(self, error: Exception) -> str:
        """The server's reason for a refusal, and how to correct it."""
        import imap_tools

        settings, said = self.box.given, self._said(error)
        if isinstance(error, imap_tools.MailboxLoginError):
            user, secret = settings.get("user", ""), settings.get("secret", "")
            wish = f"set user of {self.box.element} right, or the password in etc/{secret} (or ${secret})"
            return f"the server refuses the login of {user or 'no user'}: {said}; {wish}"
        folder = settings.get("folder", "INBOX")
        return f"the server does not open folder {folder}: {said}; set folder of {self.box.element} right"


@contextmanager
def connected(box: Mailbox, *, readonly: bool) -> Iterator[Connection]:
    """A folder of an account. Raises ActionError for an impossible one, UnreachableError for a lost one."""
    made = Connection(box, None, box.secret())
    with made.reaching():
        made.server = _server(box)
    try:
        with made.reaching():
            made.begin(readonly=readonly)
        yield made
    finally:
        for farewell in (made.server.logout, made.server.client.shutdown):
            with suppress(Exception):  # the connection may be gone already
                farewell()


@contextmanager
def imap(box: Mailbox, signal: Signal) -> Iterator[Session]:
    """An IMAP session on the mailbox's folder, opened read only."""
    with connected(box, readonly=True) as connection:
        folder = Folder(connection, signal)
        yield Session(folder.letters, folder.wait, is_local=False)


def _internal_date(line: bytes) -> float | None:
    """The moment when a server received a letter, by its answer; None without one."""
    import imaplib

    date = imaplib.Internaldate2tuple(line)
    return None if date is None else time.mktime(date)


def _flags(*said: object) -> tuple[str, ...]:
    """The flags in the server's words before and after a letter."""
    lines = (line for line in said if isinstance(line, bytes))
    written = b" ".join(flags[1] for line in lines for flags in _FLAGS.finditer(line))
    return told_of({flag[:1] + flag[1:].capitalize() for flag in written.decode("ascii", "replace").split()})


class Folder:
    """A folder for reading and waiting."""

    def __init__(self, connection: Connection, signal: Signal) -> None:
        self._connection, self._server, self._signal = connection, connection.server, signal
        client = self._server.client
        with connection.reaching():
            self._epoch = (client.response("UIDVALIDITY")[1][0] or b"0").decode()
            signal.interrupt = lambda: client.sock.shutdown(socket.SHUT_RDWR)
        self._empty_rounds = 0
        self._idle_seconds = FIRST_IDLE_SECONDS

    def letters(self, seen: set[str]) -> Iterator[Letter]:
        """The unknown letters, peeked at, so that they stay unread on the server."""
        client, box = self._server.client, self._connection.box
        since = box.since
        more = True
        self._empty_rounds += 1
        while more:
            read = [int(uid) for ident in seen for at, _, uid in [ident.partition(".")] if at == self._epoch]
            with self._connection.reaching():
                client.response("EXISTS")  # removed: a later response has replaced it
                uids = self._server.uids(f"UID {max(read, default=0) + 1}:*", charset=None)
                numbers = sorted(map(int, uids))
                first = min((uid for uid in numbers if f"{self._epoch}.{uid}" not in seen), default=None)
                old = self._older(first, since) if first is not None and since is not None else set()
            more = False
            for uid in numbers:
                ident = f"{self._epoch}.{uid}"
                if ident in seen:
                    continue
                if uid in old:
                    yield Letter(ident, f"{box} uid {uid}", is_old=True)
                    continue
                with self._connection.reaching():
                    fields = f"(FLAGS BODY.PEEK[]<0.{letters.MAX_MAIL + 1}>)"
                    _, data = client.uid("fetch", str(uid), fields)
                for at, piece in enumerate(data):
                    if isinstance(piece, tuple):  # missing if the mail was deleted in between
                        more, self._empty_rounds = True, 0
                        # the server's words after the mail may be its flags
                        flags = _flags(piece[0], *data[at + 1 : at + 2])
                        yield Letter.bounded(ident, f"{box} uid {uid}", piece[1], flags)
                        break
            # Only if this round returned something: a server that miscounts would be asked for ever.
            more = more and client.response("EXISTS")[1] != [None]

    def _older(self, first: int, since: float) -> set[int]:
        """The letters, from one on, that the server received before a moment."""
        client = self._server.client
        _, data = client.uid("fetch", f"{first}:*", "(INTERNALDATE)")
        older = set[int]()
        for line in filter(None, data):
            uid, date = _UID.search(line), _internal_date(line)
            if uid is not None and date is not None and date < since:
                older.add(int(uid[1]))
        return older

    def wait(self) -> bool:
        """Wait until the server reports a change; a server that cannot is asked at intervals."""
        client = self._server.client
        if self._empty_rounds > 1:
            self._signal.wait(LULL_SECONDS)
        with self._connection.reaching():
            if "IDLE" in client.capabilities:
                self._server.idle.start()
                if not client.has_more():
                    # Not its own `poll`, which mistakes half a line for the end of the connection.
                    waiting = select.poll()
                    waiting.register(client.sock, select.POLLIN)
                    waiting.poll(self._idle_seconds * 1_000)
                    self._idle_seconds = IDLE_SECONDS
                self._server.idle.stop()
            else:
                self._signal.wait(ASK_SECONDS)
                client.noop()
        return True
