"""The cluster on this machine, which the daemon starts when it is needed, and its reaper ends (G65)."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TextIO

import narval
from narval.calls.programs.process_group import CommandRunner, EndedWithLease
from narval.calls.programs.spawn import CannotStartError
from narval.core.definitions.action.needs import shown_resources
from narval.files.outside.cluster import ClusterSettings

_PROGRAM = "narval.calls.cluster.local_program"
_CALL = "cluster"
_ALWAYS = 10 * 365 * 86400.0
_FOLDER = str(Path(narval.__file__).parent.parent)
_LOG = "cluster.log"


class LocalCluster:
    """A program that is a scheduler and starts workers, from its creation until `end`.

    `started` is called with its address and the folder of its certificates. The folder is made for this
    program below `folder` (None: among temporary files). `ended` is called with the reason if the program
    ends by itself. It begins as soon as `after` is done: the end of a previous one.
    """

    def __init__(
        self,
        commands: CommandRunner,
        settings: ClusterSettings,
        folder: Path | None,
        started: Callable[[str, Path], None],
        ended: Callable[[str], None],
        *,
        after: asyncio.Future[None] | None,
    ) -> None:
        self._started, self._ended, self._after = started, ended, after
        self._heard = b""
        self._program = asyncio.ensure_future(self._live(commands, settings, folder))

    def end(self) -> asyncio.Future[None]:
        """End the program, and return a future that is done when all of it is gone."""
        self._program.cancel()
        return self._program

    async def _live(self, commands: CommandRunner, settings: ClusterSettings, above: Path | None) -> None:
        if self._after is not None:
            await asyncio.wait([self._after])
        why = "the local cluster cannot be started"
        try:
            with ExitStack() as kept:
                folder = _made(above)
                kept.callback(shutil.rmtree, folder, ignore_errors=True)
                log = kept.enter_context(open(folder / _LOG, "w", encoding="utf-8"))
                words = [sys.executable, "-m", _PROGRAM, str(folder)]
                words += [str(settings.workers), shown_resources(settings.resources)]
                hear = partial(self._hear, folder, log)
                status = await commands.run(
                    words, hear, call=_CALL, seconds=_ALWAYS, environment=dict(os.environ), directory=_FOLDER
                )
                why = f"the local cluster ended with status {status}: {_last_line(folder / _LOG)}"
        except (CannotStartError, OSError) as error:
            why = f"{why}: {error}"
        except EndedWithLease:
            why = "the local cluster was ended, as the lease of this daemon was over"
        self._ended(why)

    def _hear(self, folder: Path, log: TextIO, data: bytes, is_error: bool) -> None:
        """Read the address, which is printed first; log lines go to a file."""
        if is_error or self._heard.endswith(b"\n"):
            log.write(data.decode("utf-8", "replace"))
            log.flush()
            return
        self._heard += data
        if self._heard.endswith(b"\n"):
            self._started(self._heard.decode().strip(), folder)


def _made(above: Path | None) -> Path:
    """Make the folder of a cluster, readable by this user alone, and remove leftovers of a former one."""
    if above is None:
        return Path(tempfile.mkdtemp(prefix="narval-cluster-"))
    folder = above / "cluster"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    return folder


def _last_line(path: Path) -> str:
    """The last line of a log, which is the most telling."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[-1] if lines else "it said nothing"
