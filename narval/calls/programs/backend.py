"""Answers calls of programs (A2): each is started, and its outcome comes when all of its group is gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path

from narval.calls.backend import ABANDONED, LOST, Outcome, RunningCall
from narval.calls.context import CallContext
from narval.calls.programs.commands import CommandRunner
from narval.calls.programs.environment import environment_of, standard_input
from narval.calls.programs.group_end import EndingGroups
from narval.calls.programs.output import Listen, OutputFolder, ProgramOutput
from narval.calls.programs.process_group import ProcessGroup
from narval.calls.programs.process_limits import ProcessLimits
from narval.calls.programs.reaper import CALL, OWNER, signal_name
from narval.calls.programs.reaper_client import ReaperClient, store_of
from narval.calls.programs.spawn import CannotStartError, limited
from narval.calls.programs.up_to_date import is_up_to_date
from narval.core.engines.commands import Program
from narval.core.engines.events import Failure
from narval.files.home import Home
from narval.store.batch import AgentRow

_SKIPPED = Outcome(value={"status": 0, "skipped": 1})

Over = Callable[[ProgramOutput, int], None]
"""Given the output of a program that is gone, and its status."""


class ProgramBackend:
    """All programs under way.

    `directory` is the folder in which a program runs that names none; `outputs` keeps what programs print;
    `limits` bounds how many processes they may be.
    """

    queued = 0
    given_up = 0

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        directory: Path | None = None,
        outputs: OutputFolder | None = None,
        reaper: ReaperClient | None = None,
        limits: ProcessLimits | None = None,
    ) -> None:
        self._loop = loop
        self._directory = str(directory) if directory is not None else os.getcwd()
        self.outputs = outputs or OutputFolder(None)
        self.reaper = reaper or ReaperClient()
        self._environment = {**os.environ, OWNER: self.reaper.owner}
        self._groups: dict[RunningCall, ProcessGroup] = {}
        self._ending = EndingGroups(loop)
        self._limits = limits or ProcessLimits(self.reaper.owner)
        self._reasons: dict[RunningCall, Outcome | None] = {}
        """Of calls that are being ended: their outcome, None for a time limit."""
        self._gone: asyncio.Event | None = None
        """Set when a program is gone; None until all are to go."""

    @cached_property
    def commands(self) -> CommandRunner:
        """The programs that actions have run."""
        return CommandRunner(self._loop, self.reaper, self._ending)

    def redirect(self, directory: Path, listen: Listen) -> None:
        """Run programs in another folder from now on, and have `listen` get their output."""
        self._directory = str(directory)
        self.outputs.redirect(listen)

    def start(self, running: RunningCall) -> None:
        """Answer a call: at once when its files are up to date (A9)."""
        running.begin(self._loop, self._expire, partial(self._begin, running))

    def abandon(self, running: RunningCall) -> None:
        """End its program; the answer comes when all of it is gone (A4)."""
        self._end(running, ABANDONED)

    def is_up_to_date(self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...]) -> bool:
        """True if the files that a program would create are there, and none that it needs is newer."""
        return is_up_to_date(self._absolute(directory), creates, needs)

    async def close(self) -> None:
        """End all programs, and wait until they are gone; their calls are not answered."""
        self._gone = asyncio.Event()
        for group in tuple(self._groups.values()):
            group.end()
        while self._groups:
            self._gone.clear()
            await self._gone.wait()
        self.reaper.close()

    # --- beginning ------------------------------------------------------------------------------------

    def _absolute(self, directory: str) -> str:
        if not directory:
            return self._directory
        return os.path.normpath(os.path.join(self._directory, os.path.expanduser(directory)))

    def _begin(self, running: RunningCall) -> None:
        call, program = running.call, _program(running.call)
        directory = self._absolute(program.directory)
        if program.creates and self.is_up_to_date(directory, program.creates, program.needs):
            running.answer(_SKIPPED)  # since it was asked for: after a crash, most likely
            return
        try:
            environment = environment_of(call, program, self._environment)
            text = standard_input(call, program)
        except ValueError as error:
            running.answer(Outcome(problem=Failure("bad-value", str(error), final=True)))
            return
        run = partial(self._run, running, directory, environment)
        if program.unless:
            unheard = ProgramOutput(_drop, None)
            run(program.unless, b"", unheard, partial(self._tested, running, partial(run, text=text)))
        else:
            run(program.words, text, self.outputs.of(call), partial(self._over, running))

    def _tested(self, running: RunningCall, run: Callable[..., None], _: ProgramOutput, status: int) -> None:
        """Skip or run a program, by the status of the one that tests whether there is nothing to do (A9)."""
        if status == 0:
            running.answer(_SKIPPED)
        else:
            output = self.outputs.of(running.call)
            run(_program(running.call).words, output=output, over=partial(self._over, running))

    def _run(
        self,
        running: RunningCall,
        directory: str,
        environment: Mapping[str, str],
        words: tuple[str, ...],
        text: bytes,
        output: ProgramOutput,
        over: Over,
    ) -> None:
        program, call = _program(running.call), running.call
        self.reaper.prepare()
        try:
            counted_in = self._limits.enter(program, _run_named(call), call.id)
        except CannotStartError as error:
            output.add(f"{error}\n".encode(), True)
            over(output, error.status)
            return
        group = self._groups[running] = ProcessGroup(
            self._loop,
            self.reaper,
            output,
            partial(self._take_back, running, output, over, counted_in),
            self._ending,
            grace=program.grace,
            mark=frozenset({f"{OWNER}={self.reaper.owner}".encode(), f"{CALL}={call.id}".encode()}),
        )
        try:
            all_words = limited(words, program.cpu, program.memory, program.files, counted_in)
            group.start(all_words, environment, directory, text)
        except CannotStartError as error:
            self._forget(running, counted_in)
            output.add(f"{error}\n".encode(), True)
            over(output, error.status)
        except OSError as error:
            self._forget(running, counted_in)
            running.answer(Outcome(problem=Failure("no-program", f"{words[0]} was not started: {error}")))

    # --- ending ---------------------------------------------------------------------------------------

    def _expire(self, running: RunningCall) -> None:
        self._end(running, None)

    def _end(self, running: RunningCall, reason: Outcome | None) -> None:
        group = self._groups.get(running)
        if group is None:  # it is being announced
            running.answer(reason or _late(""))
            return
        self._reasons.setdefault(running, reason)
        group.end()

    def _forget(self, running: RunningCall, counted_in: Path | None) -> None:
        del self._groups[running]
        if counted_in is not None:
            self._limits.leave(counted_in)

    def _take_back(
        self,
        running: RunningCall,
        output: ProgramOutput,
        over: Over,
        counted_in: Path | None,
        status: int | None,
    ) -> None:
        self._forget(running, counted_in)
        output.close()
        if self._gone is not None:
            self._gone.set()
        elif running in self._reasons:
            running.answer(self._reasons.pop(running) or _late(output.last))
        elif status is None:
            running.answer(LOST)
        else:
            over(output, status)

    def _over(self, running: RunningCall, output: ProgramOutput, status: int) -> None:
        ended = {"status": status} if status >= 0 else {"signal": signal_name(-status)}
        running.answer(Outcome(value={**ended, "output": output.last}))


def programs_of(
    home: Home | None, own: AgentRow, *, record_only: bool, is_known: Callable[[str, int], bool]
) -> ProgramBackend:
    """The programs of a home whose own agent is `own`, which run in its folder.

    A home that is opened `record_only` keeps nothing. The output of a run's programs is kept while `is_known`
    is true of the name of its agent and its number (A13).
    """
    loop = asyncio.get_running_loop()
    if home is None or record_only:
        return ProgramBackend(loop)
    outputs = OutputFolder(home.var / "output", own=own.name, is_known=is_known)
    reaper = ReaperClient(store_of(own.id, home), home.var)
    return ProgramBackend(loop, directory=home.path, outputs=outputs, reaper=reaper)


def _program(call: CallContext) -> Program:
    assert call.program is not None
    return call.program


def _run_named(call: CallContext) -> str:
    """The run of a call, told apart from those of other agents."""
    return f"{call.agent}.{call.run}" if call.agent else str(call.run)


def _late(output: str) -> Outcome:
    return Outcome(value={"timeout": 1, "output": output})


def _drop(data: bytes, is_error: bool) -> None:
    """Ignore the output of the program that tests whether there is something to do."""
