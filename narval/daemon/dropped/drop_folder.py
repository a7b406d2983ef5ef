"""The drop folder on the disk: files are claimed under numbers, read, removed or set aside (N8, N35).

    inbox/NAME -> inbox/.taken/NUMBER-NAME -> read -> removed, or inbox/refused/NAME and its reason

A folder is scanned at the start, and when something may have come. Everything except `claims` may block, and
is called in threads.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import logging
import os
import re
import signal
import stat
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from narval.core.elements.canonical import MAX_BYTES, check_together, elements_of
from narval.core.elements.element import Element, local_name
from narval.core.elements.names import CONTROLS
from narval.core.errors import ElementError, SurroundingsError
from narval.daemon.agents.agent_host import AgentHost
from narval.files.found_files import BACKUPS, names_in
from narval.system.file_events import Debounce
from narval.system.logins import login
from narval.system.regular_file import kind_of

log = logging.getLogger("narval.inbox")

FOLDER, TAKEN, REFUSED = "inbox", ".taken", "refused"
REASON = ".reason.txt"

UNFINISHED = (*BACKUPS, ".part", ".partial", ".crdownload")
"""Endings of names under which programs write files before they rename them."""

LONGEST = 200
"""Bytes of a name: this leaves room for a number before it and an ending after it."""

_CLAIM = re.compile(r"(\d{12})-(.+)", re.DOTALL)


class NotSetAsideError(SurroundingsError):
    """A file that cannot be added cannot be set aside either."""


class NotTakenError(SurroundingsError):
    """Some files in a folder cannot be taken, and were left there; the others were taken. `reasons` has a
    sentence for each, with its path.
    """

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class Claim(NamedTuple):
    """A file moved out of the reach of other programs, under its number. `folder` is where it was dropped, as
    a path within the home.
    """

    number: int
    name: str
    path: Path
    folder: str = FOLDER

    @property
    def shown(self) -> str:
        """The path at which it was dropped, in printable characters."""
        return _shown(f"{self.folder}/{self.name}")


class Standing(NamedTuple):
    """The inbox of a home: why nothing can be set aside ("" if it can), the files that are taken and not
    added yet, and the number of refused files.
    """

    stuck: str
    taken: list[str]
    refused: int


def standing(home: Path) -> Standing:
    """The state of a home's inbox on the disk, whether or not a daemon is running."""
    refused = home / FOLDER / REFUSED
    stuck = ""
    if os.path.lexists(refused):
        if not refused.is_dir():
            stuck = f"{FOLDER}/{REFUSED} is no folder; move it away"
        elif not os.access(refused, os.W_OK | os.X_OK):
            stuck = f"{FOLDER}/{REFUSED} cannot be written to; it must be yours"
    claims = filter(None, map(_CLAIM.fullmatch, names_in(home / FOLDER / TAKEN)))
    taken = [_shown(f"{FOLDER}/{claim[2]}") for claim in claims]
    aside = [] if stuck else [name for name in names_in(refused) if not name.endswith(REASON)]
    return Standing(stuck, taken, len(aside))


