"""A trial of migrating runs to another version: the home continues twice from its current state.

In one continuation the runs stay unchanged, in the other they are migrated first. Both take the same time,
and nothing else differs: events in only one of them are due to the version.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from narval.ask.runs.migrating import migrate
from narval.core.errors import RequestError
from narval.core.kinds import ASKING, KINDS
from narval.store.look import Look
from narval.store.open import look_into
from narval.trials.simulate.memory_copy import Remembered, store_of
from narval.trials.simulate.report import SimulationReport
from narval.trials.simulate.scenario import Scenario
from narval.trials.simulate.simulated_home import SimulatedHome
from narval.trials.simulate.simulation import Simulation
from narval.trials.simulate.trace import Line

_COMPARED = ("called", "sent", "told", "woken", "started", "ended")
"""The events by which the two are compared: calls, messages, moments, questions, ends."""

_WORK = KINDS[ASKING].run

_SAYS = ("at", "what", "name", "step", "action", "part", "signal", "to", "agent", "phase", "state", "error")
"""The fields that identify an event; numbers of elements, runs and calls differ between the two."""


class Way(NamedTuple):
    """The future of a run in one of the two: `alone` are the events only there, and `waits` is why it does
    not continue at the end, as in `narval why`; None for an ended run.
    """

    alone: list[Line]
    waits: dict[str, Any] | None
    phase: str


class Fate(NamedTuple):
    """The future of one run: unchanged, migrated, and the number of events common to both."""

    run: int
    name: str
    as_it_is: Way
    migrated: Way
    same: int


class MigrationTrial(NamedTuple):
    """Both reports, and the future of each run that would be migrated."""

    as_it_is: SimulationReport
    migrated: SimulationReport
    fates: list[Fate]


async def play_migration(
    home: SimulatedHome, scenario: Scenario, agent: str, runs: Sequence[int], arguments: Mapping[str, Any]
) -> MigrationTrial:
    """Let time pass as a scenario says, with some runs unchanged, and with them migrated by arguments of the
    operation `migrate`. Raises RequestError, StoreError, DefinitionError.
    """
    assert home.home is not None
    start = time.time()
    reports: list[SimulationReport] = []
    families: list[dict[int, set[int]]] = []
    with look_into(store_of(home.home, home.settings), home.home.is_held) as look:
        if not isinstance(look, Look):
            raise RequestError("there are no runs yet")
        if agent:
            number = next((row.agent for row in look.agents() if row.name == home.settings.name), None)
            if number is None:
                raise RequestError(f"agent {home.settings.name} is not in the store; try again")
            look.use_own(number)
        for is_moved in (False, True):
            play = Simulation(home, scenario, start, Remembered(), look=look)
            try:
                await play.go_on()
                if is_moved:
                    answer = await migrate(play.daemon, [*map(str, runs)], **arguments)
                    _raise_if_refused(answer)
                before = {run.eid: run.caller for run in play.daemon.agent.runs.active.values()}
                reports.append(await play.play())
            finally:
                await play.daemon.close()
            callers = {eid: caller.run for eid, caller in before.items() if caller is not None}
            families.append(_families(runs, callers, reports[-1].lines, home.settings.name))
        if not look.is_still():
            raise RequestError("a daemon has started or ended while the store was read; try again")
    names = {row["eid"]: row["name"] for row in reports[0].runs}
    own = home.settings.name
    stays, moves = (_ways(report, family, own) for report, family in zip(reports, families, strict=True))
    fates = [_fate(run, names.get(run, ""), stays[run], moves[run]) for run in runs]
    return MigrationTrial(reports[0], reports[1], fates)


def _raise_if_refused(answer: Mapping[str, Any]) -> None:
    """Raise RequestError if a run could not be migrated although it could a moment ago."""
    for row in answer["runs"]:
        if row["outcome"] == "refused":
            why = "; ".join(place["why"] for place in row["refused"])
            raise RequestError(f"run {row['run']} of {row['name']} has gone on meanwhile: {why}; try again")


def _families(
    runs: Sequence[int], callers: Mapping[int, int], lines: Sequence[Line], own: str
) -> dict[int, set[int]]:
    """Each run of the agent `own` with those that it has called, directly or not."""
    called = dict(callers)
    called |= {
        line["run"]: line["caller"]["run"]
        for line in lines
        if line["what"] == "started" and line.get("who", own) == own
        if line["caller"] and not line["caller"].get("agent")
    }
    families = {run: {run} for run in runs}
    for run in called:
        above: int | None = run
        seen = set[int]()
        while above is not None and above not in seen:
            seen.add(above)
            if above in families:
                families[above].add(run)
            above = called.get(above)
    return families


class _Lines(NamedTuple):
    """The events of a run and of those that it has called, why it waits at the end, and its phase then."""

    lines: list[Line]
    waits: dict[str, Any] | None
    phase: str


def _ways(report: SimulationReport, families: Mapping[int, set[int]], own: str) -> dict[int, _Lines]:
    waiting = {answer["run"]: answer for answer in report.waiting if answer.get("who", own) == own}
    rows = {row["eid"]: row for row in report.runs if row.get("who", own) == own}
    kinds = {eid: row["kind"] for eid, row in rows.items()}
    phases = {line["run"]: line["phase"] for line in report.lines if line["what"] == "ended"}
    owners: dict[int, list[int]] = {}
    for run, family in families.items():
        for member in family:
            owners.setdefault(member, []).append(run)
    ways = {run: _Lines([], waiting.get(run), phases.get(run, "active")) for run in families}
    for line in report.lines:
        if line["what"] in _COMPARED and line.get("who", own) == own:
            asks = {"asks": True} if line["what"] == "started" and kinds.get(line["run"]) == _WORK else {}
            for run in owners.get(line.get("run", 0), ()):
                ways[run].lines.append(line | asks)
    return ways


def _fate(run: int, name: str, as_it_is: _Lines, migrated: _Lines) -> Fate:
    """The future of a run, from the events in only one of the two."""
    both = Counter(map(_said, as_it_is.lines)) & Counter(map(_said, migrated.lines))
    stays, moves = (Way(_alone(way.lines, both), way.waits, way.phase) for way in (as_it_is, migrated))
    return Fate(run, name, stays, moves, both.total())


def _alone(lines: Sequence[Line], both: Counter[Any]) -> list[Line]:
    left = Counter(both)
    alone = []
    for line in lines:
        key = _said(line)
        if left[key]:
            left[key] -= 1
        else:
            alone.append(line)
    return alone


def _said(line: Line) -> tuple[Any, ...]:
    return tuple(str(line.get(field)) for field in _SAYS)
