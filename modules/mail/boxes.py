"""Mailboxes: a Maildir, an mbox, a server; read and never altered (N36, N37)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, NamedTuple

from lxml import etree

from narval import ActionError
from narval.runtime.calls.people.mail.account import Account
from narval.runtime.calls.people.mail.texts import fit
from narval.runtime.calls.people.mail.writing import SERVER_SECONDS

from .reading import read_mail
from .texts import CHUNK

MAX_MAIL = 64 * 1024 * 1024
"""A mail of more bytes stays where it is and is told by an error."""
BATCH, BATCH_BYTES = 50, 4 * 1024 * 1024
"""The most that one `yield` carries, so that a thousand mails are not a thousand commits."""
MOST_TOLD = 1_000
"""So many paths of changes are kept; were there more, each file is looked at."""
QUIET_SECONDS = 0.05
"""A mailbox is read once it has been left alone for this long: not everyone delivers in one stroke."""
IDLE_SECONDS = 5 * 60
"""An IDLE is renewed after this long; RFC 2177 allows 29 minutes, but routers forget silent connections."""


class Letter(NamedTuple):
    """A mail as its mailbox has it: `ident` is the mailbox's own name for it, `where` helps people find it,
    `fault` says why it has no `raw`.
    """

    ident: str
    where: str
    raw: bytes = b""
    fault: str = ""

    @classmethod
    def bounded(cls, ident: str, where: str, raw: bytes | None) -> Letter:
        """A letter whose content is left out when it is too large."""
        if raw is not None and len(raw) <= MAX_MAIL:
            return cls(ident, where, raw)
        return cls(ident, where, fault=f"larger than {MAX_MAIL >> 20} MB; left where it is")


class Batch(NamedTuple):
    """Elements to be recorded together, and the letters they come from; a wait follows the last one."""

    idents: list[str]
    elements: list[bytes]
    is_last: bool = False


class Session(NamedTuple):
    """An open mailbox: its letters that are not known yet, and a way to wait until there may be more."""

    letters: Callable[[set[str]], Iterator[Letter]]
    wait: Callable[[], None]


class UnreachableError(ActionError):
    """A server cannot be reached, or went away: it may come back."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "mailbox-unreachable")


