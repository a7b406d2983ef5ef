"""Wiring: the producers and consumers of each datum of a plan, the order of its calls (T1, T13), its
branches.

Branches exclude each other by what must have happened for a call to fire, or a datum to arrive (TA3, TA5,
TA34). Each such condition is a bit: an output of a conditional operator was chosen, an operator was done or
failed, a stream of WAIT had a tuple. A call has the conditions of everything it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from narval.kinds.dataflow.language.compiling.matching import FUNCTION, LIFTED, RELATION, STREAM, Match, fit
from narval.kinds.dataflow.language.operators import Operator, Port
from narval.kinds.dataflow.language.syntax import Declared, PlanSyntax, Written

CLAUSES = ("enable", "started", "on_error")
"""The clauses that produce data."""


class Producer:
    """A call that produces a datum: by an output (`port` is None if unknown), or a `clause`."""

    __slots__ = ("at", "clause", "port", "written")

    def __init__(self, at: int, written: Written, port: Port | None, clause: str = "") -> None:
        self.at, self.written, self.port, self.clause = at, written, port, clause


class Wiring:
    """The data of a plan by name: their producers and consumers, by the number of the call in the file."""

    def __init__(self, syntax: PlanSyntax, matches: Sequence[Match]) -> None:
        self.syntax, self.matches = syntax, matches
        self.inputs: dict[str, Declared] = {declared.name: declared for declared in syntax.inputs}
        self.outputs = {declared.name: declared for declared in syntax.outputs}
        self.producers: dict[str, list[Producer]] = {}
        self.consumers: dict[str, list[tuple[int, Port | None, Written]]] = {}
        for at, match in enumerate(matches):
            for producer in _produced(at, match):
                self.producers.setdefault(producer.written.text, []).append(producer)
        for at, match in enumerate(matches):
            for port, written in _consumed(match):
                if self.is_datum(written.text) or port is None or port.type != FUNCTION:
                    self.consumers.setdefault(written.text, []).append((at, port, written))
        self.order, self.circle = _ordered(len(matches), self._edges())

    def is_datum(self, name: str) -> bool:
        """True for the name of an input, or of a datum that a call produces."""
        return name in self.inputs or name in self.producers

    def _edges(self) -> Iterator[tuple[int, int]]:
        for name, consumers in self.consumers.items():
            for producer in self.producers.get(name, ()):
                yield from ((producer.at, at) for at, _, _ in consumers)

    def tail_calls(self, called: Mapping[int, str], own: str) -> set[int]:
        """The calls of the plan to itself whose outputs are exactly its own outputs (T36).

        They may pass through a union or a merge, which takes the same data from any depth.
        """
        outputs = list(self.outputs)
        return {
            at
            for at, name in called.items()
            if name == own
            and all(
                written.text == "_"
                or (ordinal < len(outputs) and self._ends_as(written.text, outputs[ordinal]))
                for ordinal, written in enumerate(_flat_outputs(self.matches[at]))
            )
        }

    def _ends_as(self, name: str, output: str) -> bool:
        """True if a datum goes only to an output, through nothing but unions and merges."""
        for _ in range(len(self.matches) + 1):
            consumers = self.consumers.get(name, [])
            if name == output:
                return not consumers
            if len(consumers) != 1 or name in self.outputs:
                return False
            match = self.matches[consumers[0][0]]
            if match.operator is None or match.operator.name not in ("union", "merge"):
                return False
            following = [written.text for _, written in match.produced]
            if len(following) != 1:
                return False
            name = following[0]
        return False


def _flat_outputs(match: Match) -> list[Written]:
    flat: list[Written] = []
    for output in match.outputs.values():
        flat += output if isinstance(output, tuple) else [output]
    return flat


_WAITED = Port("", "")


def _consumed(match: Match) -> Iterator[tuple[Port | None, Written]]:
    """The data that a call consumes; those of WAIT have a port without a name."""
    yield from ((port, written) for port, written in match.consumed if written.kind == "name")
    yield from ((_WAITED, written) for written in match.statement.clauses.wait)


def _produced(at: int, match: Match) -> Iterator[Producer]:
    yield from (Producer(at, written, port) for port, written in match.produced)
    for clause in CLAUSES:
        for written in getattr(match.statement.clauses, clause):
            yield Producer(at, written, None, clause)


def _ordered(count: int, edges: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The calls, producers first and otherwise in file order, and a circle of calls, if there is one."""
    after: dict[int, set[int]] = {at: set() for at in range(count)}
    before = [0] * count
    for first, second in edges:
        if second not in after[first]:
            after[first].add(second)
            before[second] += 1
    ready = [at for at in range(count) if not before[at]]
    heapify(ready)
    order: list[int] = []
    while ready:
        at = heappop(ready)
        order.append(at)
        for following in after[at]:
            before[following] -= 1
            if not before[following]:
                heappush(ready, following)
    left = [at for at in range(count) if before[at] > 0]
    return [*order, *left], _circle(left, after) if left else []


