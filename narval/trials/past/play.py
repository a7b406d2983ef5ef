"""Definitions played on the past: the same arrivals are played twice, with and without them.

Two simulations advance side by side, a stretch of time each in turn. All differences between them are due to
the definitions on trial: elements that these use, add and replace affect the others in ways that no mark on
an element would show. If the play is ended early, both are at the same moment.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import tee
from typing import Any, NamedTuple

import msgspec

from narval.agent.declared import has_taken_nothing
from narval.agent.effects import outdate
from narval.agent.turn import Turn
from narval.ask.why import why
from narval.core.definitions.library import Library, RunDefinition
from narval.core.elements.element import parse
from narval.core.elements.names import START_PLANS, TARGET
from narval.core.engines.registry import is_runnable, runnable
from narval.core.errors import DefinitionError
from narval.core.kinds import KINDS
from narval.core.trust.flow import flow_of
from narval.files.loaded import Loaded
from narval.files.memory_file import read_memory
from narval.system.clock import machine_zone
from narval.trials.past.outcome import NEWEST, PastReport, Tally, changes_between
from narval.trials.past.past import Coming, Past, Stopped
from narval.trials.past.stores import PastStores
from narval.trials.simulate.scenario import Scenario, ScheduledStart, When
from narval.trials.simulate.simulated_home import SimulatedHome, snapshot_now
from narval.trials.simulate.simulation import Replay, Simulation

STRETCHES = 200
"""The least number of stretches of time through which the two simulations advance in turn."""

ENDED = "it was ended"


class Progress(NamedTuple):
    """The number of arrivals played, the number of all, and a function that makes the report so far."""

    played: int
    arrivals: int
    report: Callable[[], Awaitable[PastReport]]


Told = Callable[[Progress], Awaitable[None]]


class Tried(msgspec.Struct, frozen=True):
    """The definitions on trial, by name, and the home's definitions with them."""

    loaded: Loaded
    names: tuple[str, ...]
    replaced: frozenset[str] = frozenset()
    """The names among them that the home has in another version."""


def tried(loaded: Loaded, texts: Sequence[str], names: Sequence[str]) -> Tried:
    """Definitions of the home by their names, and those of files, which replace others of the same names.

    Raises DefinitionError.
    """
    added, here = list(names), loaded
    for text in texts:
        before = here.library.by_kind_and_name
        here = here.with_definitions(text)
        added += (
            definition.full_name
            for definition in here.library
            if is_runnable(definition.kind)
            and before.get((definition.kind, definition.full_name)) is not definition
        )
    replaced = frozenset(name for name in added if name not in names and runnable(loaded.library, name))
    return Tried(here, tuple(dict.fromkeys(added)), replaced)


async def play_past(
    home: SimulatedHome, trial: Tried, stores: PastStores, since: float, until: float,
    *, most: int | None, stopped: Stopped, read: Callable[[int], None], told: Told,
) -> PastReport:  # fmt: skip
    """Play all arrivals since a day with the definitions on trial, and without them; `most` deeds are kept,
    None: all.

    `read` and `told` are called with the progress, and `stopped` says whether the end is requested. Raises
    RequestError, StoreError, DefinitionError.
    """
    past = Past(stores, trial.loaded.library, since, stopped, read)
    declared = _declared(home)
    zone = home.settings.timezone or machine_zone()
    tallies = [Tally(trial.names, loaded.library, zone, most) for loaded in (trial.loaded, home.loaded)]
    with_it, without = tallies
    arrivals = sum(past.reach.came.values())
    comings = past.comings()
    streams = tee(comings)
    plays: list[Simulation] = []
    reached = since

    async def report() -> PastReport:
        waiting, under_way, listening = await _waiting(plays[0], trial.names)
        return PastReport(
            trial.names,
            since,
            until,
            reached,
            past.reach,
            tuple(map(str, stores.backups)),
            tuple(stores.left_out),
            with_it,
            waiting,
            under_way,
            listening,
            changes_between(without, with_it, set(trial.names) - trial.replaced),
            next((play.stopped for play in plays if play.stopped), ""),
        )

    try:
        for names, loaded, tally, stream in (
            (_at_work(past, declared, ()) | _begun(trial), trial.loaded, with_it, streams[0]),
            (_at_work(past, declared, set(trial.names) - trial.replaced), home.loaded, without, streams[1]),
        ):
            play = _play(home, loaded, past, since, until, names, tally, stream)
            plays.append(play)
            await play.daemon.simulate(declared)
            play.begin()
        for limit in _limits(past, since, until):
            if stopped():
                break
            for play in plays:
                await play.pass_time(lambda lines: None, limit)
                await asyncio.sleep(0)
            reached = min(limit, until)
            await told(Progress(with_it.arrived, arrivals, report))
            if any(play.stopped for play in plays):
                break
        outcome = await report()
        stores.raise_if_moved()
    finally:
        comings.close()
        for play in plays:
            await play.daemon.close()
    is_short = reached < until and not outcome.stopped
    return msgspec.structs.replace(outcome, stopped=ENDED) if is_short else outcome


