"""Regular files: read whole and up to a limit, because other users may leave files that block their readers.

A pipe waits for a writer, a device may never end, and some files do something when they are opened. So only a
regular file is opened for reading, directly or through a link.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from narval.core.errors import DefinitionError, Fault
from narval.core.source import MAX_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from narval.core.source.text import Source

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link; put the file itself here"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


class UnfitFileError(OSError):
    """The file is not a regular one, or is too large; `strerror` says what was expected."""


def kind_of(mode: int) -> str:
    """The kind of a file that is not regular, for people."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "a device")


def read_regular(path: Path | str, most: int = MAX_BYTES) -> bytes:
    """The bytes of a file. Raises OSError; it is UnfitFileError if narval itself refuses the file."""
    _check(os.stat(path), most)
    with open(os.open(path, _FLAGS), "rb") as file:  # this does not wait if a pipe has replaced the file
        _check(os.fstat(file.fileno()), most)
        data = file.read(most + 1)
    if len(data) > most:
        raise _too_large(most, len(data))
    return data


def read_source(path: Path, label: str) -> Source:
    """The text of a file, with the name under which people see it.

    Raises FileNotFoundError, and DefinitionError if it cannot be read.
    """
    try:
        return _source(label, read_regular(path))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise DefinitionError([unreadable(label, error)]) from None


def read_file(path: Path, label: str, most: int = MAX_BYTES) -> Source | Fault:
    """The text of a file, with the name under which people see it, or the reason why it cannot be read."""
    try:
        return _source(label, read_regular(path, most))
    except (OSError, ValueError) as error:
        return unreadable(label, error)


def _source(label: str, data: bytes) -> Source:
    from narval.core.source.text import Source  # here because a command that asks a daemon reads only bytes

    return Source(label, data)


def is_folder(path: Path) -> bool:
    """True of a folder, and of a path whose kind cannot be found out: reading it reports why."""
    try:
        return path.is_dir()
    except OSError:
        return True


def _check(status: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnfitFileError(
            errno.EINVAL, f"expected a file, found {kind_of(status.st_mode)}; move it away, or rename it"
        )
    if status.st_size > most:
        raise _too_large(most, status.st_size)


def _too_large(most: int, size: int) -> UnfitFileError:
    return UnfitFileError(errno.EFBIG, f"expected at most {most:,} bytes, found {size:,}")


def unreadable(label: str, error: OSError | ValueError) -> Fault:
    """The fault of a file or folder that cannot be read."""
    reason = getattr(error, "strerror", None) or str(error)
    message = reason if isinstance(error, UnfitFileError) else f"cannot be read: {reason}"
    return Fault(label[:200], 1, 1, message)


WORDS = "this could not be read by narval itself"
"""The beginning of the message of such a fault."""


def unexpected(label: str, error: Exception) -> Fault:
    """The fault of a file that narval fails to read, with the place in narval."""
    import traceback  # here because a command that asks a daemon reads files, and meets none

    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    what = traceback.format_exception_only(error)[-1].strip()
    message = f"{WORDS} ({what:.200}{place}); that is an error in narval: report it, with this file"
    return Fault(label, 1, 1, message)
