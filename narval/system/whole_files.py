"""Files that are only replaced whole: written atomically, and read again when they have changed."""

from __future__ import annotations

import os
import tempfile
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


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace or create a file atomically; readers see the old content or the new, never a part.

    An existing file keeps its permissions, and a link its target. Raises OSError; then nothing is left
    behind.
    """
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            os.chmod(name, path.stat().st_mode & 0o777)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
