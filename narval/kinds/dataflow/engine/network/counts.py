"""Counts of what passed through operators, over all frames, and what each operator waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from narval.kinds.dataflow.engine.network.channels import ENDED, Channel
from narval.kinds.dataflow.engine.network.firing import WAIT, Gate
from narval.kinds.dataflow.engine.network.operators.outside import Outside
from narval.kinds.dataflow.language.definition import STREAMED, DataRef, OperatorCall


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


class Tally:
    """The totals of ended frames."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Passage] = {}
        self._streams: dict[str, Counter[str]] = {}
        """The tuples that each stream of a plan has carried, by plan and name."""

    def add(self, plan: str, gates: Iterable[Gate], channels: Mapping[str, Channel]) -> None:
        """Count the gates of a frame; gates that have not ended were given up."""
        _carry(self._streams.setdefault(plan, Counter()), channels)
        for gate in gates:
            place = (plan, gate.call.key)
            before = self._found.get(place) or Passage(plan, gate.call.key, {})
            state = gate.state if gate.state in ENDED else "void"
            self._found[place] = before.with_gate(gate, channels, state)._replace(waits_for=())

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
