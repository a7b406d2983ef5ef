"""The operation `work_folder`: the folder in which a person answers by files (P58)."""

from __future__ import annotations

import asyncio
import os
import pwd
from contextlib import suppress
from pathlib import Path
from typing import Any

from narval.ask.asker import PROGRAM, Asker
from narval.ask.registry import operation
from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.people.files import DONE, WORK_FOLDER


@operation("write")
async def work_folder(daemon: Daemon, person: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Make the folder in which a person is offered items as files, and `done` in it."""
    people = daemon.agent.lookup.people
    recipient = people.person(person)
    if recipient is None:
        suggestion = closest(person, [other.name for other in people.people])
        raise RequestError(f"there is no person {person!r} in etc/people.toml{suggestion}")
    if daemon.home is None:
        raise RequestError("a home in memory has no folders; open one on a disk")
    folder = daemon.home.path / WORK_FOLDER / person
    try:
        await asyncio.to_thread(_make, folder, recipient.login)
    except OSError as error:
        raise RequestError(f"{folder} cannot be made: {error.strerror}") from None
    return {"person": person, "path": str(folder)}


def _make(folder: Path, owner: str) -> None:
    folder.parent.mkdir(exist_ok=True)
    for path in (folder, folder / DONE):
        path.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0 and owner:  # root makes it for others, who otherwise could not use it
            with suppress(KeyError):
                os.chown(path, pwd.getpwnam(owner).pw_uid, -1)
