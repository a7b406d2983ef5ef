"""Groups of programs: each is one program under way with everything that it starts, fed, read and ended as
one (A2, A4).

It has ended when all of the group is gone. When the first program ends by itself, others of the group that
still run are ended. A program that has left the group continues, unless the call was ended on request. A
group is ended by SIGTERM, then SIGKILL after a grace period. Only the system knows which programs exist,
and asking takes milliseconds. So one look serves all awaited groups, and looks take a limited share of the
time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from narval.calls.programs import reaper, spawn
from narval.calls.programs.output import ProgramOutput
from narval.calls.programs.reaper_client import ReaperClient
from narval.system.pipes import PipeWriter, ProgramEnd, Readers, read_pipe

log = logging.getLogger("narval.programs")

_MOST_CHUNKS = 64

Over = Callable[[int | None], None]
"""Called with the status of a program, negative for the signal that ended it; None if the reaper ended it
with the daemon's lease.
"""


class ProcessGroup:
    """A program that was started, and those that it has started.

    `mark` are environment variables that only it and the programs it started have. `grace` is the time in
    seconds between SIGTERM and SIGKILL. `readers` watches its pipes and its end; `ending` waits until all of
    it is gone.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        readers: Readers,
        reaper_client: ReaperClient,
        output: ProgramOutput,
        over: Over,
        ending: EndingGroups,
        *,
        grace: float,
        mark: frozenset[bytes],
    ) -> None:
        self._loop, self._reaper, self._output, self._over = loop, reaper_client, output, over
        self._readers, self._ending, self._grace, self._mark = readers, ending, grace, mark
        self._pipes: dict[int, bool] = {}
        """The pipes that are read; True for standard error."""
        self._input: PipeWriter | None = None
        self._status = 0

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        directory: str,
        text: bytes,
        confine: spawn.Confine | None = None,
    ) -> None:
        """Start the program, from a thread that `confine`, if given, has confined.

        Raises CannotStartError, or OSError if the system has no pipe left.
        """
        theirs: list[int] = []
        try:
            for is_error in (False, True):
                theirs.append(self._pipe(is_error=is_error))
            if text:
                theirs.append(self._open_input(text))
            pipes = spawn.Pipes(theirs[2] if text else None, theirs[0], theirs[1])
            program = spawn.start(words, environment, directory, pipes, confine)
        except BaseException:
            self._close_pipes()
            raise
        finally:
            for pipe in theirs:
                os.close(pipe)
        self._reaper.began(program.pid)
        for pipe in self._pipes:
            self._readers.add_reader(pipe, partial(self._read, pipe))
        self._program = program
        self._group_end = GroupEnd(self._ending, program.pid, self._mark, self._grace, self._finish)
        self._watch = ProgramEnd(self._readers, program.pid, self._died)

    def end(self) -> None:
        """End the group, and programs that have left it, on request: SIGTERM, and SIGKILL after the grace."""
        self._group_end.end(on_request=True)

    # --- its pipes ------------------------------------------------------------------------------------

    def _open_input(self, text: bytes) -> int:
        """Open its standard input. Text that fits into a pipe is written before the program starts; the rest
        follows.
        """
        reader, feed = os.pipe()
        self._input = PipeWriter(self._loop, feed)
        self._input.send(text, ends=True)
        return reader

    def _pipe(self, *, is_error: bool) -> int:
        ours, their = os.pipe()
        os.set_blocking(ours, False)
        self._pipes[ours] = is_error
        return their

    def _read(self, pipe: int) -> bool:
        """Read the available bytes; False when there are none now, or none will come."""
        data = read_pipe(pipe)
        if data:
            self._output.add(data, self._pipes[pipe])
        elif data is not None:
            self._readers.remove_reader(pipe)
            del self._pipes[pipe]
            os.close(pipe)
        return bool(data)

    def _close_pipes(self) -> None:
        if self._input is not None:
            self._input.close()
        for pipe in self._pipes:
            self._readers.remove_reader(pipe)
            os.close(pipe)
        self._pipes.clear()

    # --- its end --------------------------------------------------------------------------------------

    def _died(self) -> None:
        """Read its last output, and end the programs that it left running."""
        self._watch.close()  # first, as the rest may fail: its end is reported once
        self._status = self._program.status()
        for pipe in tuple(self._pipes):
            for _ in range(_MOST_CHUNKS):
                if not self._read(pipe):
                    break
        self._group_end.leader_died()

    def _finish(self) -> None:
        is_lost = self._status == -signal.SIGKILL and self._reaper.has_killed(self._program.pid)
        self._reaper.ended(self._program.pid)
        self._close_pipes()
        self._over(None if is_lost else self._status)


