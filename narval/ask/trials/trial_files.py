"""Trial files: results of simulations and explorations, kept in a folder for a day (M42, M57).

A file is named by a hash, never by the request; it records its expiry and its person.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

KEPT = 86_400.0
"""Seconds for which a result is stored."""

MOST, MOST_BYTES = 100, 64_000_000
"""The most stored results, and their most bytes: the oldest are deleted."""

_SUFFIX = ".json"


class StoredResult(msgspec.Struct, frozen=True):
    """A result, the person it is for (None for all), and when it expires (seconds since 1970, UTC)."""

    until: float
    person: str | None
    answer: dict[str, Any]


class TrialFiles:
    """The results in a folder, which is made with the first one, for the daemon's user only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, key: str, person: str | None, answer: dict[str, Any], now: float) -> None:
        """Store a result under a key, and delete expired and excess ones."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        scratch = self._folder / f"{secrets.token_hex(8)}.new"
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(msgspec.json.encode(StoredResult(now + KEPT, person, answer)))
        os.utime(scratch, (now, now))
        scratch.replace(self._file(key))
        self._sweep(now)

    def get(self, key: str, person: str | None, now: float) -> dict[str, Any] | None:
        """The result of a key for a person; None if there is none, or no longer."""
        try:
            result = msgspec.json.decode(self._file(key).read_bytes(), type=StoredResult)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return result.answer if result.until > now and result.person == person else None

    def _file(self, key: str) -> Path:
        return self._folder / (hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest() + _SUFFIX)

    def _sweep(self, now: float) -> None:
        """Delete files that have expired by their time, and the oldest beyond the limits."""
        bytes_kept = 0
        files = [(file.stat(), file) for file in self._folder.iterdir() if file.is_file()]
        files.sort(key=lambda pair: pair[0].st_mtime, reverse=True)
        for number, (modified, file) in enumerate(files):
            bytes_kept += modified.st_size
            if number >= MOST or bytes_kept > MOST_BYTES or modified.st_mtime < now - KEPT:
                with suppress(FileNotFoundError):
                    file.unlink()
