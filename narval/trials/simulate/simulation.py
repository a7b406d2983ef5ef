"""Simulation: a scenario played on a simulated home, without altering the home.

Time stands still while any work is active, and then leaps to the next due moment: of a run, of a delayed
answer, or of the scenario.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import msgspec

from narval.agent.agent import AgentState
from narval.agent.loop import Request
from narval.agent.pacing import slowed_in
from narval.agent.recovery import row_of
from narval.agent.turn import Turn
from narval.ask.runs.listing import runs as list_runs
from narval.ask.titles import place_of
from narval.ask.why import why
from narval.core.elements.element import Element
from narval.core.engines.registry import is_standing, run_kinds, runnable
from narval.core.errors import DefinitionError, RequestError
from narval.daemon.daemon import Daemon, assemble
from narval.files.memory_file import read_memory
from narval.files.people_file import load_people
from narval.files.snapshot import AgentFiles, Snapshot
from narval.files.trust_file import load_trust
from narval.store.batch import Batch
from narval.store.look import Look
from narval.store.store import Store
from narval.system.clock import SimulatedClock, machine_zone
from narval.trials.simulate.calls_known import CallsKnown
from narval.trials.simulate.executor import Elsewhere, RecordedCall, SimulatedExecutor
from narval.trials.simulate.memory_copy import Remembered, SimulatedStore
from narval.trials.simulate.report import Judged, SimulationReport, count_of
from narval.trials.simulate.scenario import CannedAnswer, Expectation, Scenario, Scheduled
from narval.trials.simulate.scenario_events import ActsOfPeople, Agenda, happen
from narval.trials.simulate.simulated_home import (
    AgentsAtPlay,
    SimulatedHome,
    agents_to_begin_with,
    snapshot_now,
)
from narval.trials.simulate.trace import Line, Trace

A_DAY = 86_400.0
MOST_AT_ONCE = 5_000
"""The most runs that may start without any time passing; a definition that starts itself is stopped."""

Progress = Callable[[list[Line]], None]
"""A function that is called with the new lines of the trace."""


def start_of(home: SimulatedHome, scenario: Scenario) -> float:
    """The starting moment of a scenario: its own, or now (seconds since 1970, UTC)."""
    return time.time() if scenario.at is None else scenario.at.moment(0.0, home.zone)


async def play_scenario(
    home: SimulatedHome, scenario: Scenario, start: float, progress: Progress = lambda lines: None
) -> SimulationReport:
    """Play a scenario from a moment on; `progress` is called with the new lines of its trace as it plays.

    Raises RequestError if it cannot be played, and StoreError if memory cannot be copied.
    """
    recalled, declared = _beginning(home, scenario, start)
    simulation = Simulation(home, scenario, start, recalled)
    try:
        await simulation.daemon.simulate(declared)
        return await simulation.play(progress)
    finally:
        await simulation.daemon.close()


def _beginning(
    home: SimulatedHome, scenario: Scenario, start: float
) -> tuple[Remembered, list[bytes] | None]:
    """The memory to begin with, and the content of `data/memory.xml` for it (None: left alone)."""
    if scenario.memory == "empty":
        return Remembered(), None
    declared: list[bytes] | None = None
    if home.memory is not None:
        declared, faults = read_memory(home.memory, home.schemas)
        if faults:
            raise DefinitionError(faults)
    if scenario.memory == "new":
        return Remembered(), declared
    return snapshot_now(home.recall(), declared, start), declared


class Replay(msgspec.Struct, frozen=True):
    """A past of any length that is played besides the scenario: work in order of time, each for a turn, and
    answers to calls. Events are passed to `hear`, and not kept.
    """

    works: Iterator[tuple[float, Callable[[Turn], Any]]]
    answer: Callable[[RecordedCall], CannedAnswer | None]
    hear: Callable[[list[Line], list[RecordedCall]], None]


class Simulation:
    """One scenario played by a daemon in memory, with a `replay` if there is one; with a `look` at a store it
    continues all its runs.
    """

    def __init__(
        self,
        home: SimulatedHome,
        scenario: Scenario,
        start: float,
        recalled: Remembered,
        replay: Replay | None = None,
        look: Look | None = None,
    ) -> None:
        self._home, self._scenario, self._start, self._replay = home, scenario, start, replay
        self._agenda = Agenda()
        self._clock = SimulatedClock(start)
        rows, files = agents_to_begin_with(home, scenario.memory, start, recalled)
        store: Store
        if look is None:
            store = SimulatedStore(rows, self._listen, keeps_ended=replay is None)
        else:
            rows, store = dict.fromkeys(look.agents(), Remembered), look.fork(self._listen)
        self._trace = Trace(self._clock, {row.agent: row.name for row in rows}, self._element)
        self._people = ActsOfPeople(scenario.acts, self._agenda, self._trace, self._ask)
        self._outcome = _Outcome(len(recalled.elements))
        settings = msgspec.structs.replace(
            home.settings, durability="crash", store=None, stop_grace=0.0, grants="trust"
        )
        make_executor = partial(
            SimulatedExecutor,
            settings,
            self._clock,
            settings.timezone or machine_zone(),
            scenario.answers,
            CallsKnown(lambda: self._agents),
            (lambda call: None) if replay is None else replay.answer,
        )
        path = home.home.path if home.home is not None else None
        people, trust = scenario.people or load_people(path), load_trust(path)
        daemon = assemble(
            None,
            store,
            Snapshot(AgentFiles(home.loaded, home.schemas), settings, people, files, trust=trust),
            self._clock,
            closing=ExitStack(),
            model=home.home,
            make_executor=make_executor,
        )
        assert isinstance(daemon.calls.executor, SimulatedExecutor)
        self._executor = daemon.calls.executor
        self._agents = AgentsAtPlay(daemon, settings.name, home.known)
        daemon.host.mail.office.simulate(Elsewhere(self._agents, self._executor).stand_in)

    @property
    def daemon(self) -> Daemon:
        """The daemon that plays it."""
        return self._agents.daemon

    async def go_on(self) -> None:
        """Restore the runs of a look; the trace knows their names from then on."""
        await self.daemon.simulate(goes_on=True)
        self._trace.know(self._agents.own_name, map(row_of, self.daemon.agent.runs.active.values()))

    async def play(self, progress: Progress = lambda lines: None) -> SimulationReport:
        """Let time pass, judge, and report."""
        self.begin()
        end = await self.pass_time(progress)
        for expectation in self._scenario.expectations:
            if expectation.at is None:
                self._judge(expectation)
        return await self._report(end)

    def _element(self, name: str, eid: int) -> Element | None:
        return self._agents.host(name).agent.memory.element(eid)

    def _listen(self, batch: Batch) -> None:
        """Note one turn; stop a definition that starts itself without end."""
        self._trace.listen(batch)
        endless = self._trace.crowd(MOST_AT_ONCE)
        if batch.moments and not endless:
            endless = next(
                filter(None, (slowed_in(host.agent.clockwork) for host in self._agents.hosts())), ""
            )
        if endless and not self._outcome.endless:
            self._outcome.endless, self._outcome.stopped = True, endless
            self.daemon.stop.request()

    # --- the schedule ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """Schedule the events of the scenario, and begin."""
        scenario, moment = self._scenario, self._moment
        for start in scenario.starts:
            if runnable(self._agents.known[start.agent].library, start.recipe) is None:
                raise RequestError(f"there is no definition {start.recipe!r} to start")
            self._schedule(start)
        for arrival in scenario.arrivals:
            times = math.inf if arrival.every is None or arrival.times is None else arrival.times
            self._schedule(arrival, arrival.every, times)
        others: list[Scheduled] = [*scenario.outdatings, *scenario.signals, *scenario.raises]
        for scheduled in others:
            self._schedule(scheduled)
        for expectation in scenario.expectations:
            if expectation.at is not None:
                self._agenda.expect(moment(expectation.at), expectation)
        if self._replay is not None:
            self._agenda.stream((at, partial(self._ask, "", work)) for at, work in self._replay.works)
        self._agenda.do_work(self._start)

    def _schedule(self, scheduled: Scheduled, every: float | None = None, times: float = 1) -> None:
        work = partial(self._ask, scheduled.agent, partial(happen, scheduled, self._scenario.path))
        self._agenda.repeat(self._moment(scheduled.at), work, every, times)

    def _moment(self, when: Any) -> float:
        return max(self._start, float(when.moment(self._start, self._home.zone)))

    def _ask(self, agent: str, work: Callable[[Turn], Any]) -> None:
        """Do something in the next turn of an agent; a refusal ends the simulation."""
        self._agents.host(agent).post(Request(work, self._outcome.settle))

    # --- time -----------------------------------------------------------------------------------------

    async def pass_time(self, progress: Progress, limit: float = math.inf) -> float:
        """Let all due events happen, in order, to the end or to a limit; returns the moment reached."""
        end, is_set = self._end()
        while True:
            await self._settle_down(progress)
            moments = self._agenda.next(), self._executor.next(), self._agents.next_moment()
            due = min(moment for moment in moments if moment is not None)
            if due > min(end, limit) or self.daemon.stop.requested:
                break
            self._trace.time_passes()
            self._clock.set(max(due, self._clock.now()))
            self._agenda.do_work(self._clock.now())
            self._executor.release()
        if self.daemon.stop.requested:
            self._outcome.stopped = self._outcome.stopped or "a quit element ended it"
        elif is_set and due > end:
            self._clock.set(end)
        return self._clock.now()

    def _end(self) -> tuple[float, bool]:
        """The end of time, and True if the scenario sets it; else a day after its last event."""
        if self._scenario.until is not None:
            end = float(self._scenario.until.moment(self._start, self._home.zone))
            if end < self._start:
                raise RequestError("until: expected a moment after the start, found one before it")
            return end, True
        return self._agenda.last(self._start) + A_DAY, False

    async def _settle_down(self, progress: Progress) -> None:
        """Work until nothing proceeds by itself; then judge the expectations for this moment."""
        await self.daemon.main_loop.until_idle()
        self._outcome.raise_refusal()
        self._people.plan(self._clock.now())
        for expectation in self._agenda.due_expectations(self._clock.now()):
            self._judge(expectation)
        new = self._trace.new_lines()
        if self._replay is not None:
            self._replay.hear(new, self._executor.new_calls())
            self._trace.drop()
            self._executor.drop()
        elif new:
            self._explain(new)
            progress(new)

    # --- the outcome ----------------------------------------------------------------------------------

    def _judge(self, expectation: Expectation) -> None:
        name = expectation.agent or self._agents.own_name
        trace, calls = self._trace.of.get(name), (call for call in self._executor.calls if call.agent == name)
        phases = trace.phases if trace is not None else {}
        number = count_of(expectation, self._agents.host(name).agent.memory, phases, list(calls))
        if len(self._home.others):
            expectation = msgspec.structs.replace(expectation, agent=name)
        self._outcome.judged.append(Judged(expectation, self._clock.now(), number))

    def _explain(self, lines: list[Line]) -> None:
        """Add to each call how it got its answer, known only afterwards, and to an error its place."""
        calls: dict[str, deque[RecordedCall]] = {}
        for call in self._executor.new_calls():
            calls.setdefault(call.call, deque()).append(call)
        for line in lines:
            if line["what"] == "ended" and line["error"]:
                line["place"] = _place(self._agents.host(line.get("who", "")).agent, line["run"])
            elif line["what"] == "called":
                host = self._agents.host(line.get("who", ""))
                tries = calls.get(host.dispatcher.external_id(line["call"]))
                asking = host.agent.runs.get(host.agent.runs.by_call.get(line["call"], 0))
                if tries:
                    line |= tries.popleft().answer()
                elif line.get("agent", "") in self._agents:
                    line["how"] = "asked"
                elif asking is not None:
                    line |= {"how": "asks first", "asks": asking.name}

    @property
    def stopped(self) -> str:
        """The reason why it ended early; "" for none."""
        return self._outcome.stopped

    async def _report(self, end: float) -> SimulationReport:
        runs: list[dict[str, Any]] = []
        waiting: list[dict[str, Any]] = []
        for name in [host.name for host in self._agents.hosts()]:
            who = {"who": name} if self._home.others else {}
            async with self.daemon.of(name) as seen:
                listed = [run for kind in run_kinds() for run in await list_runs(seen, kind=kind)]
                listed.sort(key=lambda run: run["eid"])
                reasons = [(run, await why(seen, run["eid"])) for run in listed if run["phase"] == "active"]
                waiting += [answer | who for run, answer in reasons if not _just_stands(run, answer)]
            runs += (run | who for run in listed)
        return SimulationReport(
            scenario=self._scenario,
            zone=self._home.zone,
            start=self._start,
            end=end,
            remembered=self._outcome.remembered,
            lines=self._trace.lines,
            calls=self._executor.calls,
            runs=runs,
            waiting=waiting,
            judged=self._outcome.judged,
            stopped=self._outcome.stopped,
            endless=self._outcome.endless,
        )


def _place(agent: AgentState, eid: int) -> str | None:
    """The file and line where the error of a run arose; None if that is unknown, or forgotten."""
    run = agent.runs.get(eid)
    error = agent.memory.element(run.error or 0) if run is not None else None
    return place_of(agent, error) or None if error is not None else None


def _just_stands(run: dict[str, Any], reasons: dict[str, Any]) -> bool:
    """True of a service run that only waits for an event."""
    return is_standing(run["kind"]) and all(wait["for"] == "signal" for wait in reasons["waiting"])


class _Outcome:
    """The results so far: judgements, refusals, and the reason for a stop."""

    def __init__(self, remembered: int) -> None:
        self.remembered = remembered
        """The number of elements in memory at the beginning."""
        self.judged: list[Judged] = []
        self.stopped, self.endless = "", False
        self._refused: list[BaseException] = []

    def settle(self, result: Any, error: BaseException | None) -> None:
        """Record the answer to a request."""
        if error is not None:
            self._refused.append(error)

    def raise_refusal(self) -> None:
        """Raise the first refusal, if there was one."""
        if self._refused:
            raise self._refused[0]