class Signal:
    """The signal to the thread that follows a mailbox: something has changed, or the call is over.

    `told` are the paths that changed, as notices of the system name them; where very many did, some may be
    missing.
    """

    def __init__(self) -> None:
        self._changed = threading.Event()
        self.stopped = False
        self.only: Path | None = None
        self.told: deque[str] = deque(maxlen=MOST_TOLD)
        self.interrupt: Callable[[], None] = lambda: None

    def dispatch(self, event: Any) -> None:
        """Pass on a change; called by watchdog, in a thread of its own."""
        if self.only is None or os.fspath(self.only) in (event.src_path, event.dest_path):
            self.told += (event.src_path, event.dest_path)
            self._changed.set()

    def stop(self) -> None:
        """End whatever wait there is, and allow no other."""
        self.stopped = True
        self._changed.set()
        with suppress(OSError):
            self.interrupt()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for a change, and until there has been none for a moment."""
        changed = self._changed.wait(seconds)
        for _ in range(100):
            if self.stopped or not changed:
                return
            self._changed.clear()
            changed = self._changed.wait(QUIET_SECONDS)


def letters_as_they_come(box: Account, known: set[str], signal: Signal) -> Iterator[Batch]:
    """The letters of a mailbox, then those that arrive, until the signal stops; a lost server is retried."""
    pause = 1.0
    while not signal.stopped:
        try:
            with opened(box, signal) as session:
                while not signal.stopped:
                    yield from batches(box, session.letters(known), known)
                    pause = 1.0
                    session.wait()
        except UnreachableError as error:
            if pause == 1.0 and not signal.stopped:
                yield Batch([], [_error(box, error.kind, str(error))])
            signal.wait(pause)
            pause = min(2 * pause, 300.0)


def batches(box: Account, letters: Iterator[Letter], known: set[str]) -> Iterator[Batch]:
    """Letters made into elements, some at a time."""
    idents: list[str] = []
    elements: list[bytes] = []
    for letter in letters:
        known.add(letter.ident)
        idents.append(letter.ident)
        elements.append(element_of(box, letter))
        if len(elements) == BATCH or sum(map(len, elements)) > BATCH_BYTES:
            yield Batch(idents, elements)
            idents, elements = [], []
    yield Batch(idents, elements, is_last=True)


def element_of(box: Account, letter: Letter) -> bytes:
    """A letter as an `email`, or as an `error` that says why it is none; a full disk is another matter."""
    if letter.fault:
        key = hashlib.sha256(f"{box}\0{letter.ident}".encode()).hexdigest()
        return _error(box, "bad-mail", f"{letter.where}: {letter.fault}", {"key": key})
    try:
        return read_mail(letter.raw, box)
    except OSError:
        raise
    except Exception as error:  # whatever a hostile mail provokes costs that mail alone
        kept = box.keep([letter.raw], "mail.eml")
        where = kept | {"key": kept["sha256"]}
        return _error(box, "bad-mail", f"{letter.where} cannot be read as a mail: {error}", where)


def _error(box: Account, kind: str, message: str, where: dict[str, str] | None = None) -> bytes:
    error = etree.Element("error", {"type": kind, "mailbox": fit(str(box))} | (where or {}))
    etree.SubElement(error, "message").text = fit(message)
    return etree.tostring(error, encoding="utf-8")


@contextmanager
def _watched(folders: Iterable[Path], signal: Signal) -> Iterator[None]:
    """Pass the changes in these folders to the signal while this lasts."""
    if signal.stopped:
        yield
        return
    from watchdog.events import FileClosedEvent, FileCreatedEvent, FileModifiedEvent, FileMovedEvent
    from watchdog.observers import Observer

    observer = Observer()
    handler: Any = signal
    for folder in folders:
        changes = [FileClosedEvent, FileCreatedEvent, FileModifiedEvent, FileMovedEvent]
        observer.schedule(handler, os.fspath(folder), event_filter=changes)
    observer.start()
    try:
        yield
    finally:
        observer.stop()
        observer.join()


@contextmanager
def _maildir(box: Account, signal: Signal) -> Iterator[Session]:
    folders = [box.path / name for name in ("new", "cur") if (box.path / name).is_dir()]
    if not folders:
        raise box.fault(f"expected a Maildir, with new/ or cur/ in it, at {box.path}")
    with _watched(folders, signal):
        yield Session(partial(_maildir_letters, folders, signal, set()), signal.wait)


def _maildir_letters(
    folders: Iterable[Path], signal: Signal, seen: set[str], known: set[str]
) -> Iterator[Letter]:
    """The letters of a Maildir, oldest first. No flag or move makes a letter new; growing does, as not every
    program delivers in one stroke, and so does being made readable.

    Files whose names were `seen` are looked at again where they are told to have changed: of ten thousand
    that lie there the names are read, and no more.
    """
    found: list[tuple[str, str, Path, int]] = []
    if len(signal.told) == MOST_TOLD:
        seen.clear()
    while signal.told:
        seen.discard(_base_name(os.path.basename(signal.told.popleft())))
    for folder in folders:
        for name in os.listdir(folder):
            base = _base_name(name)
            if base in seen:
                continue
            path = folder / name
            with suppress(FileNotFoundError):  # moved or deleted just now
                state = path.stat()
                if S_ISREG(state.st_mode) and state.st_size and not name.startswith("."):
                    ident = f"{fit(base)}/{state.st_size}/{state.st_mode:o}"
                    found.append((base, ident, path, state.st_size))
    for base, ident, path, size in sorted(found):
        seen.add(base)
        if ident in known:
            continue
        try:
            yield Letter.bounded(ident, str(path), path.read_bytes() if size <= MAX_MAIL else None)
        except FileNotFoundError:  # if it was moved, the next listing has it
            seen.discard(base)
        except OSError as error:
            yield Letter(ident, str(path), fault=f"cannot be read: {error.strerror}")


def _base_name(name: str) -> str:
    """The name of a file in a Maildir without its flags."""
    return name.partition(":")[0]


@contextmanager
def _mbox(box: Account, signal: Signal) -> Iterator[Session]:
    signal.only = box.path
    with _watched([box.path.parent], signal):
        yield Session(partial(_mbox_letters, box.path), signal.wait)


def _mbox_letters(path: Path, known: set[str]) -> Iterator[Letter]:
    """The letters of an mbox, in order."""
    if not path.exists():
        return
    with path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # it is being delivered to; the end of that will wake us
            return
        for raw in _mbox_mails(file):
            ident = hashlib.sha256(raw).hexdigest()[:40]
            if ident not in known:
                yield Letter.bounded(ident, str(path), raw)


def _mbox_mails(file: IO[bytes]) -> Iterator[bytes]:
    """The mails of an mbox, `>From ` unquoted; of one that is too large, a little more than is allowed."""
    lines: list[bytes] = []
    size, after_blank = 0, True
    for line in iter(partial(file.readline, CHUNK), b""):
        if after_blank and line.startswith(b"From "):
            if lines:
                yield b"".join(lines)
            lines, size = [], 0
        elif size <= MAX_MAIL:
            lines.append(re.sub(rb"^>(>*From )", rb"\1", line))
            size += len(line)
        after_blank = line in (b"\n", b"\r\n")
    if lines:
        yield b"".join(lines)


@contextmanager
def _imap(box: Account, signal: Signal) -> Iterator[Session]:
    """An IMAP session on the mailbox's folder, opened read only."""
    import ssl

    import imap_tools

    opener = {"implicit": "MailBox", "starttls": "MailBoxStartTls", "none": "MailBoxUnencrypted"}[box.tls]
    # Without a context of ours, the standard library would check no certificate.
    secure = {} if box.tls == "none" else {"ssl_context": ssl.create_default_context()}
    port, secret = box.port(implicit=993, starttls=143, none=143), box.secret()
    with _reaching(box):
        host = box.given.get("host", "")
        server = getattr(imap_tools, opener)(host, port, timeout=SERVER_SECONDS, **secure)
    try:
        with _reaching(box):
            try:
                server.login(box.given.get("user", ""), secret, initial_folder=None)
                server.folder.set(box.given.get("folder", "INBOX"), readonly=True)
            except (imap_tools.MailboxLoginError, imap_tools.MailboxFolderSelectError) as error:
                raise box.fault(f"the server refuses it: {error}") from None
            epoch = (server.client.response("UIDVALIDITY")[1][0] or b"0").decode()
        signal.interrupt = partial(server.client.sock.shutdown, socket.SHUT_RDWR)
        yield Session(partial(_imap_letters, box, server, epoch), partial(_imap_wait, box, server, signal))
    finally:
        for farewell in (server.logout, server.client.shutdown):
            with suppress(Exception):  # the connection may be gone already
                farewell()