def _circle(left: Sequence[int], after: Mapping[int, set[int]]) -> list[int]:
    """The calls of a circle among those that could not be ordered."""
    inside = set(left)
    preceding: dict[int, int] = {}
    for at in left:
        for following in after[at]:
            if following in inside:
                preceding.setdefault(following, at)
    way: dict[int, int] = {}
    at = left[0]
    while at not in way:
        way[at] = len(way)
        at = preceding[at]
    circle = list(way)[way[at] :][::-1]
    first = circle.index(min(circle))
    return [*circle[first:], *circle[:first]]


# --- exclusive branches ---------------------------------------------------------------------------------


_NEEDS_ALL = ("join",)
"""Operators that the cancellation of any streaming input cancels."""

_NEEDS = {"difference": "universe"}
"""Operators that only the cancellation of this streaming input cancels."""

DONE, ERROR = "done", "error"


class BranchTaken(NamedTuple):
    """A condition: the call (or datum) it is about, and the chosen output or the other event."""

    key: str
    way: str


class Conditions:
    """The conditions of the calls and data of a plan with these inputs and ordered calls."""

    def __init__(self, inputs: Iterable[str], matches: Sequence[Match], types: Mapping[str, str]) -> None:
        self._types = types
        self._taken: dict[BranchTaken, int] = {}
        self._data: dict[str, int] = dict.fromkeys(inputs, 0)
        self._calls: dict[str, int] = {}
        self._lifted: set[str] = set()
        self._ways: list[int] = []
        """The conditions that exclude one another, for each call that has any."""
        for match in matches:
            self._add(match)

    def of_call(self, key: str) -> int:
        """The conditions of a call, as bits."""
        return self._calls[key]

    def is_possible(self, conditions: int) -> bool:
        """False if two conditions exclude each other."""
        return all((conditions & ways).bit_count() < 2 for ways in self._ways)

    def are_exclusive(self, first: int, second: int) -> bool:
        """True if no transaction meets both."""
        return any(first & ways and second & ways and not first & second & ways for ways in self._ways)

    def is_guarded(self, key: str) -> bool:
        """True if a call does not fire in every transaction (TA34)."""
        return bool(self._calls[key] & ~self._bits(DONE)) or key in self._lifted

    def chosen(self, conditions: int) -> list[BranchTaken]:
        """The conditions, for people."""
        return [taken for taken, bit in self._taken.items() if conditions & bit]

    def of_output(self, match: Match, port: Port | None) -> int:
        """The conditions of an output of a call."""
        bits = self._calls[match.key]
        if port is not None and match.operator is not None and _is_chosen(match.operator, port):
            bits |= self._bit(match.key, port.name)
        return bits

    def of_clause(self, match: Match, clause: str) -> int:
        """The conditions of what a clause produces: enable, started, on_error."""
        way = {"enable": DONE, "on_error": ERROR}.get(clause)
        return self._calls[match.key] | (self._bit(match.key, way) if way else 0)

    def _add(self, match: Match) -> None:
        bits = 0
        streams: dict[str, list[int]] = {}
        for port, written in match.consumed:
            if written.kind != "name" or written.text not in self._data:
                continue
            conditions = self._data[written.text]
            if port is not None and port.type == STREAM:
                streams.setdefault(port.name, []).append(conditions)
            else:
                bits |= conditions
            if port is not None and fit(port, written, self._types) == LIFTED:
                self._lifted.add(match.key)
        for written in match.statement.clauses.wait:
            bits |= self._data.get(written.text, 0)
            if self._types.get(written.text) in (STREAM, RELATION):
                bits |= self._bit(written.text, "not empty")
        self._calls[match.key] = bits | _of_streams(match, streams)
        self._produce(match)

    def _produce(self, match: Match) -> None:
        operator = match.operator
        if operator is not None and operator.conditional:
            ways = (self._bit(match.key, port.name) for port in operator.outputs)
            self._ways.append(_either(ways))
        clauses = match.statement.clauses
        if clauses.on_error:
            self._ways.append(self._bit(match.key, DONE) | self._bit(match.key, ERROR))
        produced = [(written.text, self.of_output(match, port)) for port, written in match.produced]
        for clause in ("enable", "started", "on_error"):
            for written in getattr(clauses, clause):
                produced.append((written.text, self.of_clause(match, clause)))
        for name, conditions in produced:
            self._data[name] = self._data.get(name, -1) & conditions

    def _bit(self, key: str, way: str) -> int:
        return self._taken.setdefault(BranchTaken(key, way), 1 << len(self._taken))

    def _bits(self, way: str) -> int:
        return _either(bit for taken, bit in self._taken.items() if taken.way == way)


def _is_chosen(operator: Operator, port: Port) -> bool:
    return operator.conditional or port.name in operator.optional_outputs


def _either(bits: Iterable[int]) -> int:
    of_any = 0
    for bit in bits:
        of_any |= bit
    return of_any


def _of_streams(match: Match, streams: Mapping[str, list[int]]) -> int:
    """The conditions of a call's streams: of all streams if it needs them all, else those that they share."""
    name = match.operator.name if match.operator is not None else ""
    if name in _NEEDS:
        return _either(streams.get(_NEEDS[name], ()))
    every = [conditions for alternatives in streams.values() for conditions in alternatives]
    if name in _NEEDS_ALL:
        return _either(every)
    shared = -1
    for conditions in every:
        shared &= conditions
    return shared if every else 0
