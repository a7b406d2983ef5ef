"""Backend for calls of programs (A2): each is started, and answered when all of its group is gone."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path

from lxml import etree

from narval.calls.backend import Backend
from narval.calls.confining import limits_of_program
from narval.calls.context import CallContext
from narval.calls.programs import reaper
from narval.calls.programs.created_files import CreatedFiles, lacking
from narval.calls.programs.output import IsKnown, Listen, OutputFolder, ProgramOutput
from narval.calls.programs.process_group import CommandRunner, EndingGroups, ProcessGroup, small_environment
from narval.calls.programs.reaper import CALL, OWNER, signal_name
from narval.calls.programs.reaper_client import ReaperClient, store_of
from narval.calls.programs.spawn import NOT_EXECUTABLE, CannotStartError, limited
from narval.calls.record import ABANDONED, LOST, CallRecord, Outcome
from narval.core.elements.element import Element, parse
from narval.core.engines.commands import Program
from narval.core.engines.events import Failure
from narval.core.engines.view import FileTimes
from narval.files.home import Home
from narval.store.batch import AgentRow
from narval.system import cgroup
from narval.system.cgroup import NoGroupError
from narval.system.confinement import abi, confine_thread
from narval.system.pipes import Descriptors, Readers

_EXPIRED = Outcome(value={"timeout": 1})
_SKIPPED = Outcome(value={"status": 0, "skipped": 1})

Over = Callable[[ProgramOutput, int], None]
"""Called with the output and the status of a program that is gone."""


class ProcessLimits:
    """The control groups of the programs under way in one life of a daemon, `owner`.

    `own_group` returns the group in which they are made, or raises NoGroupError.
    """

    def __init__(self, owner: str, own_group: Callable[[], Path] = cgroup.own_group) -> None:
        self._owner, self._own_group = owner, own_group
        self._entered: Counter[Path] = Counter()
        """The number of programs that need each group."""

    def enter(self, program: Program, run: str, call: str) -> Path | None:
        """The group for a program that is about to start; None if nothing limits it. Raises CannotStartError.

        If a run is limited, all its programs are in one group. Programs with their own limit are in a
        subgroup of it.
        """
        if program.processes is None and program.run_processes is None:
            return None
        most = program.processes if program.run_processes is None else program.run_processes
        name = f"{reaper.group_name(self._owner)}-{run if program.run_processes is not None else call}"
        try:
            group = cgroup.make_group(self._own_group(), name, most)
            if program.run_processes is not None and program.processes is not None:
                self._entered[group] += 1
                group = cgroup.make_group(group, call, program.processes)
        except (NoGroupError, OSError) as error:
            message = f'processes="{most}" cannot be kept here, so the program is not started: {error}'
            raise CannotStartError(NOT_EXECUTABLE, message) from None
        self._entered[group] += 1
        return group

    def leave(self, group: Path) -> None:
        """Remove the group of a program that is gone, if no other program is or will be in it."""
        while group in self._entered:
            self._entered[group] -= 1
            if self._entered[group] <= 0:
                del self._entered[group]
                reaper.remove_group(str(group))
            group = group.parent


class ProgramBackend(Backend):
    """All programs under way.

    `directory` is the folder of programs that name none; `outputs` keeps what programs print; `created` are
    the files that they create; `limits` limits the number of their processes.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        directory: Path | None = None,
        outputs: OutputFolder | None = None,
        created: CreatedFiles | None = None,
        reaper: ReaperClient | None = None,
        limits: ProcessLimits | None = None,
    ) -> None:
        self._loop = loop
        self._directory = str(directory) if directory is not None else os.getcwd()
        self.outputs = outputs or OutputFolder(None)
        self._created = created or CreatedFiles(None)
        self.reaper = reaper or ReaperClient()
        self._environment = {**os.environ, OWNER: self.reaper.owner}
        self._under_way: set[CallRecord] = set()
        """The calls that have a program; the `place` of each is its group."""
        self._ending = EndingGroups(loop)
        self._readers: Readers = Descriptors(loop) if sys.platform == "linux" else loop
        self._limits = limits or ProcessLimits(self.reaper.owner)
        self._gone: asyncio.Event | None = None
        """Set whenever a program is gone; None until the backend closes."""

    @cached_property
    def commands(self) -> CommandRunner:
        """The runner of programs for actions."""
        return CommandRunner(self._loop, self._readers, self.reaper, self._ending)

    def redirect(self, directory: Path, listen: Listen) -> None:
        """Run programs in another folder from now on, and send their output to `listen`."""
        self._directory = str(directory)
        self._created = CreatedFiles(directory / ".narval-unfinished")
        self.outputs.redirect(listen)

    def start(self, record: CallRecord) -> None:
        """Answer a call, at once if its files are up to date (A9)."""
        if record.begin(self._expire):
            self.go(record)

    def abandon(self, record: CallRecord) -> None:
        """End the call's program; it is answered when all of its group is gone (A4)."""
        self._end(record, ABANDONED)

    def is_up_to_date(
        self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...], times: FileTimes
    ) -> bool:
        """True if the files that a program would create are complete, and none that it needs is newer."""
        return self._created.are_up_to_date(self._absolute(directory), creates, needs, times)

    async def close(self) -> None:
        """End all programs, and wait until they are gone; their calls are not answered."""
        self._gone = asyncio.Event()
        for record in tuple(self._under_way):
            record.place.end()
        while self._under_way:
            self._gone.clear()
            await self._gone.wait()
        if isinstance(self._readers, Descriptors):
            self._readers.close()
        self.reaper.close()
        self._created.close()

    # --- beginning ------------------------------------------------------------------------------------

    def _absolute(self, directory: str) -> str:
        if not directory:
            return self._directory
        return os.path.normpath(os.path.join(self._directory, os.path.expanduser(directory)))

    def go(self, record: CallRecord) -> None:
        """Start the program of a call, unless its files are up to date or its test program succeeds."""
        call, program = record.call, _program(record.call)
        directory = self._absolute(program.directory)
        if program.creates and self._created.are_up_to_date(directory, program.creates, program.needs, {}):
            record.answer(_SKIPPED)  # another program has made them since the call was asked for
            return
        try:
            environment = environment_of(call, program, seen_by(call, self._environment))
            text = standard_input(call, program)
        except ValueError as error:
            record.answer(Outcome(problem=Failure("bad-value", str(error), final=True)))
            return
        run = partial(self._run, record, directory, environment)
        start = partial(self._start, record, directory, partial(run, program.words, text))
        if program.unless:
            unheard = ProgramOutput(_drop, None)
            run(program.unless, b"", unheard, partial(self._tested, record, start))
        else:
            start()

    def _tested(self, record: CallRecord, start: Callable[[], None], _: ProgramOutput, status: int) -> None:
        """Skip or start a program, depending on the status of its test program."""
        if status == 0:
            record.answer(_SKIPPED)
        else:
            start()

    def _start(self, record: CallRecord, directory: str, run: Callable[[ProgramOutput, Over], None]) -> None:
        program, output = _program(record.call), self.outputs.of(record.call)
        for pattern in lacking(directory, program.creates, program.needs):
            output.add(f"narval: needs={pattern}: no such file, so this is never up to date\n".encode(), True)
        self._created.begin(directory, program.creates)
        run(output, partial(self._over, record, directory))

    def _run(
        self,
        record: CallRecord,
        directory: str,
        environment: Mapping[str, str],
        words: tuple[str, ...],
        text: bytes,
        output: ProgramOutput,
        over: Over,
    ) -> None:
        program, call = _program(record.call), record.call
        self.reaper.prepare()
        try:
            run = f"{call.agent}.{call.run}" if call.agent else str(call.run)  # unique across agents
            counted_in = self._limits.enter(program, run, call.id)
        except CannotStartError as error:
            output.add(f"{error}\n".encode(), True)
            over(output, error.status)
            return
        group = ProcessGroup(
            self._loop,
            self._readers,
            self.reaper,
            output,
            partial(self._take_back, record, output, over, counted_in),
            self._ending,
            grace=program.grace,
            mark=frozenset({f"{OWNER}={self.reaper.owner}".encode(), f"{CALL}={call.id}".encode()}),
        )
        record.give_to(group)
        self._under_way.add(record)
        try:
            all_words = limited(words, program.cpu, program.memory, program.files, counted_in)
            confine = None
            if call.reaches is not None and abi():
                searched = environment.get("PATH", os.defpath)
                limits = limits_of_program(call, words, searched, directory, counted_in)
                confine = partial(confine_thread, limits, has_hosts=bool(call.reaches.hosts))
            group.start(all_words, environment, directory, text, confine)
        except CannotStartError as error:
            self._forget(record, counted_in)
            output.add(f"{error}\n".encode(), True)
            over(output, error.status)
        except OSError as error:
            self._forget(record, counted_in)
            record.answer(Outcome(problem=Failure("no-program", f"{words[0]} was not started: {error}")))

    # --- ending ---------------------------------------------------------------------------------------

    def _expire(self, record: CallRecord) -> None:
        self._end(record, _EXPIRED)

    def _end(self, record: CallRecord, verdict: Outcome) -> None:
        if record not in self._under_way:  # it is being announced
            record.answer(_late("") if verdict is _EXPIRED else verdict)
            return
        record.end_with(verdict)
        record.place.end()

    def _forget(self, record: CallRecord, counted_in: Path | None) -> None:
        self._under_way.discard(record)
        if counted_in is not None:
            self._limits.leave(counted_in)

    def _take_back(
        self,
        record: CallRecord,
        output: ProgramOutput,
        over: Over,
        counted_in: Path | None,
        status: int | None,
    ) -> None:
        self._forget(record, counted_in)
        output.close()
        if self._gone is not None:
            self._gone.set()
        elif record.verdict is not None:
            record.answer(_late(output.last) if record.verdict is _EXPIRED else record.verdict)
        elif status is None:
            record.answer(LOST)
        else:
            over(output, status)

    def _over(self, record: CallRecord, directory: str, output: ProgramOutput, status: int) -> None:
        if status == 0:
            self._created.complete(directory, _program(record.call).creates)
        ended = {"status": status} if status >= 0 else {"signal": signal_name(-status)}
        record.answer(Outcome(value={**ended, "output": output.last}))


