"""Files of messages: fetched into `var/chat/`, named by their digest, within the quota (C8)."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from narval.calls.kept_files import CHAT_FILES
from narval.people.chat.messages import Incoming
from narval.surfaces.chat.contract import ChatError, Kind

MOST_BYTES = 10 * 1024 * 1024
"""The most bytes of one file."""

QUOTA = 500 * 1024 * 1024
"""The most bytes of all files."""

LONGEST_NAME = 100
"""The most characters of a file's name."""

_PARTS = ".*"
"""The folder of partly fetched files, beside the folders of complete ones."""

_NOT_PLAIN = re.compile(r"[^\w.-]+")


async def fetched(kind: Kind, message: Incoming, home: Path) -> str:
    """Fetch the file of a message; its path within the home. Raises ChatError with a reason, and OSError."""
    file = message.file
    if file is None:
        raise ChatError("there is no file", final=True)
    if "files" not in kind.can:
        raise ChatError("files cannot be fetched from this chat", final=True)
    if file.size is not None and file.size > MOST_BYTES:
        raise ChatError(f"expected at most {MOST_BYTES:,} bytes, got {file.size:,}", final=True)
    folder = home / CHAT_FILES
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    used = sum(one.stat().st_size for one in (*folder.glob("*/*"), *folder.glob(_PARTS)) if one.is_file())
    if used + (file.size or 0) > QUOTA:
        raise ChatError(
            f"{CHAT_FILES} has no room: it may have {QUOTA:,} bytes; remove files there", final=True
        )
    coming = folder / f".{secrets.token_hex(8)}"
    try:
        await kind.fetch(file, coming, MOST_BYTES)
        size = coming.stat().st_size
        if size > MOST_BYTES or used + size > QUOTA:
            raise ChatError(f"expected at most {MOST_BYTES:,} bytes, got {size:,}", final=True)
        digest = hashlib.sha256(coming.read_bytes()).hexdigest()
        place = folder / digest[:32] / plain_name(file.name)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        coming.chmod(0o600)
        os.replace(coming, place)
    finally:
        with suppress(OSError):
            coming.unlink()
    return str(place.relative_to(home))


def remove_parts(home: Path) -> None:
    """Remove partial files that a killed program left."""
    for part in (home / CHAT_FILES).glob(_PARTS):
        with suppress(OSError):
            part.unlink()


def plain_name(name: str) -> str:
    """The name of a file without characters that are special in a path."""
    plain = _NOT_PLAIN.sub("_", name.rpartition("/")[2].rpartition("\\")[2]).strip("._")
    return plain[-LONGEST_NAME:].lstrip("._-") or "file"
