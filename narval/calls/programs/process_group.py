"""One program under way, with everything that it starts: fed, read, and ended as one group (A2, A4).

It has ended when all of the group is gone. When the first program ends by itself, others of the group that
still run are ended. A program that has left the group continues, unless the call was ended on request.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from narval.calls.programs import spawn
from narval.calls.programs.group_end import EndingGroups, GroupEnd
from narval.calls.programs.output import ProgramOutput
from narval.calls.programs.reaper_client import ReaperClient
from narval.system.pipes import PipeWriter, ProgramEnd, Readers, read_pipe

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
        given, feed = os.pipe()
        self._input = PipeWriter(self._loop, feed)
        self._input.send(text, ends=True)
        return given

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
