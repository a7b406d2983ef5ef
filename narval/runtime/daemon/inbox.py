"""The drop folder: an XML file moved to `inbox/` becomes elements, exactly once (N8, N35).

    inbox/NAME -> inbox/.taken/NUMBER-NAME -> read, checked -> added, and the number noted, in one commit
               -> removed

The number says how far the inbox has been taken: what lies in `.taken` under a number that is noted was
added, and is only to be removed; what has a higher one was not. So there is no moment at which `kill -9`
loses a file or adds it twice. A file that is refused goes to `inbox/refused/`, its reason beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import signal
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from narval.errors import ElementError, NarvalError, SurroundingsError
from narval.memory.elements.canonical import MAX_BYTES, elements_of
from narval.memory.elements.element import Origin
from narval.runtime.agent.turn import Turn
from narval.runtime.home.loader import BACKUPS
from narval.runtime.home.schemas import Schemas
from narval.runtime.system.file_events import Debounce
from narval.runtime.system.time_slice import TimeSlice

log = logging.getLogger("narval.inbox")

FOLDER, TAKEN, REFUSED = "inbox", ".taken", "refused"

RECORDED = "inbox"
"""The fact of the store that says how far the inbox has been taken."""

SETTLE, MOST = 0.05, 0.5
UNFINISHED = (*BACKUPS, ".part", ".partial", ".crdownload")
"""Names under which programs write what they will rename."""

LONGEST = 200
"""Bytes of a name: there is room for a number before it and an ending behind it."""

_CLAIM = re.compile(r"(\d{12})-(.+)", re.DOTALL)

Submit = Callable[[Callable[[Turn], Any]], Awaitable[Any]]


class RefusedFile(Exception):  # noqa: N818 - it carries a reason to where the file is set aside, and no further
    """Why a file is set aside, and where in it."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        self.message, self.line, self.column = message, line, column
        super().__init__(message)


class Claim(NamedTuple):
    """A file that nobody else takes any more."""

    number: int
    name: str
    path: Path

    @property
    def shown(self) -> str:
        """Where it was dropped, in characters that can be written down."""
        return os.fsencode(f"{FOLDER}/{self.name}").decode("utf-8", "replace")


