"""News: the changes of an agent's last turns, for those who follow them (M6).

News is kept while there are followers, and for a minute after. Otherwise a turn only checks one attribute.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import NamedTuple

from narval.store.batch import Batch

TURNS = 1024
"""The most turns with changes that are kept."""

MINUTE = 60.0
"""Seconds for which turns are kept after the last request."""

PAUSE = 0.05
"""Seconds between two answers to a follower: the changes of many turns come in one answer."""

MOST_RUNS = 10_000
"""The most changed runs that are listed; beyond that, the answer says that they are lost."""


class Changes(NamedTuple):
    """The changes up to a turn: the runs by eid, memory, work of people, active files, jobs.

    The caller derives `work` from the runs. `lost`: the starting point is unknown, and everything may have
    changed.
    """

    turn: int
    runs: tuple[int, ...] = ()
    elements: bool = False
    work: bool = False
    faults: bool = False
    jobs: bool = False
    lost: bool = False


class News:
    """The changes of the last turns, by turn number.

    Numbers begin at the microsecond of the first request, so that a number from before, or from another
    daemon, is recognized as foreign.
    """

    __slots__ = ("_asked", "_asking", "_coming", "_files", "_last", "_ring", "_told", "is_kept")

    def __init__(self) -> None:
        self.is_kept = False
        """True while turns are kept."""
        self._ring: list[Changes] = []
        self._last, self._asked, self._asking = 0, 0.0, 0
        self._told = 0.0
        """The time of the last answer to a follower (monotonic seconds)."""
        self._files = False
        """True from a change of the active files until the end of that turn."""
        self._coming: asyncio.Event | None = None
        """An event for the next turn with changes; None unless a follower waits for one."""

    def since(self, after: int, now: float) -> Changes | None:
        """The changes after a turn, or None if there are none; from now on turns are kept for a while."""
        self._asked = now
        if not self.is_kept:
            self.is_kept, self._files, self._last = True, False, int(now * 1e6)
        ring = self._ring
        first = ring[0].turn - 1 if ring else self._last
        if after == self._last:
            return None
        lost = Changes(self._last, elements=True, work=True, faults=True, jobs=True, lost=True)
        if not first <= after < self._last:
            return lost
        runs, elements, faults, jobs = set[int](), False, False, False
        for changes in reversed(ring):
            if changes.turn <= after or len(runs) > MOST_RUNS:
                break
            runs.update(changes.runs)
            elements, faults = elements or changes.elements, faults or changes.faults
            jobs = jobs or changes.jobs
        if len(runs) > MOST_RUNS:
            return lost
        return Changes(self._last, tuple(sorted(runs)), elements, faults=faults, jobs=jobs)

    async def rest(self, wait: float) -> None:
        """Wait out the pause since the last answer to a follower, at most `wait` seconds of it."""
        left = self._told + PAUSE - time.monotonic()
        if left > 0:
            await asyncio.sleep(min(left, wait))
        self._told = time.monotonic()

    async def more(self, wait: float) -> None:
        """Wait for a turn that changes something, at most `wait` seconds."""
        self._coming = self._coming or asyncio.Event()
        self._asking += 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._coming.wait(), wait)
        finally:
            self._asking -= 1
            self._told = time.monotonic()

    def use_files(self) -> None:
        """Note that other definitions, settings or people are active from now on."""
        self._files = True

    def note(self, batch: Batch, at: float) -> None:
        """Keep the changes of a recorded turn."""
        if not self._is_followed(at):
            return
        runs = {advance.run for advance in batch.journal}
        if batch.runs:
            runs.update(row.eid for row in batch.runs)
        if batch.forgotten_runs:
            runs.update(batch.forgotten_runs)
        elements = bool(
            batch.elements or batch.outdated or batch.forgotten_elements or batch.shared or batch.undeclared
        )
        if runs or elements or self._files:
            self._add(Changes(self._last + 1, tuple(runs), elements, faults=self._files))
            self._files = False

    def note_run(self, run: int) -> None:
        """Note the progress of a run's call, which no turn reports."""
        if self.is_kept:
            self._add(Changes(self._last + 1, (run,)))

    def note_jobs(self, at: float) -> None:
        """Note that a job has progressed or ended, which no turn reports."""
        if self.is_kept and self._is_followed(at):
            self._add(Changes(self._last + 1, jobs=True))

    def close(self) -> None:
        """Stop keeping turns; those who wait are told that changes are lost."""
        self.is_kept = False
        self._ring.clear()
        self._tell()

    def _is_followed(self, at: float) -> bool:
        """False if there was no request for a while; turns are then no longer kept."""
        if not self._asking and at - self._asked > MINUTE:
            self.close()
            return False
        return True

    def _add(self, changes: Changes) -> None:
        self._last = changes.turn
        self._ring.append(changes)
        del self._ring[:-TURNS]
        self._tell()

    def _tell(self) -> None:
        if self._coming is not None:
            self._coming.set()
            self._coming = None
