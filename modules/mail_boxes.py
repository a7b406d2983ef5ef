"""Mailboxes: a Maildir, an mbox, a server; read and never altered (N36, N37; docs/mail.md)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, NamedTuple, TypeVar

from lxml import etree

from narval import ActionError

from .mail_reading import file_name, read_mail
from .mail_texts import CHUNK, fit
from .mail_writing import CARRIERS, SERVER_SECONDS, Carrier

MAX_MAIL = 64 * 1024 * 1024
"""A mail of more bytes stays where it is and is told by an error."""
BATCH, BATCH_BYTES = 50, 4 * 1024 * 1024
"""What one `yield` carries at most, so that a thousand mails are not a thousand commits."""
QUIET_SECONDS = 0.05
"""A mailbox is read once it has been left alone for this long: not everyone delivers in one stroke."""
IDLE_SECONDS = 5 * 60
"""An IDLE is renewed after this long; RFC 2177 allows 29 minutes, but routers forget silent connections."""

Way = TypeVar("Way")


class Account(NamedTuple):
    """What a `mailbox` or `outbox` element gives, and the home it belongs to; None for a home in memory."""

    given: Mapping[str, str]
    home: Path | None = None

    def __str__(self) -> str:
        return self.given.get("name") or self.given.get("path") or self.given.get("host") or "unnamed"

    def fault(self, message: str) -> ActionError:
        """What to raise when the element asks for something impossible."""
        return ActionError(f"account {self}: {message}", "bad-account")

    @property
    def opener(self) -> Opener:
        """How mails are read from it."""
        return self._of_kind(OPENERS, "imap")

    @property
    def carrier(self) -> Carrier:
        """How mails are given to it."""
        return self._of_kind(CARRIERS, "smtp")

    def _of_kind(self, kinds: Mapping[str, Way], usual: str) -> Way:
        kind = self.given.get("kind") or ("maildir" if "path" in self.given else usual)
        if kind not in kinds:
            raise self.fault(f"expected kind to be one of {', '.join(kinds)}, got {kind!r}")
        return kinds[kind]

    @property
    def path(self) -> Path:
        """Where its files lie; a relative path begins at the home."""
        if not self.given.get("path"):
            raise self.fault("expected a path, got none")
        return (self.home or Path()) / Path(self.given["path"]).expanduser()

    @property
    def tls(self) -> str:
        """How its connection is protected; only a connection within the machine may be without."""
        tls = self.given.get("tls", "implicit")
        if tls not in ("implicit", "starttls", "none"):
            raise self.fault(f"expected tls to be implicit, starttls or none, got {tls!r}")
        if tls == "none" and self.given.get("host") not in ("localhost", "127.0.0.1", "::1"):
            raise self.fault("without tls, mail and password would go through the net in the clear")
        return tls

    def port(self, **usual: int) -> int:
        """The port given, or the usual one for its protection."""
        port = self.given.get("port") or str(usual[self.tls])
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise self.fault(f"expected port to be a number below 65536, got {port!r}")
        return int(port)

    def secret(self) -> str:
        """The password, from the environment variable or the file in etc/ that `secret` names."""
        name = self.given.get("secret", "")
        if name in os.environ:
            return os.environ[name]
        file = (self.home or Path()) / "etc" / file_name(name, "")
        if not name or not file.is_file():
            raise self.fault(f"its secret is neither in the environment nor a file of etc/: {name!r}")
        if file.stat().st_mode & 0o077:
            raise self.fault(f"others may read its secret: chmod 600 {file}")
        return file.read_text("utf-8").strip()

    def keep(self, chunks: Iterable[bytes], name: str) -> dict[str, str]:
        """Keep content as a file of the home, found by its digest: keeping it twice is keeping it once."""
        folder = self._folder()
        digest, size = hashlib.sha256(), 0
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".new-", delete=False) as file:
            try:
                for chunk in chunks:
                    digest.update(chunk)
                    size += file.write(chunk)
                file.flush()
                target = folder / digest.hexdigest()[:2] / digest.hexdigest() / name
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
        shown = target.relative_to(self.home) if self.home else target
        return {"size": str(size), "file": shown.as_posix(), "sha256": digest.hexdigest()}

    def bookmark(self) -> list[str]:
        """The letters of this mailbox that were recorded before: a shortcut only, as keys decide (N37)."""
        with suppress(FileNotFoundError):
            return self._bookmark_file().read_text("utf-8", "replace").split("\n")
        return []

    def advance_bookmark(self, idents: Iterable[str]) -> None:
        """These letters are recorded."""
        lines = "".join(f"{ident}\n" for ident in idents)
        with suppress(OSError):
            if lines:
                with self._bookmark_file().open("a", encoding="utf-8", errors="replace") as file:
                    file.write(lines)

    def _bookmark_file(self) -> Path:
        names = ("kind", "path", "host", "port", "user", "folder")
        where = "\0".join(self.given.get(name, "") for name in names)
        return self._folder() / f"seen-{hashlib.sha256(where.encode()).hexdigest()[:16]}"

    def _folder(self) -> Path:
        folder = (self.home / "var" if self.home else Path(_scratch().name)) / "mail"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for the files of a home in memory, gone when the program ends."""
    return tempfile.TemporaryDirectory(prefix="narval-")


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
    """How the thread that follows a mailbox hears that something changed, or that nobody listens any more."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self.stopped = False
        self.only: Path | None = None
        self.interrupt: Callable[[], None] = lambda: None

    def dispatch(self, event: Any) -> None:
        """Hear of a change; called by watchdog, in a thread of its own."""
        if self.only is None or os.fspath(self.only) in (event.src_path, event.dest_path):
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
    """What a mailbox holds, then what arrives, until the signal says stop; a lost server is called again."""
    pause = 1.0
    while not signal.stopped:
        try:
            with box.opener(box, signal) as session:
                while not signal.stopped:
                    yield from batches(box, session.letters(known), known)
                    pause = 1.0
                    session.wait()
        except UnreachableError as error:
            if pause == 1.0 and not signal.stopped:
                yield Batch([], [_trouble(box, error.kind, str(error))])
            signal.wait(pause)
            pause = min(2 * pause, 300.0)


def batches(box: Account, letters: Iterator[Letter], known: set[str]) -> Iterator[Batch]:
    """Letters made into elements, some at a time."""
    idents: list[str] = []
    elements: list[bytes] = []
    for letter in letters:
        known.add(letter.ident)
        idents.append(letter.ident)
        elements.append(_element(box, letter))
        if len(elements) == BATCH or sum(map(len, elements)) > BATCH_BYTES:
            yield Batch(idents, elements)
            idents, elements = [], []
    yield Batch(idents, elements, is_last=True)


def _element(box: Account, letter: Letter) -> bytes:
    """A letter as an `email`, or as an `error` that says why it is none; a full disk is another matter."""
    if letter.fault:
        key = hashlib.sha256(f"{box}\0{letter.ident}".encode()).hexdigest()
        return _trouble(box, "bad-mail", f"{letter.where}: {letter.fault}", {"key": key})
    try:
        return read_mail(letter.raw, box)
    except OSError:
        raise
    except Exception as error:  # whatever a hostile mail provokes costs that mail alone
        kept = box.keep([letter.raw], "mail.eml")
        where = kept | {"key": kept["sha256"]}
        return _trouble(box, "bad-mail", f"{letter.where} cannot be read as a mail: {error}", where)


def _trouble(box: Account, kind: str, message: str, where: dict[str, str] | None = None) -> bytes:
    error = etree.Element("error", {"type": kind, "mailbox": fit(str(box))} | (where or {}))
    etree.SubElement(error, "message").text = fit(message)
    return etree.tostring(error, encoding="utf-8")


@contextmanager
def _watched(folders: Iterable[Path], signal: Signal) -> Iterator[None]:
    """Have the system tell the signal what changes in these folders."""
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
        yield Session(partial(_maildir_letters, folders), signal.wait)


def _maildir_letters(folders: Iterable[Path], known: set[str]) -> Iterator[Letter]:
    """The letters of a Maildir, oldest first. No flag or move makes a letter new; growing does, as not every
    program delivers in one stroke, and so does being made readable.
    """
    found: list[tuple[str, str, Path, int]] = []
    for folder in folders:
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # moved or deleted just now
                name, state = path.name.partition(":")[0], path.stat()
                if S_ISREG(state.st_mode) and state.st_size and not name.startswith("."):
                    ident = f"{fit(name)}/{state.st_size}/{state.st_mode:o}"
                    found.append((name, ident, path, state.st_size))
    for _, ident, path, size in sorted(found):
        if ident in known:
            continue
        try:
            yield Letter.bounded(ident, str(path), path.read_bytes() if size <= MAX_MAIL else None)
        except FileNotFoundError:  # if it was moved, the next listing has it
            continue
        except OSError as error:
            yield Letter(ident, str(path), fault=f"cannot be read: {error.strerror}")


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
    """Whether news came in one packet with the answer to IDLE: imap-tools waits for the next packet only."""
    server.client.sock.settimeout(0)
    try:
        return bool(server.client.file.peek(1))
    except OSError:  # over TLS, the way to say that there is nothing
        return False
    finally:
        server.client.sock.settimeout(SERVER_SECONDS)


@contextmanager
def _reaching(box: Account) -> Iterator[None]:
    """Tell what a server, or the way to it, does wrong from what is wrong here."""
    import imaplib

    from imap_tools import ImapToolsError

    try:
        yield
    except (OSError, imaplib.IMAP4.error, ImapToolsError) as error:
        raise UnreachableError(f"{box}: {error}") from error


Opener = Callable[[Account, Signal], AbstractContextManager[Session]]
OPENERS: dict[str, Opener] = {"maildir": _maildir, "mbox": _mbox, "imap": _imap}
