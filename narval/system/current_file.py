"""Current file: the content of a file, read again when the file has changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

Value = TypeVar("Value")


class CurrentFile(Generic[Value]):
    """The present content of a file, as returned by `read`; it is read again when the file has changed."""

    def __init__(self, path: Path, read: Callable[[], Value]) -> None:
        self._path, self._read = path, read
        self._version: tuple[int, ...] | None = None

    def get(self) -> Value:
        """The content."""
        version: tuple[int, ...] = ()
        with suppress(OSError):
            status = self._path.stat()
            version = status.st_mtime_ns, status.st_size, status.st_ino
        if version != self._version:
            self._content, self._version = self._read(), version
        return self._content
