"""Exclusive branches: what must have happened for a call to fire, or a datum to arrive (TA3, TA5, TA34).

Each condition is a bit: an output of a conditional operator was chosen, an operator was done or failed, a
stream of WAIT had a tuple. A call has the conditions of everything it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from narval.kinds.dataflow.language.compiling.matching import LIFTED, RELATION, STREAM, Match, fit
from narval.kinds.dataflow.language.operators import Operator, Port

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
        found = self._calls[match.key]
        if port is not None and match.operator is not None and _is_chosen(match.operator, port):
            found |= self._bit(match.key, port.name)
        return found

    def of_clause(self, match: Match, clause: str) -> int:
        """The conditions of what a clause produces: enable, started, on_error."""
        way = {"enable": DONE, "on_error": ERROR}.get(clause)
        return self._calls[match.key] | (self._bit(match.key, way) if way else 0)

    def _add(self, match: Match) -> None:
        found = 0
        streams: dict[str, list[int]] = {}
        for port, written in match.consumed:
            if written.kind != "name" or written.text not in self._data:
                continue
            conditions = self._data[written.text]
            if port is not None and port.type == STREAM:
                streams.setdefault(port.name, []).append(conditions)
            else:
                found |= conditions
            if port is not None and fit(port, written, self._types) == LIFTED:
                self._lifted.add(match.key)
        for written in match.statement.clauses.wait:
            found |= self._data.get(written.text, 0)
            if self._types.get(written.text) in (STREAM, RELATION):
                found |= self._bit(written.text, "not empty")
        self._calls[match.key] = found | _of_streams(match, streams)
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
    found = 0
    for bit in bits:
        found |= bit
    return found


def _of_streams(match: Match, streams: Mapping[str, list[int]]) -> int:
    """The conditions of a call's streams: of all streams if it needs them all, else those that they share."""
    name = match.operator.name if match.operator is not None else ""
    if name in _NEEDS:
        return _either(streams.get(_NEEDS[name], ()))
    every = [conditions for found in streams.values() for conditions in found]
    if name in _NEEDS_ALL:
        return _either(every)
    shared = -1
    for conditions in every:
        shared &= conditions
    return shared if every else 0