class DropFolder:
    """The folder of a home in which files are dropped; `recorded` is the number of the last file added.

    `folder` is its path within the home. `refused` is where files are set aside, relative to the folder. With
    `durable`, changes of the folder survive a power loss, too.
    """

    def __init__(
        self,
        home: Path,
        recorded: int,
        folder: str = FOLDER,
        *,
        refused: str = REFUSED,
        durable: bool = False,
    ) -> None:
        self._shown = folder
        self._home, self._folder, self._durable = home, home / folder, durable
        self._refused = self._folder / refused
        self._recorded = self._last = recorded
        self._untaken: list[str] = []
        """The reasons why files cannot be taken, since the last scan."""

    async def claims(self, is_left: Callable[[str], bool] = lambda name: False) -> AsyncIterator[Claim]:
        """The files in the folder, in order, each claimed when it is asked for, except those whose names
        `is_left` holds back. Files that the last daemon left come first.

        Raises NotTakenError after the last one, if some could not be claimed.
        """
        self._untaken = []
        for claim in await asyncio.to_thread(self.left_over):
            yield claim
        for name in await asyncio.to_thread(self.unclaimed):
            claimed = None if is_left(name) else await asyncio.to_thread(self.claim, name)
            if claimed is not None:
                yield claimed
        if self._untaken:
            raise NotTakenError(self._untaken)

    def unclaimed(self) -> list[str]:
        """The names of the files in the folder, in order, without hidden and unfinished ones."""
        try:
            names = sorted(os.listdir(self._folder))
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self._untaken.append(f"{_shown(self._shown)} cannot be read: {error.strerror}")
            return []
        return [name for name in names if name != REFUSED and _is_finished(name)]

    def left_over(self) -> list[Claim]:
        """The files claimed but not added when the last daemon ended; those that were added are removed."""
        claims = []
        for match in filter(None, map(_CLAIM.fullmatch, names_in(self._folder / TAKEN))):
            claim = Claim(int(match[1]), match[2], self._folder / TAKEN / match[0], self._shown)
            if claim.number <= self._recorded:
                _remove(claim.path)
            else:
                claims.append(claim)
                self._last = max(self._last, claim.number)
        return claims

    def claim(self, name: str) -> Claim | None:
        """Move a file out of the reach of others; None if it is gone, or still being written."""
        path, taken = self._folder / name, self._folder / TAKEN
        try:
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and _is_being_written(path):
                return None
            taken.mkdir(mode=0o700, exist_ok=True)
            number = self._last + 1
            claim = Claim(number, name, taken / f"{number:012}-{next(_paths(taken, name)).name}", self._shown)
            path.rename(claim.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            where = f"{self._shown}/{TAKEN}: " if error.filename == str(taken) else ""
            why = f"{_shown(f'{self._shown}/{name}')} cannot be taken: {where}{error.strerror}"
            self._untaken.append(f"{why}; move that away, or see whose it is")
            return None
        self._last = claim.number
        if self._durable:
            _flush(self._folder, taken)
        return claim

    def remove(self, claim: Claim) -> None:
        """Remove a file that has been added; if that fails, its number tells that it was."""
        self._recorded = claim.number
        _remove(claim.path)

    def set_aside(self, claim: Claim, refusal: ElementError) -> None:
        """Move a file where people find it, with its reason beside it. The reason is written first, so that
        it is never missing.

        Raises NotSetAsideError.
        """
        reason = f"{claim.shown}:{refusal.line}:{refusal.column}: {refusal.message}"
        folder = self._refused
        try:
            folder.mkdir(exist_ok=True)
            target = next(path for path in _paths(folder, claim.name) if not os.path.lexists(path))
            folder.joinpath(target.name + REASON).write_text(reason + "\n", "utf-8", "replace")
            claim.path.rename(target)
        except OSError as error:
            why = standing(self._folder.parent).stuck or error.strerror
            raise NotSetAsideError(f"{reason}; and it cannot be set aside: {why}") from error
        log.warning("%s; it is in %s", reason, _shown(os.path.relpath(folder, self._home)))


def has_work(folder: Path) -> bool:
    """True if an inbox has something to add or remove, or cannot be read."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return bool(names_in(folder / TAKEN)) or any(name != REFUSED and _is_finished(name) for name in names)


def contents(claim: Claim, most: int = MAX_BYTES) -> tuple[bytes, os.stat_result] | None:
    """The bytes of a file, and its status; None if it has been removed by now.

    Raises ElementError for anything but a regular file, and for one of more than `most` bytes.
    """
    try:
        status = claim.path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ElementError("invalid", f"expected a file, found {kind_of(status.st_mode)}")
    if status.st_size > most:
        raise ElementError(
            "too-large", f"expected at most {most:,} bytes, found {status.st_size:,}; divide it"
        )
    try:
        with open(claim.path, "rb", opener=_open_itself) as file:
            return file.read(most + 1), os.fstat(file.fileno())
    except OSError as error:
        raise ElementError("invalid", f"cannot be read: {error.strerror}") from None


def read(claim: Claim) -> tuple[list[bytes], str]:
    """The elements of a file, and the login of its owner; no elements if it has been removed by now.

    Raises ElementError.
    """
    if (dropped := contents(claim)) is None:
        return [], ""
    data, status = dropped
    elements = elements_of(data)
    check_together(elements)
    owner = login(status.st_uid)
    if status.st_uid not in (os.geteuid(), 0):
        _check_orders(elements, owner)
    return elements, owner


def _check_orders(elements: list[bytes], owner: str) -> None:
    """Raise ElementError for an element that narval obeys, in a file of another user: such a user cannot give
    orders at the socket either.
    """
    for xml in elements:
        if (name := Element(0, xml).name) in CONTROLS:
            what = f"<{local_name(name)}> is an order, and the file belongs to {owner}"
            whose = (
                f"only {login(os.geteuid())} and root give orders to this daemon; copy it to make it yours"
            )
            raise ElementError("reserved", f"{what}: {whose}")


def _shown(path: str) -> str:
    """A path in printable characters, on one line."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _is_finished(name: str) -> bool:
    return not name.startswith((".", "#")) and not name.endswith(UNFINISHED)


def _is_being_written(path: Path) -> bool:
    """True if some program has the file open for writing, as far as the system tells.

    Linux grants a read lease on a file that no program has open for writing. A program that then opens it for
    writing waits until the lease is given up, which is at once. The signal sent for that is SIGURG, which is
    ignored.
    """
    try:
        with open(path, "rb", opener=_open_itself) as file:
            fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):  # a file of another user, a file system or a system without leases
        return False
    return False


