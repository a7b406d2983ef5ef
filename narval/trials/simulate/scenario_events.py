"""The events of a scenario, in the order of simulated time.

The agenda has the work of a scenario and its expectations by due moment. Work is done in a turn: starts,
arrivals, outdatings and signals. People are not asked; the scenario's acts are done to each item, or refused.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice
from textwrap import dedent
from typing import Any

from narval.agent.declared import outdate_elements, replace_element
from narval.agent.runs import cannot_start, cannot_take
from narval.agent.turn import Turn
from narval.ask.documents import add_all, raise_if_refused
from narval.core.definitions.people.directory import Directory
from narval.core.definitions.reading.vocabulary import Attribute, identifier, integer, one_of
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.elements.element import Origin, local_name
from narval.core.engines.events import OutputElement, PersonsAct, Plain, Signalled
from narval.core.engines.registry import runnable, taking
from narval.core.errors import RequestError, TokenError
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Condition, compile_pattern
from narval.core.source.text import Source
from narval.files.people_file import parse_people
from narval.trials.simulate.scenario import (
    Expectation,
    Scheduled,
    ScheduledAct,
    ScheduledElement,
    ScheduledOutdating,
    ScheduledRaise,
    ScheduledSignal,
    ScheduledStart,
)
from narval.trials.simulate.trace import Line, Trace

Work = Callable[[], None]

TOGETHER = 50
"""The most entries of a stream that are done at once."""


class Agenda:
    """Two queues by moment (seconds since 1970, UTC); entries of one moment keep the order of the file."""

    __slots__ = ("_expectations", "_order", "_stream", "_streamed", "_work")

    def __init__(self) -> None:
        self._stream: Iterator[tuple[float, Work]] = iter(())
        self._streamed: tuple[float, Work] | None = None
        """The first pending entry of the stream."""
        self._work: list[tuple[float, int, Work]] = []
        self._expectations: list[tuple[float, int, Expectation]] = []
        self._order = count()

    def add(self, at: float, work: Work) -> None:
        """Do something at a moment."""
        heapq.heappush(self._work, (at, next(self._order), work))

    def stream(self, works: Iterator[tuple[float, Work]]) -> None:
        """Do the entries of a stream in order of time, each requested after the one before it is done."""
        self._stream = works
        self._streamed = next(works, None)

    def repeat(self, at: float, work: Work, every: float | None, times: float) -> None:
        """Do something at a moment, and again after each `every` seconds, `times` times in all."""

        def again() -> None:
            work()
            if every is not None and times > 1:
                self.repeat(at + every, work, every, times - 1)

        self.add(at, again)

    def expect(self, at: float, expectation: Expectation) -> None:
        """Judge an expectation at a moment, after all events of that moment."""
        heapq.heappush(self._expectations, (at, next(self._order), expectation))

    def next(self) -> float:
        """The next moment; infinite when nothing is left."""
        streamed = math.inf if self._streamed is None else self._streamed[0]
        return min([streamed, *(queue[0][0] for queue in (self._work, self._expectations) if queue)])

    def last(self, start: float) -> float:
        """The last moment known so far, at least `start`."""
        return max([start, *(entry[0] for entry in (*self._work, *self._expectations))])

    def do_work(self, now: float) -> None:
        """Do all due work, but not so much of a stream at once that it looks like an endless start."""
        while self._work and self._work[0][0] <= now:
            heapq.heappop(self._work)[2]()
        for _ in range(TOGETHER):
            if self._streamed is None or self._streamed[0] > now:
                break
            self._streamed[1]()
            self._streamed = next(self._stream, None)

    def due_expectations(self, now: float) -> Iterator[Expectation]:
        """Remove and yield the expectations that are due, in order."""
        while self._expectations and self._expectations[0][0] <= now:
            yield heapq.heappop(self._expectations)[2]


class _UnmetError(Exception):
    """The object of an event does not exist, or the event is refused."""


def happen(scheduled: Scheduled, path: str, turn: Turn) -> None:
    """Carry out a due event. Raises ElementError; RequestError, with its place in the file of that path, if
    its object does not exist.
    """
    try:
        _WAYS[type(scheduled)](scheduled, turn)
    except _UnmetError as unmet:
        place = f"{scheduled.line}:{scheduled.column}"
        raise RequestError(f"{path}:{place}: {unmet}" if path else f"{place}: {unmet}") from None


def _start(start: ScheduledStart, turn: Turn) -> None:
    taken = taking(turn.agent.library, start.recipe) if start.elements else None
    if taken is not None:
        task, run_kind = taken
        if (refused := cannot_take(turn.agent, task)) is not None:
            raise TokenError(*refused)
        for eid in add_all(turn, start.elements):
            turn.start(start.recipe, (eid,), definition=task, run_kind=run_kind)
        return
    definition = runnable(turn.agent.library, start.recipe)
    if definition is not None and (refused := cannot_start(turn.agent, definition)) is not None:
        raise TokenError(*refused)
    turn.start(start.recipe, tuple(add_all(turn, start.elements)))


def _arrive(arrival: ScheduledElement, turn: Turn) -> None:
    with turn.transaction.coming_with(turn.agent.memory.labels.number(arrival.labels)):
        _add(arrival, turn)


def _add(arrival: ScheduledElement, turn: Turn) -> None:
    if arrival.replaces is None:
        add_all(turn, arrival.elements)
        return
    old = max(_current(turn.agent.memory, arrival.replaces), default=None)
    if old is None:
        raise _nothing("an element", arrival.replaces)
    raise_if_refused(turn, arrival.elements)
    replace_element(turn, old, arrival.elements[0], Origin(inputs=(old,)))


def _outdate(outdating: ScheduledOutdating, turn: Turn) -> None:
    eids = tuple(_current(turn.agent.memory, outdating.condition))
    if not eids:
        raise _nothing("an element", outdating.condition)
    outdate_elements(turn, eids, outdating.reason)


def _signal(signal: ScheduledSignal, turn: Turn) -> None:
    event = Signalled(0, 0.0, "", signal.name, tuple(map(OutputElement, signal.elements)))
    runs = list(_runs(signal, turn))
    if not runs:
        raise _nothing(f"a run of {signal.recipe} under way", signal.condition)
    for run in runs:
        for answer in turn.signal(run, event):
            if answer.problem is not None:
                raise _UnmetError(f"run {run} did not take it: {answer.problem.message}")


def _raise(raised: ScheduledRaise, turn: Turn) -> None:
    server = turn.agent.signals.standing.get(raised.recipe, 0)
    arguments: dict[str, Plain] = {"event": raised.event, "parameters": [*raised.parameters], "mode": "async"}
    by = raised.by or next((person.name for person in turn.agent.lookup.people.people), "")
    event = Signalled(0, 0.0, "", "raise", (), arguments, by, act=PersonsAct("scenario"))
    answers = turn.signal(server, event)
    if not answers:
        raise _UnmetError(f"expected the standing run of {raised.recipe}, which has events, found none")
    if (problem := answers[0].problem) is not None:
        raise _UnmetError(f"{raised.recipe} did not take {raised.event}: {problem.message}")


def _runs(signal: ScheduledSignal, turn: Turn) -> Iterator[int]:
    """The active runs that a signal is for."""
    memory = turn.agent.memory
    fits = None if signal.condition is None else set(memory.select(signal.condition.bind()))
    for eid, run in turn.agent.runs.items():
        meant = run.active and run.name == signal.recipe
        if meant and (fits is None or not fits.isdisjoint(memory.contexts.of(eid))):
            yield eid


def _current(memory: Memory, condition: Condition) -> Iterator[int]:
    """The elements that satisfy the condition and are not replaced."""
    return (eid for eid in memory.select(condition.bind()) if eid not in memory.outdated)


def _nothing(what: str, condition: Condition | None) -> _UnmetError:
    suffix = f" that fits {condition.text}" if condition is not None else ""
    return _UnmetError(f"expected {what}{suffix}, found none at that moment")


_WAYS: dict[type, Callable[..., None]] = {
    ScheduledStart: _start,
    ScheduledElement: _arrive,
    ScheduledOutdating: _outdate,
    ScheduledRaise: _raise,
    ScheduledSignal: _signal,
}


# --- acts of people -----------------------------------------------------------------------------------------


ACT_WORDS: Mapping[str, Attribute] = {
    "work": Attribute(identifier),
    "by": Attribute(identifier),
    "act": Attribute(one_of("answer", "claim", "release", "refuse", "delegate")),
    "outcome": Attribute(identifier),
    "to": Attribute(identifier),
}
"""The attributes of an `answer` to items."""

ITEM_WORDS: Mapping[str, Attribute] = {
    "name": Attribute(identifier, required=True),
    "state": Attribute(one_of("offered", "claimed", "done", "refused", "expired", "failed", "withdrawn")),
    "outcome": Attribute(identifier),
    **{name: Attribute(integer(0)) for name in ("count", "least", "most")},
}
"""The attributes of expected items."""


def read_act(reading: Reading, entry: Entry, of_calls: Iterable[str]) -> ScheduledAct:
    """An answer to the items of some work; the attributes of answers to calls are not allowed in it."""
    if "error" in entry.written:
        reading.fault(entry, "people answer by an outcome, or refuse; remove this", "error")
    for name in of_calls:
        if name in entry.written:
            reading.fault(entry, f"{name}: an answer is to calls or to work, not both; remove one", name)
    fields: dict[str, tuple[str, ...]] = {}
    for child in entry.node.children:
        name = local_name(child.tag) or child.tag
        fields[name] = (*fields.get(name, ()), child.text)
    words = {name: entry.get(name, "") for name in ("work", "by", "outcome", "to")}
    line, column = entry.place("work")
    after, times = entry.get("after", 0.0), entry.get("times")
    name = entry.get("act", "answer")
    return ScheduledAct(**words, act=name, after=after, times=times, fields=fields, line=line, column=column)


def people_of(reading: Reading, entry: Entry | None) -> Directory | None:
    """The people declared in a scenario, as in etc/people.toml; None if it declares none."""
    if entry is None:
        return None
    directory, faults = parse_people(Source("people", dedent(entry.node.text).encode()))
    for fault in faults:
        reading.fault(entry, f"people: line {fault.line} of them: {fault.message}")
    return directory


def items_expected(reading: Reading, entry: Entry) -> Condition | None:
    """The condition on the elements of expected items."""
    tests = ["@state"]
    for name in ("name", "state", "outcome"):
        value = entry.get(name)
        if value is not None and '"' in value:
            reading.fault(entry, f"{name}: expected a name without quotation marks, found {value!r}", name)
        elif value is not None:
            tests.append(f'@{name}="{value}"')
    return Condition((compile_pattern(f"work[{' and '.join(tests)}]", {}),))


class ActsOfPeople:
    """The acts of a scenario, done to each item some time after it was offered."""

    def __init__(
        self,
        acts: Sequence[ScheduledAct],
        agenda: Agenda,
        trace: Trace,
        ask: Callable[[str, Callable[[Turn], Any]], None],
    ) -> None:
        self._acts, self._agenda, self._trace, self._ask = acts, agenda, trace, ask
        self._seen: Counter[str] = Counter()
        self._done = [0] * len(acts)

    def plan(self, now: float) -> None:
        """Schedule the acts on new items."""
        for agent, trace in self._trace.of.items() if self._acts else ():
            new = list(islice(trace.items.items(), self._seen[agent], None))
            self._seen[agent] = len(trace.items)
            for run, name in new:
                for at, act in enumerate(self._acts):
                    if act.work == name and (act.times is None or self._done[at] < act.times):
                        self._done[at] += 1
                        work = partial(self._do, act, agent, run)
                        self._agenda.add(now + act.after, partial(self._ask, agent, work))

    def _do(self, act: ScheduledAct, agent: str, item: int, turn: Turn) -> None:
        people = turn.agent.lookup.people
        by = act.by or next((person.name for person in people.people), "")
        record = turn.agent.runs.active.get(item)
        ways = record.definition.ways if record is not None else ()
        event = Signalled(
            0, 0.0, "", act.act, arguments=_arguments(act), by=by, act=PersonsAct(*ways[:1] or ("",))
        )
        problem = next((answer.problem for answer in turn.signal(item, event)), None)
        why = f"{problem.kind}: {problem.message}" if problem is not None else None
        if record is None:
            why = "over: it was over by then"
        line: Line = {"at": turn.at, "what": "acted", "run": item, "by": by, "act": act.act}
        self._trace.add(agent, {**line, "outcome": act.outcome or None, "refused": why})


def _arguments(act: ScheduledAct) -> dict[str, Any]:
    fields = {name: list(values) for name, values in act.fields.items()}
    return {"outcome": act.outcome, "to": act.to, "reason": "", "fields": fields}