def programs_of(
    home: Home | None, own: AgentRow, known_runs: Callable[[], IsKnown], *, record_only: bool
) -> ProgramBackend:
    """The programs of a home whose own agent is `own`. They run in its folder, and the output of `known_runs`
    is kept. A home opened `record_only` keeps nothing.
    """
    loop = asyncio.get_running_loop()
    if home is None or record_only:
        return ProgramBackend(loop)
    outputs = OutputFolder(home.var / "output", own=own.name, known_runs=known_runs)
    reaper = ReaperClient(store_of(own.id, home), home.var)
    created = CreatedFiles(home.var / "unfinished")
    return ProgramBackend(loop, directory=home.path, outputs=outputs, created=created, reaper=reaper)


def _program(call: CallContext) -> Program:
    assert call.program is not None
    return call.program


def _late(output: str) -> Outcome:
    return Outcome(value={"timeout": 1, "output": output})


def _drop(data: bytes, is_error: bool) -> None:
    """Ignore the output of a test program."""


LONGEST_VARIABLE = 100_000
"""The most bytes of a variable; the system accepts about 128 KiB."""


def seen_by(call: CallContext, daemon: Mapping[str, str]) -> Mapping[str, str]:
    """The daemon's variables that a program sees; a confined one sees a few, and its declared secrets."""
    if call.reaches is None:
        return daemon
    secrets = {name: os.environ[name] for name in call.reaches.secrets if name in os.environ}
    return {**small_environment(), **secrets, OWNER: daemon[OWNER]}


