"""Pacing: a definition that keeps starting only because of itself starts later and later. Nothing is lost:
each start is a job of the store.

A start is a *lap* if the run before it used nothing and waited for nothing, or used only what was made by
runs that its definition had woken. A run that uses something from elsewhere ends the chain. Runs that give
start-plans of their own definition start one a second; these are laps too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from narval.agent.run import Run
from narval.agent.run_table import RunTable
from narval.agent.timers import Clockwork, StartRun
from narval.core.elements.element import Origin
from narval.core.engines.commands import RESTART_PAUSE
from narval.core.engines.dates import restart_wait
from narval.core.memory.memory import Memory
from narval.files.settings import CurrentSettings

WITHIN = 600.0
"""Seconds after which starts are counted from zero again."""
MOST_SPACED = 1000
"""The most runs for which the start of their last descendant is kept."""
MOST_AT_ONCE = 100
"""The most runs whose causes are examined at once: a larger number is not a chain."""

MOST_USED = 1000
"""The most elements used by a run whose makers are examined: a larger number is not a chain."""

MOST_GONE = 10_000
"""The most forgotten runs whose makers are kept."""

log = logging.getLogger("narval.turn")


class _Gone(NamedTuple):
    """A forgotten run: its definition, its top-level run, and the runs that made what it used."""

    name: str
    top: int
    makers: tuple[int, ...]


class Pacing:
    """The chains of starts of one agent: their length, and which definitions are slowed."""

    def __init__(self, memory: Memory, runs: RunTable, clockwork: Clockwork, home: CurrentSettings) -> None:
        self._memory, self._runs, self._clockwork, self._home = memory, runs, clockwork, home
        self._recent: dict[str, tuple[float, int]] = {}
        """By definition, a moment and the number of starts since."""
        self._slowed: set[str] = set()
        """The definitions that the log has reported as slowed."""
        self._spaced: dict[int, float] = {}
        """By run, the start of its last descendant of the same definition."""
        self._gone: dict[int, _Gone] = {}
        """The last forgotten runs of restarting definitions."""

    @property
    def most(self) -> int:
        """The laps after which starts come later."""
        return self._home.now.run_chain

    def pace(self, run: Run, now: float, at: float | None, job: StartRun) -> tuple[float | None, StartRun]:
        """The moment of the start that follows a run (None: at once), and its job. The engine asks for the
        moment `at`; the start may be later if the run used nothing, or only what its own runs made.
        """
        circle: tuple[str, ...] = ()
        if at is not None and next(self._used_by(run.eid), None) is None:
            laps = run.laps + 1
        else:
            since, starts = self._recent.get(run.name, (now, 0))
            if now - since > WITHIN:
                since, starts = now, 0
            if starts < self.most and run.laps <= self.most:
                self._recent[run.name] = (since, starts + 1)
                return at, job
            self._recent[run.name] = (now, 0)
            length, circle = self._chain(run)
            laps = max(self.most, run.laps) + 1 if length >= self.most else 0
        if laps <= self.most:
            if not laps and run.name in self._slowed:
                self.recover(run.name, "its run has used what comes from elsewhere")
            return at, msgspec.structs.replace(job, laps=laps) if laps else job
        return self.slow(msgspec.structs.replace(job, laps=laps), run.digest, circle, now, at)

    def slow(
        self, job: StartRun, digest: str, circle: tuple[str, ...], now: float, at: float | None
    ) -> tuple[float, StartRun]:
        """The moment of a start after the laps of its job, and the job as recorded."""
        late = job.laps - self.most
        moment = now if at is None else at
        if late <= 0:
            return moment, job
        job = msgspec.structs.replace(job, slowed=digest, circle=circle)
        if job.name not in self._slowed:
            self._slowed.add(job.name)
            log.warning("%s", slowed_text(job))
        return max(moment, now + restart_wait(late - 1)), job

    def space(
        self, name: str, ancestors: Mapping[str, int], giver: Origin | None, now: float
    ) -> tuple[float | None, int]:
        """The moment (None: now) of a start whose definition an ancestor has followed (N28), and the laps
        that led to it. One descendant of a run starts per second, unless the run that `giver` names used
        something from elsewhere.
        """
        first = ancestors.get(name)
        if first is None or giver is None or self._was_fed(giver.run, name, first):
            return None, 0
        makers = self._runs.with_callers(self._runs.get(giver.run))
        laps = max((maker.laps for maker in makers), default=0) + 1
        last = self._spaced.get(first)
        if last is None:
            last = self._last_planned(name, first, now)
            log.warning("run %d of %s starts its own definition again: one begins a second", first, name)
        if len(self._spaced) > MOST_SPACED:
            self._spaced = {run: at for run, at in self._spaced.items() if at > now - RESTART_PAUSE}
        self._spaced[first] = begins = max(last + RESTART_PAUSE, now)
        return (begins if begins > now or laps > self.most else None), laps

    def recover(self, name: str, why: str) -> None:
        """End the slow-down of a definition."""
        self._slowed.discard(name)
        self._recent.pop(name, None)
        log.info("%s begins as it should again: %s", name, why)

    def _was_fed(self, run: int, name: str, first: int) -> bool:
        """True if a run has used an element made outside its line of descent: such chains end."""
        for eid in self._used_by(run):
            element = self._memory.element(eid)
            if element is not None:
                maker = self._runs.get(element.origin.run) if element.origin is not None else None
                if maker is None or first not in (maker.eid, maker.ancestors.get(name)):
                    return True
        return False

    def _last_planned(self, name: str, first: int, now: float) -> float:
        """The planned start of the last descendant of a run; without any, the start of the run itself."""
        run, timers = self._runs.get(first), self._clockwork.timers
        planned = (
            at
            for id, job in self._clockwork.starts.items()
            if job.ancestors.get(name) == first and (at := timers.due((0, id))) is not None
        )
        return max(planned, default=run.started if run is not None else now)

    def _used_by(self, run: int) -> Iterator[int]:
        """The elements that a run has used."""
        for eid in self._memory.contexts.of(run):
            if any(user == run for _, user in self._memory.used_by(eid)):
                yield eid

    def note_forgotten(self, run: Run) -> None:
        """Keep what a run used that is about to be forgotten, if its definition restarts: a chain of starts
        may lead through it.
        """
        *_, top = self._runs.with_callers(run)
        if run.eid in self._gone or not (top.name in self._recent or top.name in self._slowed):
            return
        self._gone[run.eid] = _Gone(run.name, top.eid, self._makers(run.eid) if top is run else ())
        if len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def _chain(self, run: Run) -> tuple[int, tuple[str, ...]]:
        """The number of runs of its definition that led to a run, each by making what the next one used, at
        most `most`; and the definitions on the way from one of them to the next.
        """
        length, circle, newest, seen = 0, dict.fromkeys((run.name,)), [run.eid], {run.eid}
        while length < self.most and 0 < len(newest) <= MOST_AT_ONCE:
            makers: dict[int, None] = {}
            for each in newest:
                fed = self._makers(each)
                if not fed:
                    return length, tuple(circle)
                makers.update(dict.fromkeys(fed))
            names = [maker.name for eid in makers if (maker := self._runs.get(eid) or self._gone.get(eid))]
            if len(names) < len(makers):
                return length, tuple(circle)
            circle.update(dict.fromkeys(reversed(names)))
            length += run.name in names
            newest = [eid for eid in makers if eid not in seen]
            seen.update(newest)
        return length, tuple(circle)

    def _makers(self, run: int) -> tuple[int, ...]:
        """The other top-level runs that made what a run has used; () if something came from elsewhere, if
        only the run itself woke it, or if there are too many.
        """
        if run in self._gone:
            return self._gone[run].makers
        makers: dict[int, None] = {}
        for count, eid in enumerate(self._used_by(run)):
            element = self._memory.element(eid)
            maker = self._top(element.origin.run) if element and element.origin else 0
            if maker != run:
                makers[maker] = None
            if not maker or count >= MOST_USED or len(makers) > MOST_AT_ONCE:
                return ()
        return tuple(makers)

    def _top(self, eid: int | None) -> int:
        """The top-level run of a run; 0 if it is forgotten and not kept in `_gone`."""
        run = self._runs.get(eid or 0)
        if run is not None:
            *_, top = self._runs.with_callers(run)
            return top.eid
        gone = self._gone.get(eid or 0)
        return gone.top if gone is not None else 0


def slowed_text(job: StartRun) -> str:
    """The reason why a definition is slowed, and the next step, as a sentence."""
    if len(job.circle) > 1:
        why = f"{' → '.join((*job.circle, job.circle[0]))} wake one another"
        mend = "have one of them wait for something that the others do not make"
    elif job.circle:
        why, mend = "it uses only what its own runs make", "have it wait for something that it does not make"
    else:
        why = "its runs use nothing and wait for nothing, or start one another"
        mend = 'write use="yes" at a condition, add a date, or leave the restart out'
    text = f"{job.name} began {job.laps} times in a row, and begins later and later now: {why}"
    return f"{text}; {mend}; more are allowed by run_chain in etc/narval.toml"


def slowed_in(clockwork: Clockwork) -> str:
    """The sentence for a slowed definition; "" if there is none."""
    job = next((job for job in clockwork.starts.values() if job.slowed), None)
    return slowed_text(job) if job is not None else ""