async def _waiting(play: Simulation, names: Sequence[str]) -> tuple[list[dict[str, Any]], int, int]:
    """The reasons why the newest runs of definitions still wait, the number of such runs, and how many of
    these have taken nothing yet.
    """
    agent = play.daemon.agent
    runs = {eid: run for eid, run in agent.runs.active.items() if run.name in names}
    listening = sum(has_taken_nothing(agent, run) for run in runs.values())
    newest = sorted(runs, reverse=True)[:NEWEST]
    return [await why(play.daemon, eid) for eid in newest], len(runs), listening


def _limits(past: Past, since: float, until: float) -> list[float]:
    """The ends of the stretches, each of which takes only a moment to play."""
    even = (since + (until - since) * number / STRETCHES for number in range(1, STRETCHES))
    return [*sorted({*even, *past.milestones}), math.inf]


def _play(
    home: SimulatedHome, loaded: Loaded, past: Past, since: float, until: float,
    names: Mapping[str, None], tally: Tally, comings: Iterator[Coming],
) -> Simulation:  # fmt: skip
    """A simulation of a library, which begins with that day's active runs."""
    here = msgspec.structs.replace(home, loaded=loaded, others={})
    starts = tuple(ScheduledStart(name) for name in names if _can_start(loaded.library, name))
    scenario = Scenario("", memory="now", until=When(until - since), starts=starts)
    recalled = snapshot_now(past.memory, _declared(home), since)
    numbers: dict[int, int] = {}
    works = ((coming.at, partial(_come, coming, numbers)) for coming in comings)
    return Simulation(here, scenario, since, recalled, Replay(works, past.answers.answer, tally.hear))


def _come(coming: Coming, numbers: dict[int, int], turn: Turn) -> None:
    """Let an element arrive, in place of others if it replaced some; `numbers` maps the old numbers of
    elements that are replaced later to their new ones.
    """
    memory = turn.agent.memory
    olds = tuple(numbers.get(eid, eid) for eid in coming.outdates)
    there = tuple(eid for eid in olds if memory.element(eid) is not None and eid not in memory.outdated)
    if there:
        outdate(turn.transaction, there)
    with turn.transaction.coming_with(memory.labels.number(coming.labels)):
        eid = turn.add(coming.xml, coming.origin)
    if not coming.counts:
        numbers[coming.eid] = eid


def _declared(home: SimulatedHome) -> list[bytes] | None:
    """The elements that `data/memory.xml` declares today. Raises DefinitionError."""
    if home.memory is None:
        return None
    declared, faults = read_memory(home.memory, home.schemas)
    if faults:
        raise DefinitionError(faults)
    return declared


def _at_work(past: Past, declared: Sequence[bytes] | None, but: set[str] | tuple[()]) -> dict[str, None]:
    """The definitions active from the beginning: those started by `data/memory.xml`, and those with active
    runs on that day; without those in `but`.
    """
    roots = (parse(xml) for xml in declared or ())
    starts = [root.get(TARGET, "") for root in roots if root.tag in START_PLANS]
    return dict.fromkeys(name for name in (*starts, *past.at_work) if name not in but)


def _begun(trial: Tried) -> dict[str, None]:
    """The definitions on trial that start with the play. Those that others of them call start with their
    calls, and work items with a question.
    """
    library = trial.loaded.library
    there = {name: one for name in trial.names if (one := runnable(library, name)) is not None}
    calls = ((name, call) for name, one in there.items() for call in flow_of(one, library).calls)
    called = {call.target for name, call in calls if call.target != name and not call.agent}
    return dict.fromkeys(
        name for name, one in there.items() if not KINDS[one.kind].asks and name not in called
    )


def _can_start(library: Library, name: str) -> bool:
    definition = runnable(library, name)
    if not isinstance(definition, RunDefinition):
        return False
    return definition.withheld is None and definition.cannot_start is None
