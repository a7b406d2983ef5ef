"""Origins of calendars: a file, or a folder of files, read whenever the system reports a change."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Protocol

from narval import ActionError, sleep

from ..files.places import opening
from ..files.watching import WHOLE, Notices
from .parsing import MAX_BYTES, CalendarError

QUIET_SECONDS = 0.2
"""Seconds without changes after which a file is read: most programs write in several steps."""
MAX_FILES = 10_000
MAX_WHOLE = 4 * MAX_BYTES
"""The most bytes of all files of a calendar."""


class Origin(Protocol):
    """The place of a calendar."""

    async def files(self) -> list[bytes] | None:
        """The files of the calendar; None if they are unchanged. Raises CalendarError."""

    async def news(self) -> None:
        """Wait until there may be changes."""

    async def recorded(self) -> None:
        """Record that the returned files are in memory."""

    def close(self) -> None:
        """Stop listening."""


class Files:
    """A calendar in a file, or in the files of a folder with names *.ics."""

    def __init__(self, path: Path, *, watched: bool) -> None:
        self._path = Path(os.path.abspath(path))
        folder = self._path if self._path.is_dir() else self._path.parent
        self._folder = folder if folder == self._path else None
        self._notices = Notices(folder, QUIET_SECONDS) if watched else None

    async def files(self) -> list[bytes] | None:
        """The current files."""
        if self._notices is not None:
            await asyncio.to_thread(self._notices.arm)
        return await asyncio.to_thread(self._scan)

    async def news(self) -> None:
        """Wait until a file may have changed and has rested for a moment."""
        while self._notices is not None:
            changed = await self._notices.quiet()
            if any(self._is_ours(name) for name in changed):
                return

    async def recorded(self) -> None:
        """Do nothing: reading files again is cheap."""

    def close(self) -> None:
        """Stop listening."""
        if self._notices is not None:
            self._notices.close()

    def _is_ours(self, name: str) -> bool:
        if self._folder is None:
            return name in (WHOLE, self._path.name)
        return name == WHOLE or _is_calendar(name)

    def _scan(self) -> list[bytes]:
        if self._path.is_dir() != (self._folder is not None):
            raise CalendarError(
                "calendar-unreachable", f"{self._path}: expected what it was at first: {self._kind}"
            )
        if self._folder is None:
            return [_content(self._path)]
        try:
            names = sorted(filter(_is_calendar, os.listdir(self._folder)))
        except OSError as error:
            raise CalendarError("calendar-unreachable", f"{self._folder}: {error.strerror}") from None
        if len(names) > MAX_FILES:
            raise CalendarError(
                "too-large", f"expected at most {MAX_FILES:,} files in {self._folder}, found more"
            )
        files: list[bytes] = []
        for name in names:
            files.append(_content(self._folder / name))
            within(files)
        return files

    @property
    def _kind(self) -> str:
        return "a file" if self._folder is None else "a folder"


def within(files: list[bytes]) -> None:
    """Raise CalendarError if the files of a calendar are too large together."""
    if sum(map(len, files)) > MAX_WHOLE:
        raise CalendarError(
            "too-large", f"expected at most {MAX_WHOLE:,} bytes in all of its files, found more"
        )


def _is_calendar(name: str) -> bool:
    return name.lower().endswith(".ics") and not name.startswith(".") and os.sep not in name


def _content(path: Path) -> bytes:
    try:
        # Links are followed, since the settings or the owner's memory name the file.
        with opening(Path(os.path.realpath(path))) as file:
            return file.read(MAX_BYTES + 1)
    except ActionError as error:
        raise CalendarError("calendar-unreachable", str(error)) from None


async def is_over(waiting: asyncio.Future[None], seconds: float) -> bool:
    """True if the wait has ended, False if it continues after `seconds` seconds. Raises what it raises."""
    pause = asyncio.ensure_future(sleep(seconds))
    try:
        await asyncio.wait((waiting, pause), return_when=asyncio.FIRST_COMPLETED)
        return waiting.done() and waiting.result() is None
    finally:
        pause.cancel()
