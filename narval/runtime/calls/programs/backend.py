"""Answers calls of programs (A2): each is started, and its outcome comes when all of its group is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lxml import etree

from narval.engines.commands import Program
from narval.engines.events import Failure
from narval.memory.elements.element import Element, parse
from narval.runtime.calls.backend import ABANDONED, Outcome, RunningCall, Task
from narval.runtime.calls.programs import reaper
from narval.runtime.calls.programs.output import Listen, ProgramOutput, logged
from narval.runtime.calls.programs.process_group import ProcessGroup
from narval.runtime.calls.programs.reaper_client import ReaperClient
from narval.runtime.calls.programs.spawn import CannotStartError, limited
from narval.runtime.calls.programs.up_to_date import is_up_to_date
from narval.runtime.home.home import Home

SWEEP_EVERY = 3600.0
"""Seconds between two looks for what is kept of forgotten runs."""
LONGEST_VARIABLE = 100_000
"""Bytes; the system takes about 128 KiB for each."""

_SKIPPED = Outcome(value={"status": 0, "skipped": 1})


class ProgramBackend:
    """All programs under way.

    `directory` is where they run that say nothing else, `folder` where what they print is kept (None:
    nowhere), `listen` gives, for a call, who is told what its program prints. What the programs of a run have
    printed is removed once `is_known` is false of it.
    """

    queued = 0
    given_up = 0

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        directory: Path | None = None,
        folder: Path | None = None,
        keeping: ReaperClient | None = None,
        listen: Listen = logged,
        is_known: Callable[[int], bool] = lambda run: True,
    ) -> None:
        self._loop = loop
        self._directory = str(directory) if directory is not None else os.getcwd()
        self._folder, self._listen, self._is_known = folder, listen, is_known
        self._swept = 0.0
        self.keeping = keeping or ReaperClient()
        self._environment = {**os.environ, reaper.OWNER: self.keeping.owner}
        self._at_work: dict[RunningCall, ProcessGroup] = {}
        self._reasons: dict[RunningCall, Outcome | None] = {}
        """Of those that are being ended: how their call ends, None for a time limit."""
        self._is_closing = False
        self._gone = asyncio.Event()

    def redirect(self, directory: Path, listen: Listen) -> None:
        """Run programs in another folder from now on, and hand what they print to `listen`."""
        self._directory, self._listen = str(directory), listen

    def start(self, work: RunningCall) -> None:
        """Answer a call: at once when its files are up to date (A9)."""
        work.begin(self._loop, self._expire, partial(self._begin, work))

    def abandon(self, work: RunningCall) -> None:
        """End its program; the answer comes when all of it is gone (A4)."""
        self._end(work, ABANDONED)

    def is_up_to_date(self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...]) -> bool:
        """Whether files that a program would create are there, and none that it needs is newer."""
        return is_up_to_date(self._whole(directory), creates, needs)

    def _whole(self, directory: str) -> str:
        if not directory:
            return self._directory
        return os.path.normpath(os.path.join(self._directory, os.path.expanduser(directory)))

    async def close(self) -> None:
        """End all programs, and wait until they are gone; nobody is told."""
        self._is_closing = True
        for group in tuple(self._at_work.values()):
            group.end()
        while self._at_work:
            self._gone.clear()
            await self._gone.wait()
        self.keeping.close()

    # --- beginning ------------------------------------------------------------------------------------

    def _begin(self, work: RunningCall) -> None:
        program = _program(work.task)
        directory = self._whole(program.directory)
        if program.creates and self.is_up_to_date(directory, program.creates, program.needs):
            work.answer(_SKIPPED)  # since it was asked for: after a crash, most likely
            return
        try:
            environment, text = self._environment_of(work.task, program), _standard_input(work.task, program)
        except ValueError as error:
            work.answer(Outcome(problem=Failure("bad-value", str(error), final=True)))
            return
        run = partial(self._run, work, directory, environment)
        if program.unless:
            nobody = ProgramOutput(_hear_nothing, None)
            run(program.unless, b"", nobody, partial(self._asked, work, partial(run, text=text)))
        else:
            run(program.words, text, self._output(work.task), partial(self._over, work))

    def _asked(self, work: RunningCall, run: Callable[..., None], output: ProgramOutput, status: int) -> None:
        """The program that says whether there is nothing to do has said so (A9)."""
        if self._is_over(work):
            return
        if status == 0:
            work.answer(_SKIPPED)
            return
        task = work.task
        run(_program(task).words, output=self._output(task), over=partial(self._over, work))

    def _run(
        self,
        work: RunningCall,
        directory: str,
        environment: dict[str, str],
        words: tuple[str, ...],
        text: bytes,
        output: ProgramOutput,
        over: Callable[[ProgramOutput, int], None],
    ) -> None:
        program = _program(work.task)
        self.keeping.prepare()
        group = ProcessGroup(
            self._loop,
            self.keeping,
            output,
            partial(self._gone_from, work, output, over),
            grace=program.grace,
            mark=f"NARVAL_CALL={work.task.call}",
        )
        self._at_work[work] = group
        try:
            group.start(
                limited(words, program.cpu, program.memory, program.files), environment, directory, text
            )
        except CannotStartError as error:
            del self._at_work[work]
            output.add(f"{error}\n".encode(), True)
            over(output, error.status)
        except OSError as error:
            del self._at_work[work]
            work.answer(Outcome(problem=Failure("no-program", f"{words[0]} was not started: {error}")))

    def _environment_of(self, task: Task, program: Program) -> dict[str, str]:
        """What a program finds in its environment (A13). Raises ValueError."""
        found = {
            **self._environment,
            **dict(program.environment),
            reaper.OWNER: self.keeping.owner,
            "NARVAL_RUN": str(task.run),
            "NARVAL_STATE": task.step,
            "NARVAL_CALL": task.call,
        }
        if task.home is not None:
            found["NARVAL_HOME"] = str(task.home)
        for name, expression in program.selects:
            element = task.inputs.get(name)
            if isinstance(element, Element):
                found[name] = _text_of(name, element, expression)
        return found

    def sweep(self) -> None:
        """Remove what programs of runs have printed that are forgotten."""
        self._swept = self._loop.time()
        with contextlib.suppress(OSError):
            for each in self._folder.iterdir() if self._folder is not None else ():
                if each.name.isdigit() and not self._is_known(int(each.name)):
                    shutil.rmtree(each, ignore_errors=True)

    def _output(self, task: Task) -> ProgramOutput:
        if self._loop.time() - self._swept > SWEEP_EVERY:
            self.sweep()
        path = self._folder / str(task.run) / task.step if self._folder is not None else None
        return ProgramOutput(self._listen(task), path)

    # --- ending ---------------------------------------------------------------------------------------

    def _expire(self, work: RunningCall) -> None:
        self._end(work, None)

    def _end(self, work: RunningCall, reason: Outcome | None) -> None:
        group = self._at_work.get(work)
        if group is None:  # it is being announced
            work.answer(reason or _late(""))
            return
        self._reasons.setdefault(work, reason)
        group.end()

    def _gone_from(
        self,
        work: RunningCall,
        output: ProgramOutput,
        over: Callable[[ProgramOutput, int], None],
        status: int,
    ) -> None:
        del self._at_work[work]
        output.close()
        if self._is_closing:
            self._gone.set()
        else:
            over(output, status)

    def _is_over(self, work: RunningCall) -> bool:
        """Whether its answer is that it was ended; then it is given."""
        if work not in self._reasons:
            return False
        work.answer(self._reasons.pop(work) or _late(""))
        return True

    def _over(self, work: RunningCall, output: ProgramOutput, status: int) -> None:
        if work in self._reasons:
            work.answer(self._reasons.pop(work) or _late(output.last))
            return
        ended = {"status": status} if status >= 0 else {"signal": reaper.signal_name(-status)}
        work.answer(Outcome(value={**ended, "output": output.last}))


def programs_of(home: Home | None, *, record_only: bool, is_known: Callable[[int], bool]) -> ProgramBackend:
    """The programs of a home, which run in its folder; a home that is only asked keeps nothing."""
    loop = asyncio.get_running_loop()
    if home is None or record_only:
        return ProgramBackend(loop)
    keeping = ReaperClient(home.id, home.var)
    return ProgramBackend(
        loop, directory=home.path, folder=home.var / "output", keeping=keeping, is_known=is_known
    )


def _program(task: Task) -> Program:
    assert task.program is not None
    return task.program


def _late(output: str) -> Outcome:
    return Outcome(value={"timeout": 1, "output": output})


def _hear_nothing(data: bytes, is_error: bool) -> None:
    """What says whether there is something to do is not asked for its words."""


def _standard_input(task: Task, program: Program) -> bytes:
    """The text of the state, unchanged; or the elements it is given, within a `memory` (A13)."""
    given = task.inputs.get("")
    if not isinstance(given, list):
        return program.text.encode("utf-8")
    return b"<memory>\n%b\n</memory>\n" % b"\n".join(element.with_eid() for element in given)


def _text_of(name: str, element: Element, expression: str) -> str:
    """What an element says, as a variable. Raises ValueError for what cannot be one."""
    text = str(etree.XPath(expression)(parse(element.xml)))
    if "\0" in text or len(text.encode("utf-8")) > LONGEST_VARIABLE:
        raise ValueError(f"what {expression} selects of element {element.eid} cannot be the variable {name}")
    return text