class Inbox:
    """Takes what is dropped into a folder, one file after another, in order of their names.

    `meta` are the facts the store had at the start; `submit` has something done in a turn; `rest` is told
    that nothing is left to take. `durable`: what is done to the folder survives a loss of power, too.

    When a file can be neither added nor set aside, nothing more is taken: a later number would tell the next
    start that this one was added.
    """

    def __init__(
        self,
        home: Path,
        meta: Mapping[str, str],
        submit: Submit,
        schemas: Callable[[], Schemas],
        rest: Callable[[], None],
        *,
        durable: bool = False,
    ) -> None:
        self._folder, self._submit, self._schemas, self._rest = home / FOLDER, submit, schemas, rest
        self._recorded = self._last = int(meta.get(RECORDED, "0"))
        self._durable = durable
        self._settling = Debounce(SETTLE, MOST)
        self._told: set[tuple[str, int]] = set()
        self.busy = True
        """Whether there may be something to take."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="narval-inbox")

    async def close(self) -> None:
        """Take nothing more; what is under way is for the next start."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def hear(self) -> None:
        """Something may have been dropped."""
        self.busy = True
        self._settling.hear()

    async def _follow(self) -> None:
        while True:
            try:
                await self._take_all()
            except Exception as error:
                known = isinstance(error, NarvalError)
                log.error("the inbox is left alone from now on: %s", error, exc_info=None if known else error)
                return
            finally:
                self.busy = False
                self._rest()
            await self._settling.quiet()
            self.busy = True

    async def _take_all(self) -> None:
        for claim in await asyncio.to_thread(self._left_over):
            await self._take(claim)
        for name in await asyncio.to_thread(self._names):
            claimed = await asyncio.to_thread(self._claim, name)
            if claimed is not None:
                await self._take(claimed)

    async def _take(self, claim: Claim) -> None:
        """Add what a file holds, all of it or nothing, and remove it."""
        try:
            elements = await asyncio.to_thread(_read, claim)
            await self._check(elements)
        except RefusedFile as refusal:
            await asyncio.to_thread(self._set_aside, claim, refusal)
            return
        origin = Origin(0, claim.shown)

        def work(turn: Turn) -> list[int]:
            turn.batch.meta.append((RECORDED, str(claim.number)))
            return [turn.add(each, origin) for each in elements]

        eids = await self._submit(work)
        self._recorded = claim.number
        log.info("%s: %d elements", claim.shown, len(eids))
        await asyncio.to_thread(_remove, claim.path)

    async def _check(self, elements: list[bytes]) -> None:
        """Raise Refused for the first element that its schema refuses (N7)."""
        schemas, breath = self._schemas(), TimeSlice()
        for each in elements:
            refusal = schemas.refusal(each)
            if refusal is not None:
                raise RefusedFile(f"refused by its schema: {refusal}")
            await breath.take()

    # --- in a thread ----------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """What lies in the folder, in order; not what is hidden, and not what is still being written."""
        try:
            names = sorted(os.listdir(self._folder))
        except OSError:
            return []
        return [name for name in names if name != REFUSED and _is_finished(name)]

    def _left_over(self) -> list[Claim]:
        """The files taken and not added when the last daemon ended; those that were added are removed."""
        claims = []
        try:
            names = sorted(os.listdir(self._folder / TAKEN))
        except OSError:
            return []
        for found in filter(None, map(_CLAIM.fullmatch, names)):
            claim = Claim(int(found[1]), found[2], self._folder / TAKEN / found[0])
            if claim.number <= self._recorded:
                _remove(claim.path)
            else:
                claims.append(claim)
                self._last = max(self._last, claim.number)
        return claims

    def _claim(self, name: str) -> Claim | None:
        """Take a file out of everybody's reach; None when it is gone, or still being written."""
        path, taken = self._folder / name, self._folder / TAKEN
        try:
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and _is_being_written(path):
                return None
            taken.mkdir(mode=0o700, exist_ok=True)
            number = self._last + 1
            claim = Claim(number, name, taken / f"{number:012}-{next(_paths(taken, name)).name}")
            path.rename(claim.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            shown = os.fsencode(name).decode("utf-8", "replace")
            self._tell_once(name, f"{FOLDER}/{shown} cannot be taken: {error.strerror}; move it away")
            return None
        self._last = claim.number
        if self._durable:
            _flush(self._folder, taken)
        return claim

    def _set_aside(self, claim: Claim, refusal: RefusedFile) -> None:
        """Put a file where people find it, its reason beside it: that first, so that it is never missing."""
        reason = f"{claim.shown}:{refusal.line}:{refusal.column}: {refusal.message}"
        folder = self._folder / REFUSED
        try:
            folder.mkdir(exist_ok=True)
            target = _free(folder, claim.name)
            folder.joinpath(f"{target.name}.reason.txt").write_text(reason + "\n", "utf-8", "replace")
            claim.path.rename(target)
        except OSError as error:
            raise SurroundingsError(f"{reason}; and it cannot be set aside: {error}") from error
        log.warning("%s; it is in %s/%s", reason, FOLDER, REFUSED)

    def _tell_once(self, name: str, message: str) -> None:
        with contextlib.suppress(OSError):
            key = (name, (self._folder / name).lstat().st_ino)
            if key not in self._told:
                self._told.add(key)
                log.warning("%s", message)


def _read(claim: Claim) -> list[bytes]:
    """The elements of a file; none when somebody has taken it away. Raises Refused."""
    try:
        found = claim.path.lstat()
    except FileNotFoundError:
        return []
    if not stat.S_ISREG(found.st_mode):
        raise RefusedFile(f"expected a file, found {_what(found.st_mode)}")
    if found.st_size > MAX_BYTES:
        raise RefusedFile(f"expected at most {MAX_BYTES:,} bytes, found {found.st_size:,}; divide it")
    try:
        handle = os.open(claim.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            return elements_of(file.read(MAX_BYTES + 1))
    except OSError as error:
        raise RefusedFile(f"cannot be read: {error.strerror}") from None
    except ElementError as error:
        raise RefusedFile(str(error), error.line, error.column) from None


def _what(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a link; put the file itself here"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device")


def _is_finished(name: str) -> bool:
    return not name.startswith((".", "#")) and not name.endswith(UNFINISHED)


def _is_being_written(path: Path) -> bool:
    """Whether some program has the file open for writing, as far as the system tells.

    Linux grants a read lease on a file that nobody writes. Whoever opens it for writing while we have the
    lease waits until we let go, at once; the notice that we are told of that is one that nobody minds.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # reading it will say why
    try:
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # somebody else's file, or a file system without leases
        return False
    finally:
        os.close(handle)
    return False


def _free(folder: Path, name: str) -> Path:
    """A path in the folder that is not taken yet."""
    return next(path for path in _paths(folder, name) if not os.path.lexists(path))


def _paths(folder: Path, name: str) -> Iterator[Path]:
    while len(os.fsencode(name)) > LONGEST:
        name = name[1:]
    yield folder / name
    number = 1
    while True:
        number += 1
        yield folder / f"{number}-{name}"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:  # it is recorded that it was added: it will not be added again
        log.warning("%s cannot be removed: %s", path, error.strerror)


def _flush(*folders: Path) -> None:
    for folder in folders:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
