"""News: what the last turns of an agent have changed, for those who follow it (M6).

News is kept while somebody asks, and for a minute after; otherwise a turn costs a look at one attribute.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import NamedTuple

from narval.store.batch import Batch

TURNS = 1024
"""The most turns with changes that are remembered."""

MINUTE = 60.0
"""Seconds for which turns are remembered after the last question."""

PAUSE = 0.05
"""Seconds between two answers to a follower: the changes of many turns are told at once."""

MOST_RUNS = 10_000
"""The most changed runs that are listed; if there are more, the answer says that they are lost."""


class Changes(NamedTuple):
    """The changes up to a turn: the runs by eid, memory, work of people, the files that count, jobs.

    The caller works out `work` from the runs. `lost` says that the starting point is not known: everything
    may have changed.
    """

    turn: int
    runs: tuple[int, ...] = ()
    elements: bool = False
    work: bool = False
    faults: bool = False
    jobs: bool = False
    lost: bool = False


class News:
    """The changes of the last turns, by the number of the turn.

    Numbers begin at the microsecond of the first question, so that a number from before, or of another
    daemon, is recognized as foreign.
    """

    __slots__ = ("_asked", "_asking", "_coming", "_files", "_last", "_ring", "_told", "is_kept")

    def __init__(self) -> None:
        self.is_kept = False
        """True while turns are remembered."""
        self._ring: list[Changes] = []
        self._last, self._asked, self._asking = 0, 0.0, 0
        self._told = 0.0
        """The moment at which a follower was last told something (monotonic seconds)."""
        self._files = False
        """True from when other files count until the end of that turn."""
        self._coming: asyncio.Event | None = None
        """An event for the next turn with changes; None unless somebody waits for one."""

    def since(self, after: int, now: float) -> Changes | None:
        """The changes after a turn, or None without any; turns are remembered for a while from now on."""
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
        for found in reversed(ring):
            if found.turn <= after or len(runs) > MOST_RUNS:
                break
            runs.update(found.runs)
            elements, faults = elements or found.elements, faults or found.faults
            jobs = jobs or found.jobs
        if len(runs) > MOST_RUNS:
            return lost
        return Changes(self._last, tuple(sorted(runs)), elements, faults=faults, jobs=jobs)

    async def rest(self, wait: float) -> None:
        """Let the pause since the last answer to a follower go by, at most `wait` seconds of it."""
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
        """Note that other definitions, settings or people count from now on."""
        self._files = True

    def note(self, batch: Batch, at: float) -> None:
        """Remember what a recorded turn changed."""
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
        """Remember that a call of a run has progressed: no turn says so."""
        if self.is_kept:
            self._add(Changes(self._last + 1, (run,)))

    def note_jobs(self, at: float) -> None:
        """Remember that a job has progressed, or has ended: no turn says so."""
        if self.is_kept and self._is_followed(at):
            self._add(Changes(self._last + 1, jobs=True))

    def close(self) -> None:
        """Stop remembering; those who wait are told that changes are lost."""
        self.is_kept = False
        self._ring.clear()
        self._tell()

    def _is_followed(self, at: float) -> bool:
        """False if nobody has asked for a while; then remembering stops."""
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