def _imap_letters(box: Account, server: Any, epoch: str, known: set[str]) -> Iterator[Letter]:
    """The letters of an IMAP folder, peeked at, so that they stay unread there."""
    more = True
    while more:
        read = [int(uid) for ident in known for at, _, uid in [ident.partition(".")] if at == epoch]
        with _reaching(box):
            server.client.response("EXISTS")  # taken away: what is there later came meanwhile
            uids = sorted(map(int, server.uids(f"UID {max(read, default=0) + 1}:*", charset=None)))
        for uid in uids:
            ident = f"{epoch}.{uid}"
            if ident not in known:
                with _reaching(box):
                    _, data = server.client.uid("fetch", str(uid), f"(BODY.PEEK[]<0.{MAX_MAIL + 1}>)")
                for piece in data:
                    if isinstance(piece, tuple):  # there is none when the mail was deleted meanwhile
                        yield Letter.bounded(ident, f"{box} uid {uid}", piece[1])
        more = server.client.response("EXISTS")[1] != [None]


def _imap_wait(box: Account, server: Any, signal: Signal) -> None:
    """Wait until the server says that something changed; one that cannot is asked once a minute."""
    with _reaching(box):
        if "IDLE" in server.client.capabilities:
            server.idle.start()
            if not _has_buffered(server):
                server.idle.poll(timeout=IDLE_SECONDS)
            server.idle.stop()
        else:
            signal.wait(60)
            server.client.noop()


def _has_buffered(server: Any) -> bool:
    """True if news came in one packet with the answer to IDLE: imap-tools waits for the next packet only."""
    server.client.sock.settimeout(0)
    try:
        return bool(server.client.file.peek(1))
    except OSError:  # over TLS, the way to say that there is nothing
        return False
    finally:
        server.client.sock.settimeout(SERVER_SECONDS)


@contextmanager
def _reaching(box: Account) -> Iterator[None]:
    """Raise UnreachableError for faults of the server, or of the way to it."""
    import imaplib

    from imap_tools import ImapToolsError

    try:
        yield
    except (OSError, imaplib.IMAP4.error, ImapToolsError) as error:
        raise UnreachableError(f"{box}: {error}") from error


Opener = Callable[[Account, Signal], AbstractContextManager[Session]]
OPENERS: dict[str, Opener] = {"maildir": _maildir, "mbox": _mbox, "imap": _imap}
"""The ways to read mails, by the kind of the mailbox."""


def opened(box: Account, signal: Signal) -> AbstractContextManager[Session]:
    """A session on a mailbox. Raises ActionError for an impossible one, UnreachableError for a lost one."""
    return box.choose(OPENERS, "imap")(box, signal)
