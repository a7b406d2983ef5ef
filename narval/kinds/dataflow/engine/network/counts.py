"""Counts of what passed through operators, over all frames, and what each operator waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from narval.kinds.dataflow.engine.network.channels import ENDED, Channel
from narval.kinds.dataflow.engine.network.firing import WAIT, Gate
from narval.kinds.dataflow.engine.network.operators.outside import Outside
from narval.kinds.dataflow.engine.state import UnreadNumbers
from narval.kinds.dataflow.language.conditions import AttributeTest, ColumnFold, JoinTest, TextFormat
from narval.kinds.dataflow.language.definition import STREAMED, DataRef, FixedValue, OperatorCall


class Passage(NamedTuple):
    """An operator of a plan in all frames of a transaction.

    `states` counts the frames in each state. `taken` counts tuples, `given` tuples and values, including
    those of void tries, and `batches` the batches it gave. `waits_for` is for an operator that has not ended.
    """

    plan: str
    key: str
    states: Mapping[str, int]
    taken: int = 0
    given: int = 0
    batches: int = 0
    requests: int = 0
    waits_for: tuple[str, ...] = ()

    def with_gate(self, gate: Gate, channels: Mapping[str, Channel], state: str) -> Passage:
        """Return the same with the counts of another gate added."""
        call, running = gate.call, gate.running
        outputs = [channels[name] for _, _, name in call.produced]
        return Passage(
            self.plan,
            self.key,
            {**self.states, state: self.states.get(state, 0) + 1},
            self.taken
            + sum(channels[ref.name].tuples for _, _, ref in call.consumed if _many(channels[ref.name])),
            self.given + sum(channel.tuples for channel in outputs),
            self.batches + sum(channel.batches for channel in outputs),
            self.requests + (running.requests if isinstance(running, Outside) else 0),
            tuple(dict.fromkeys((*self.waits_for, *waits_of(gate)))),
        )


def _many(channel: Channel) -> bool:
    return channel.type in (STREAMED, "Relation")


def waits_of(gate: Gate) -> Iterator[str]:
    """The data and requests that a gate waits for."""
    call, inputs = gate.call, gate.inputs
    if gate.state in ENDED:
        return
    for port, at in sorted(inputs.missing):
        yield f"{'a token of ' if port == WAIT else ''}{_named(call, port, at)}"
    if gate.state == "waiting" and not inputs.missing:
        yield f"the first of {', '.join(sorted(_named(call, *key) for key in inputs.open))}"
    elif gate.state == "at work":
        yield from (f"more of {_named(call, *key)}" for key in sorted(inputs.open))
    if isinstance(gate.running, Outside) and gate.running.is_busy:
        yield gate.running.under_way


def _named(call: OperatorCall, port: str, at: int) -> str:
    argument = call.wait if port == WAIT else call.arguments[port]
    one = argument[at] if isinstance(argument, tuple) else argument
    return one.name if isinstance(one, DataRef) else port


_COLUMNS = {"aggregate": "column", "sort": "attr"}
"""The parameters that name an attribute without a language of their own."""


def _attributes(call: OperatorCall, texts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The attributes that a call names in its constants, and in texts from the run, each with its input."""
    for value in (*call.parsed.values(), *texts.values()):
        if isinstance(value, TextFormat) and not value.any_case and call.operator.input("in") is not None:
            yield from (("in", name) for name in value.attributes if name)
        for one in value if isinstance(value, tuple) else ():
            if isinstance(one, JoinTest):
                yield from (("left", one.left), ("right", one.right))
            elif isinstance(one, AttributeTest):
                yield "in", one.attribute
            elif isinstance(one, str | ColumnFold):
                yield "in", one if isinstance(one, str) else one.column
    column = call.arguments.get(_COLUMNS.get(call.operator.name, ""))
    if isinstance(column, FixedValue):
        yield "in", str(column.value)


class Tally:
    """The totals of ended frames."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Passage] = {}
        self._streams: dict[str, Counter[str]] = {}
        """The tuples that each stream of a plan has carried, by plan and name."""
        self._lacking: Counter[tuple[str, int, str]] = Counter()
        self._had = set[tuple[str, int, str]]()
        """The attributes that calls name, and that their tuples had."""

    def add(self, plan: str, gates: Iterable[Gate], channels: Mapping[str, Channel]) -> None:
        """Count the gates of a frame; gates that have not ended were given up."""
        _carry(self._streams.setdefault(plan, Counter()), channels)
        for gate in gates:
            place = (plan, gate.call.key)
            before = self._found.get(place) or Passage(plan, gate.call.key, {})
            state = gate.state if gate.state in ENDED else "void"
            self._found[place] = before.with_gate(gate, channels, state)._replace(waits_for=())
            self._compare(gate, channels)

    def _compare(self, gate: Gate, channels: Mapping[str, Channel]) -> None:
        """Compare the attributes that a call names with those of its tuples."""
        call, texts = gate.call, gate.running.texts if gate.running is not None else {}
        if not (call.parsed or texts or call.operator.name in _COLUMNS):
            return
        inputs: dict[str, list[Channel]] = {}
        for port, _, ref in call.consumed:
            inputs.setdefault(port, []).append(channels[ref.name])
        for port, name in _attributes(call, texts):
            place, streams = (call.key, call.line, name), inputs.get(port, [])
            if any(name in channel.names for channel in streams):
                self._had.add(place)
            elif name != "*":
                self._lacking[place] += sum(channel.tuples for channel in streams)

    def lacking(self) -> list[UnreadNumbers]:
        """The attributes that calls name, and that none of their tuples had, with the number of these."""
        rest = [(place, count) for place, count in self._lacking.items() if count and place not in self._had]
        return [UnreadNumbers(*place, count) for place, count in rest]

    def with_live(self, live: Iterable[tuple[str, Iterable[Gate], Mapping[str, Channel]]]) -> list[Passage]:
        """The totals including live frames, in the order in which plans and calls began."""
        passages = dict(self._found)
        for plan, gates, channels in live:
            for gate in gates:
                place = (plan, gate.call.key)
                before = passages.get(place) or Passage(plan, gate.call.key, {})
                passages[place] = before.with_gate(gate, channels, gate.state)
        return list(passages.values())

    def streams(self, plan: str, live: Iterable[Mapping[str, Channel]]) -> dict[str, int]:
        """The tuples that each stream and relation of a plan carried, by name; `live` are the live frames."""
        streams = Counter(self._streams.get(plan, {}))
        for channels in live:
            _carry(streams, channels)
        return dict(streams)


def _carry(streams: Counter[str], channels: Mapping[str, Channel]) -> None:
    for name, channel in channels.items():
        if channel.tuples and _many(channel):
            streams[name] += channel.tuples