def environment_of(call: CallContext, program: Program, daemon: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program: the daemon's, the zone of the home, and its own. Raises ValueError."""
    environment = {
        **daemon,
        **call.zone_variable(),
        **dict(program.environment),
        reaper.OWNER: daemon[reaper.OWNER],
        "NARVAL_AGENT": call.agent,
        "NARVAL_RUN": str(call.run),
        "NARVAL_STATE": call.step,
        reaper.CALL: call.id,
    }
    if call.home is not None:
        environment["NARVAL_HOME"] = str(call.home)
    for name, expression in program.selects:
        element = call.inputs.get(name)
        if isinstance(element, Element):
            environment[name] = _text_of(name, element, expression)
    return environment


def standard_input(call: CallContext, program: Program) -> bytes:
    """The program's text, unchanged; or the elements it is given, within a `memory` (A13)."""
    elements = call.inputs.get("")
    if not isinstance(elements, list):
        return program.text.encode("utf-8")
    return b"<memory>\n%b\n</memory>\n" % b"\n".join(element.with_eid() for element in elements)


def _text_of(name: str, element: Element, expression: str) -> str:
    """The text that an expression selects in an element, as a variable. Raises ValueError if it is not a
    valid value.
    """
    text = str(etree.XPath(expression)(parse(element.xml)))
    if "\0" in text or len(text.encode("utf-8")) > LONGEST_VARIABLE:
        raise ValueError(f"what {expression} selects of element {element.eid} cannot be the variable {name}")
    return text
