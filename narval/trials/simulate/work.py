"""People in simulations (P81): nobody is asked; the scenario's acts are done to each item, or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from textwrap import dedent
from typing import Any

from narval.agent.turn import Turn
from narval.core.definitions.people.directory import Directory
from narval.core.definitions.reading.vocabulary import Attribute, identifier, integer, one_of
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.elements.element import local_name
from narval.core.engines.events import PersonsAct, Signalled
from narval.core.patterns.pattern import Condition, compile_pattern
from narval.core.source.text import Source
from narval.files.people_file import parse_people
from narval.trials.simulate.scenario import ScheduledAct
from narval.trials.simulate.scenario_events import Agenda
from narval.trials.simulate.trace import Line, Trace

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
