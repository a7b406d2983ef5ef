"""Commands: programs that an action runs, as groups that end with their call and the daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

from narval.calls.programs import reaper
from narval.calls.programs.group_end import EndingGroups
from narval.calls.programs.output import ProgramOutput
from narval.calls.programs.process_group import ProcessGroup
from narval.calls.programs.reaper_client import ReaperClient
from narval.system.pipes import Readers

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL: a cancelled call has a second to clean up."""

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
"""The variables of the daemon that a command sees, besides those with `LC_`."""


class EndedWithLease(BaseException):
    """The reaper has ended a program with the daemon's lease; an action must not catch this as a failure."""


class CommandRunner:
    """Runs commands in the loop of a daemon, whose reaper ends them if the daemon dies."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, readers: Readers, client: ReaperClient, ending: EndingGroups
    ) -> None:
        self._loop, self._readers, self._reaper, self._ending = loop, readers, client, ending

    async def run(
        self,
        words: Sequence[str],
        hear: Callable[[bytes, bool], None],
        *,
        call: str,
        seconds: float,
        environment: Mapping[str, str],
        directory: str,
        text: bytes = b"",
    ) -> int:
        """Run a program for a call; return its status, negative for a signal, when all of its group is gone.

        `hear` is given its output as it arrives, with True for standard error. Raises CannotStartError,
        EndedWithLease, and TimeoutError after `seconds` seconds; then, and when cancelled, the group is ended
        first.
        """
        gone: asyncio.Future[int | None] = self._loop.create_future()
        marks = {reaper.OWNER: self._reaper.owner, reaper.CALL: call}
        group = ProcessGroup(
            self._loop,
            self._readers,
            self._reaper,
            ProgramOutput(hear, None),
            gone.set_result,
            self._ending,
            grace=GRACE,
            mark=frozenset(f"{name}={value}".encode() for name, value in marks.items()),
        )
        self._reaper.prepare()
        group.start(words, {**small_environment(), **environment, **marks}, directory, text)
        try:
            async with asyncio.timeout(seconds):
                status = await asyncio.shield(gone)
        except (TimeoutError, asyncio.CancelledError):
            group.end()
            await asyncio.shield(gone)
            raise
        if status is None:
            raise EndedWithLease
        return status


def small_environment() -> dict[str, str]:
    """The variables of the daemon that other programs may see; none is a secret."""
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")}