def _open_itself(path: str, flags: int) -> int:
    """Open the file itself, not the target of a link, and without waiting for other programs."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _paths(folder: Path, name: str) -> Iterator[Path]:
    """The path of a name in the folder, cut if it is too long, followed by endless variants of it."""
    while len(os.fsencode(name)) > LONGEST:
        name = name[1:]
    yield folder / name
    for number in itertools.count(2):
        yield folder / f"{number}-{name}"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:  # its number is recorded, so it is not added again
        log.warning("%s cannot be removed: %s", path, error.strerror)


def _flush(*folders: Path) -> None:
    for folder in folders:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


SETTLE, MOST = 0.05, 0.5
"""Seconds of quiet before folders are scanned, and the most by which that delays a scan."""

AGAIN = 5.0
"""Seconds until another scan while something cannot be taken or set aside."""


class Collector(ABC):
    """Takes the files dropped into some folders. `host` is the home's own agent, woken when nothing is left
    to take.
    """

    def __init__(self, host: AgentHost, name: str) -> None:
        self._host, self._settling = host, Debounce(SETTLE, MOST)
        self.is_busy = True
        """True while there may be something to take."""
        self.untaken: dict[str, list[str]] = {}
        """By folder, the reasons why something in it cannot be taken at present, one sentence each."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name=name)

    async def close(self) -> None:
        """Stop taking; files under way are left to the next start."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def look(self) -> None:
        """Scan soon: something may have been dropped, or moved."""
        self.is_busy = True
        self._settling.notice()

    def note_untaken(self, folder: str, reasons: list[str]) -> None:
        """Record what cannot be taken from a folder at present, and log new reasons."""
        before = frozenset(self.untaken.get(folder, ()))
        for reason in reasons:
            if reason not in before:
                log.warning("%s", reason)
        self.untaken.pop(folder, None)
        if reasons:
            self.untaken[folder] = reasons

    def forget_untaken(self, served: Iterable[str]) -> None:
        """Forget what could not be taken from any folder but these: the others have nothing left."""
        for folder in self.untaken.keys() - set(served):
            del self.untaken[folder]

    async def _follow(self) -> None:
        while True:
            try:
                again = await self.take_all()
            finally:
                self.is_busy = False
                self._host.wake()
            await self._settling.quiet(again)
            self.is_busy = True

    @abstractmethod
    async def take_all(self) -> float | None:
        """Scan the folders; return the seconds after which to scan again in any case, or None."""
