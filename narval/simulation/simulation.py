"""Rehearsal: plays a scenario on a stage, which is a home of which nothing is altered.

Time stands still while anything goes on, and then leaps to the next moment at which something is due: to a
run, to an answer that takes its time, or in the scenario.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import tzinfo
from functools import partial
from itertools import count
from typing import Any

import msgspec

from narval.definitions.action.definition import Action
from narval.definitions.process.code import Code
from narval.definitions.prototype import Prototype
from narval.engines.registry import runnable
from narval.errors import DefinitionError, ElementError, RequestError
from narval.memory.elements.control_elements import ACTED, START_PLANS
from narval.memory.elements.element import parse
from narval.operations.runs import runs as list_runs
from narval.operations.why import why
from narval.runtime.agent.declared import MEMORY
from narval.runtime.agent.loop import Request
from narval.runtime.agent.turn import Turn
from narval.runtime.calls.backend import Task
from narval.runtime.daemon.daemon import Daemon, assemble
from narval.runtime.home.loader import Loader
from narval.runtime.home.memory_file import read_memory
from narval.runtime.store.batch import Batch
from narval.runtime.system.clock import SimulatedClock
from narval.simulation import expectations
from narval.simulation.executor import RecordedCall, SimulatedExecutor, SimulationHooks
from narval.simulation.memory_copy import RehearsalStore, Remembered, with_declared
from narval.simulation.scenario import Expectation, Scenario
from narval.simulation.simulated_home import SimulatedHome
from narval.simulation.trace import Line, SimulationTrace

A_DAY = 86_400.0
MOST_AT_ONCE = 5_000
"""Runs that may begin without any time passing: what starts itself again and again is stopped."""

Tell = Callable[[list[Line]], None]


class Found(msgspec.Struct, frozen=True):
    """How many there were of what was wished for."""

    wish: Expectation
    at: float
    count: int

    @property
    def met(self) -> bool:
        """Whether that is as many as there should be."""
        most = math.inf if self.wish.most is None else self.wish.most
        return self.wish.least <= self.count <= most


class SimulationReport(msgspec.Struct, frozen=True):
    """What came of a simulation. `runs` and `waiting` are in the forms of `narval runs` and `narval why`."""

    scenario: Scenario
    zone: tzinfo | None
    start: float
    end: float
    remembered: int
    lines: list[Line]
    calls: list[RecordedCall]
    runs: list[dict[str, Any]]
    waiting: list[dict[str, Any]]
    found: list[Found]
    stopped: str = ""
    """Why it ended before its time."""
    endless: bool = False
    """Whether that was because runs began without end."""

    @property
    def failed(self) -> list[Line]:
        """The ends of runs that failed and of which nobody expects it; a run that was called is its caller's
        matter.
        """
        expected = {each.wish.recipe for each in self.found if each.met and _wants_failure(each.wish)}
        ends = (each for each in self.lines if each["what"] == "ended" and each["phase"] == "failed")
        return [each for each in ends if not each["called"] and each["name"] not in expected]

    @property
    def unmet(self) -> list[Found]:
        """What was expected and is not so."""
        return [each for each in self.found if not each.met]

    @property
    def unanswered(self) -> list[RecordedCall]:
        """The calls whose answer could not be made up."""
        return [each for each in self.calls if each.how == "unanswered"]

    @property
    def well(self) -> bool:
        """Whether all that was expected is so, each call had an answer, and no run failed unexpectedly."""
        return not (self.failed or self.unmet or self.unanswered or self.endless)


def _wants_failure(wish: Expectation) -> bool:
    return wish.what == "run" and wish.phase == "failed" and wish.least > 0


def start_of(here: SimulatedHome, scenario: Scenario) -> float:
    """When a scenario starts: as it says, or now."""
    return time.time() if scenario.at is None else scenario.at.moment(0.0, here.zone)


async def rehearse(
    here: SimulatedHome, scenario: Scenario, start: float, tell: Tell = lambda lines: None
) -> SimulationReport:
    """Play a scenario that starts at a moment; `tell` is given what happened as it does.

    Raises RequestError where it cannot be played, and StoreError where memory cannot be copied.
    """
    return await _Simulation(here, scenario, start).play(tell)


class _Simulation:
    """One scenario being played."""

    def __init__(self, here: SimulatedHome, scenario: Scenario, start: float) -> None:
        self._stage, self._scenario, self._start = here, scenario, start
        self._clock = SimulatedClock(start)
        self._story = SimulationTrace(self._clock)
        self._found: list[Found] = []
        self._order = count()
        self._schedule: list[tuple[float, int, Callable[[], None]]] = []
        self._judged: list[tuple[float, int, Expectation]] = []
        self._told = self._begun_before = 0
        self._explained = 0
        self._stopped, self._endless = "", False
        self._refused: list[BaseException] = []
        self._daemon: Daemon
        self._understudy: SimulatedExecutor

    async def play(self, tell: Tell) -> SimulationReport:
        """Open, let time pass, judge, and tell of it."""
        known, declared = self._beginning()
        daemon, self._understudy = self._cast(known)
        try:
            await daemon.simulate(declared)
            self._plan()
            end = await self._pass_time(tell)
            for wish in self._scenario.wishes:
                if wish.at is None:
                    self._judge(wish)
            return await self._report(end, len(known.elements))
        finally:
            await daemon.close()

    # --- what it begins with --------------------------------------------------------------------------

    def _beginning(self) -> tuple[Remembered, list[bytes] | None]:
        """What is remembered, and what `data/memory.xml` is to be for it."""
        home, how = self._stage.home, self._scenario.memory
        if how == "empty":
            return Remembered(), None
        declared: list[bytes] | None = None
        if home is not None:
            declared, faults = read_memory(home.memory, self._stage.schemas)
            if faults:
                raise DefinitionError(faults)
        if how == "new":
            return Remembered(), declared
        known = self._stage.recall()
        starts = [xml for xml in declared or () if parse(xml).tag in START_PLANS]
        keyed = [(f"{MEMORY}:{hashlib.sha256(xml).hexdigest()}", xml) for xml in starts]
        return _at_rest(with_declared(known, keyed, self._start)), declared

    def _cast(self, known: Remembered) -> tuple[Daemon, SimulatedExecutor]:
        """A daemon in memory, and who answers its calls."""
        here = self._stage
        settings = msgspec.structs.replace(here.settings, durability="crash", store=None, stop_grace=0.0)
        play = SimulationHooks(
            is_pure=self._is_pure,
            prototype=self._prototype,
            recipe=self._story.name,
            refusal=here.schemas.refusal,
        )
        understudy = SimulatedExecutor(settings.limits, self._clock, self._scenario.replies, play)
        self._daemon = assemble(
            None,
            RehearsalStore(known, self._listen),
            settings,
            Loader(None),
            self._clock,
            closing=ExitStack(),
            loaded=here.loaded,
            model=here.home,
            executor=understudy,
        )
        return self._daemon, understudy

    def _is_pure(self, name: str) -> bool:
        library = self._stage.loaded.library
        found = library.get("action", name) or library.get("node-type", name)
        return isinstance(found, Action | Code) and found.pure

    def _prototype(self, task: Task) -> Prototype | None:
        """What a call must give, as the step that makes it tightens that (N14)."""
        found = self._stage.loaded.library.get("action", task.action)
        run = self._daemon.agent.runs.get(task.run)
        if not isinstance(found, Action):
            return None
        steps = getattr(run.definition, "steps", {}) if run is not None else {}
        step = steps.get(task.step)
        return step.prototype(found.prototype) if step is not None else found.prototype

    def _listen(self, batch: Batch) -> None:
        """A turn more; a definition that starts itself without end is stopped."""
        self._story.listen(batch)
        if self._story.begun - self._begun_before > MOST_AT_ONCE and not self._endless:
            self._endless = True
            self._stopped = f"{MOST_AT_ONCE:,} runs began at one moment, the last of {self._story.last}"
            self._daemon.host.stop.request()

    # --- what is scheduled ----------------------------------------------------------------------------

    def _plan(self) -> None:
        """Put what the scenario says into the order of time."""
        scenario, library = self._scenario, self._daemon.agent.library
        for beginning in scenario.beginnings:
            if runnable(library, beginning.recipe) is None:
                raise RequestError(f"there is no definition {beginning.recipe!r} to start")
            work = partial(_start, beginning.recipe, beginning.elements)
            self._at(self._moment(beginning.at), partial(self._ask, work))
        for arrival in scenario.arrivals:
            left = math.inf if arrival.every is None or arrival.times is None else arrival.times
            self._arrive(self._moment(arrival.at), arrival.elements, arrival.every, left)
        for wish in scenario.wishes:
            if wish.at is not None:
                heapq.heappush(self._judged, (self._moment(wish.at), next(self._order), wish))

    def _moment(self, when: Any) -> float:
        return max(self._start, float(when.moment(self._start, self._stage.zone)))

    def _at(self, at: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._schedule, (at, next(self._order), work))

    def _arrive(self, at: float, elements: tuple[bytes, ...], every: float | None, left: float) -> None:
        def come() -> None:
            self._ask(partial(_add, elements))
            if every is not None and left > 1:
                self._arrive(at + every, elements, every, left - 1)

        self._at(at, come)

    def _ask(self, work: Callable[[Turn], None]) -> None:
        """Have something done in the next turn; what is refused is told when all is over."""
        self._daemon.host.post(Request(work, self._settle))

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if error is not None:
            self._refused.append(error)

    # --- time -----------------------------------------------------------------------------------------

    async def _pass_time(self, tell: Tell) -> float:
        """Let all that is due happen, moment after moment; the moment at which it ended."""
        end, is_set = self._end()
        while True:
            await self._settle_down(tell)
            due = min(self._moments(), default=math.inf)
            if due > end or self._daemon.host.stop.requested:
                break
            self._begun_before = self._story.begun
            self._clock.set(max(due, self._clock.now()))
            self._come_due()
        if self._daemon.host.stop.requested:
            self._stopped = self._stopped or "a quit element ended it"
        elif is_set:
            self._clock.set(end)
        return self._clock.now()

    async def _settle_down(self, tell: Tell) -> None:
        """Until nothing goes on by itself; then what is expected at this moment is judged."""
        await self._daemon.host.until_idle()
        if self._refused:
            raise self._refused[0]
        while self._judged and self._judged[0][0] <= self._clock.now():
            self._judge(heapq.heappop(self._judged)[2])
        new, self._told = self._story.lines[self._told :], len(self._story.lines)
        if new:
            self._explain(new)
            tell(new)

    def _end(self) -> tuple[float, bool]:
        """When time ends, and whether somebody said so: else a day after the last thing of the scenario."""
        if self._scenario.until is not None:
            return self._moment(self._scenario.until), True
        scheduled = [each[0] for each in (*self._schedule, *self._judged)]
        return max([self._start, *scheduled]) + A_DAY, False

    def _moments(self) -> Iterator[float]:
        """What is due next: in the scenario, to be judged, of answers, of runs."""
        queues = (self._schedule, self._judged)
        yield from (queue[0][0] for queue in queues if queue)
        due = self._understudy.next(), self._daemon.agent.clockwork.next_moment()
        yield from (each for each in due if each is not None)

    def _come_due(self) -> None:
        now = self._clock.now()
        while self._schedule and self._schedule[0][0] <= now:
            heapq.heappop(self._schedule)[2]()
        self._understudy.release()

    # --- what came of it ------------------------------------------------------------------------------

    def _judge(self, wish: Expectation) -> None:
        memory, calls = self._daemon.agent.memory, self._understudy.met
        number = expectations.count(wish, memory, self._story.phases, calls)
        self._found.append(Found(wish, self._clock.now(), number))

    def _explain(self, lines: list[Line]) -> None:
        """Say of each call how it came by its answer, which is known once it was made."""
        known: dict[str, deque[RecordedCall]] = {}
        for each in self._understudy.met[self._explained :]:
            known.setdefault(each.call, deque()).append(each)
        self._explained = len(self._understudy.met)
        for line in lines:
            if line["what"] == "called":
                tries = known.get(self._daemon.host.dispatcher.outside_id(line["call"]))
                if tries:
                    met = tries.popleft()
                    gave = [xml.decode("utf-8") for xml in met.gave]
                    after = None if math.isinf(met.after) else met.after
                    line |= {"how": met.how, "after": after, "gave": gave, "error": met.error or None}

    async def _report(self, end: float, known: int) -> SimulationReport:
        runs = await list_runs(self._daemon)
        waiting = [await why(self._daemon, run["eid"]) for run in runs if run["phase"] == "active"]
        return SimulationReport(
            self._scenario,
            self._stage.zone,
            self._start,
            end,
            known,
            self._story.lines,
            self._understudy.met,
            runs,
            waiting,
            self._found,
            self._stopped,
            self._endless,
        )


def _start(name: str, elements: tuple[bytes, ...], turn: Turn) -> None:
    _refuse(turn, elements)
    turn.start(name, tuple(turn.add(xml) for xml in elements))


def _add(elements: tuple[bytes, ...], turn: Turn) -> None:
    _refuse(turn, elements)
    for xml in elements:
        turn.add(xml)


def _refuse(turn: Turn, elements: tuple[bytes, ...]) -> None:
    """All or none of them are in memory (N7)."""
    for xml in elements:
        refusal = turn.view.schema_fault(xml)
        if refusal is not None:
            raise ElementError("invalid", f"refused by its schema: {refusal}")


def _at_rest(known: Remembered) -> Remembered:
    """A memory in which every `start-plan` has been obeyed: a simulation starts what it is asked to."""
    obeyed = [(*ACTED, kept.element.eid) for kept in known.elements if kept.element.name in START_PLANS]
    return msgspec.structs.replace(known, marks=[*known.marks, *obeyed])
