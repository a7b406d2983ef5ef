"""Limits of how many processes a program, or all of a run, may be at once (A19), kept by control groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from narval.calls.programs import reaper
from narval.calls.programs.spawn import NOT_EXECUTABLE, CannotStartError
from narval.core.engines.commands import Program
from narval.system import cgroup
from narval.system.cgroup import NoGroupError


class ProcessLimits:
    """The control groups of the programs under way of one life of a daemon, which is `owner`.

    `own_group` gives the group in which they are made, or raises NoGroupError.
    """

    def __init__(self, owner: str, own_group: Callable[[], Path] = cgroup.own_group) -> None:
        self._owner, self._own_group = owner, own_group
        self._entered: Counter[Path] = Counter()
        """The programs that a group is kept for."""

    def enter(self, program: Program, run: str, call: str) -> Path | None:
        """The group for a program that is about to start; None if nothing limits it. Raises CannotStartError.

        All programs of a run are in one group where the run is limited; those that have a limit of their own
        are in one within it.
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
        """Remove the group of a program that is gone, if no other is in it, nor is about to be."""
        while group in self._entered:
            self._entered[group] -= 1
            if self._entered[group] <= 0:
                del self._entered[group]
                reaper.remove_group(str(group))
            group = group.parent