_LOOK_AGAIN, _LATER = 0.02, 0.1
"""Seconds between looks for groups that are being ended: at first, and later."""
_REST = 5.0
"""The pause after a look, in multiples of its duration."""
_PATIENCE = 10.0
"""Seconds after SIGKILL at which programs that cannot be ended (they wait for a disk, or belong to root) are
given up.
"""


class GroupEnd:
    """Ends a group, and calls `gone` when nothing of it is left.

    `mark` has the variables by which programs that have left the group are found; `grace` is in seconds.
    """

    def __init__(
        self,
        ending: EndingGroups,
        pid: int,
        mark: frozenset[bytes],
        grace: float,
        gone: Callable[[], None],
    ) -> None:
        self._ending, self.pid, self.mark, self._grace, self._gone = ending, pid, mark, grace, gone
        self.on_request = False
        """True if programs that have left the group must be ended too."""
        self._killed_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def end(self, *, on_request: bool = False) -> None:
        """Send SIGTERM, and SIGKILL after the grace; on request, also end what has left the group."""
        self.on_request = self.on_request or on_request
        if self._timer is None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a stopped program must get it too
            self._timer = self._ending.loop.call_later(self._grace, self._kill)

    def leader_died(self) -> None:
        """End the programs that the leader left running. `gone` is called when none is left, or when programs
        that cannot be ended are given up.
        """
        if reaper.send(self.pid, 0, os.killpg):
            self.end()
        elif not self.on_request:
            self.finish()
            return
        self._ending.add(self)

    def is_given_up(self, *, carried: bool) -> bool:
        """True if it was killed long ago. `carried`: programs that have left the group were found."""
        now = self._ending.loop.time()
        if carried and not self._killed_at:
            self._killed_at = now
        return bool(self._killed_at) and now - self._killed_at > _PATIENCE

    def finish(self) -> None:
        """Report that the group is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._gone()

    def _kill(self) -> None:
        self._killed_at = self._ending.loop.time()
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        reaper.send(self.pid, number, os.killpg)


class EndingGroups:
    """The groups whose leader has ended, but which may still have programs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._groups: list[GroupEnd] = []
        self._pause = _LOOK_AGAIN
        self._rested = 0.0
        """The earliest time of the next look."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, group: GroupEnd) -> None:
        """Watch this group too, as soon as possible."""
        self._groups.append(group)
        self._pause = _LOOK_AGAIN
        self._plan(0.0)

    def _plan(self, pause: float) -> None:
        """Schedule a look after a pause, unless one is scheduled earlier."""
        moment = max(self.loop.time() + pause, self._rested)
        if self._timer is not None and self._timer.when() <= moment:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(moment, self._look)

    def _look(self) -> None:
        """Finish the groups that are gone or given up; look again while others are left."""
        self._timer = None
        began = self.loop.time()
        living = reaper.living_groups()
        without = [group for group in self._groups if group.pid not in living]
        carried = _end_carriers({group.mark for group in without if group.on_request})
        now = self.loop.time()
        self._rested = now + max(_LOOK_AGAIN, _REST * (now - began))
        groups, self._groups = self._groups, []
        for group in groups:
            is_carried = group.mark in carried
            if group.pid not in living and not is_carried:
                group.finish()
            elif group.is_given_up(carried=is_carried):
                log.error("program %d, or what it has started, cannot be ended", group.pid)
                group.finish()
            else:
                self._groups.append(group)
        if self._groups:
            self._plan(self._pause)
            self._pause = min(_LATER, self._pause * 1.5)


def _end_carriers(marks: set[frozenset[bytes]]) -> set[frozenset[bytes]]:
    """Kill the programs that carry one of these marks; return the marks that were found."""
    environments: set[frozenset[bytes]] = set()
    if not marks:
        return environments

    def is_owned(environment: frozenset[bytes]) -> bool:
        carried = [mark for mark in marks if mark <= environment]
        environments.update(carried)
        return bool(carried)

    for program in reaper.carriers(is_owned):
        reaper.send(program, signal.SIGKILL)
    return environments


# --- commands of actions --------------------------------------------------------------------------------

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
