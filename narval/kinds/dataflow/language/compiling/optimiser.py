"""Optimiser: the same results with less work (T54).

A selection moves before a projection, to the sides of a union or a join, and to the universe of a difference.
This causes no new failures: only tests with = and <> move through joins and differences, as others may fail
for tuples that would not have got that far. Failures for tuples that are not selected may disappear. Calls
that read the same thing with the same data are merged: they wait for the same things, so no effect lies
between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from narval.kinds.dataflow.language.compiling.assembly import with_spilling
from narval.kinds.dataflow.language.conditions import AttributeTest, from_right
from narval.kinds.dataflow.language.definition import (
    Argument,
    DataflowGraph,
    DataRef,
    Datum,
    FixedValue,
    OperatorCall,
)
from narval.kinds.dataflow.language.operators import OPERATOR_TABLE

SHARED = frozenset(("fetch", "retrieve", "query", "importrelation", "formatrelation", "extract"))
"""The operators whose results may serve several calls."""

MOST_MOVED = 200
"""The most moves in one graph."""


def optimised(graph: DataflowGraph) -> DataflowGraph:
    """Optimise a graph for execution."""
    draft = _GraphDraft(graph)
    draft.share()
    for _ in range(MOST_MOVED):
        if not draft.push_one():
            break
    return with_spilling(draft.graph())


class _Side(msgspec.Struct, frozen=True):
    """A port to which a selection moves, its place among many, and the names of the attributes there."""

    port: str
    at: int
    tests: tuple[AttributeTest, ...]


class _GraphDraft:
    """A graph being altered."""

    def __init__(self, graph: DataflowGraph) -> None:
        self._graph = graph
        self._calls = list(graph.calls)
        self._data = dict(graph.data)
        self._outputs = {datum.name for datum in graph.outputs}

    def graph(self) -> DataflowGraph:
        """The graph in its present form."""
        used = {datum.name for datum in self._graph.inputs} | self._outputs
        for call in self._calls:
            used.update(name for _, _, name in call.produced)
            used.update(call.enabled)
        data = {name: datum for name, datum in self._data.items() if name in used}
        return msgspec.structs.replace(self._graph, calls=tuple(self._calls), data=data)

    def _producers(self, name: str) -> list[OperatorCall]:
        return [call for call in self._calls if any(produced == name for _, _, produced in call.produced)]

    # --- shared reads -------------------------------------------------------------------------------------

    def share(self) -> None:
        """Merge calls that do the same thing."""
        first: dict[Any, OperatorCall] = {}
        for key in [call.key for call in self._calls if _is_shareable(call)]:
            call = next(call for call in self._calls if call.key == key)
            original = first.setdefault(_sameness(call), call)
            if original.key != key:
                self._merge(original, call)

    def _merge(self, original: OperatorCall, other: OperatorCall) -> None:
        """Redirect the consumers of a call to another call."""
        own, gone = _out(original), _out(other)
        if own is None or gone is None or gone in self._outputs:
            return
        if all(len(self._producers(name)) == 1 for name in (own, gone)):
            self._calls = [_renamed(call, {gone: own}) for call in self._calls if call.key != other.key]

    # --- selections ---------------------------------------------------------------------------------------

    def push_one(self) -> bool:
        """Move one selection before the call it selects from; return False if none can move."""
        uses, producers = self._uses()
        for call in self._calls:
            if call.operator.name != "select" or not _is_plain(call):
                continue
            source, tests = call.arguments["in"], call.parsed.get("cond")
            if not isinstance(source, DataRef) or not tests or uses[source.name] != 1:
                continue
            before = producers.get(source.name, [])
            if len(before) != 1 or len(producers[str(_out(call))]) != 1:
                continue
            sides = self._sides(before[0], tests) if _is_plain(before[0]) else None
            if sides:
                self._push(call, before[0], sides)
                return True
        return False

    def _uses(self) -> tuple[Counter[str], dict[str, list[OperatorCall]]]:
        """The number of uses of each datum, including uses as an output of the graph, and its producers."""
        uses = Counter(self._outputs)
        producers: dict[str, list[OperatorCall]] = {}
        for call in self._calls:
            uses.update(datum.name for _, _, datum in call.consumed)
            uses.update(datum.name for datum in call.wait)
            for _, _, name in call.produced:
                producers.setdefault(name, []).append(call)
        return uses, producers

    def _sides(self, call: OperatorCall, tests: Sequence[AttributeTest]) -> list[_Side] | None:
        """The places before a call to which a selection can move; None if it cannot."""
        find = _SIDES.get(call.operator.name)
        return None if find is None or call.lifted else find(call, tuple(tests), self._columns)

    def _columns(self, argument: Argument) -> tuple[str, ...] | None:
        return self._data[argument.name].attributes if isinstance(argument, DataRef) else None

    def _push(self, select: OperatorCall, call: OperatorCall, sides: Sequence[_Side]) -> None:
        out = str(_out(select))
        made: list[OperatorCall] = []
        arguments = dict(call.arguments)
        for number, side in enumerate(sides):
            argument = arguments[side.port]
            source = argument[side.at] if isinstance(argument, tuple) else argument
            assert isinstance(source, DataRef)
            key = select.key if len(sides) == 1 else f"{select.key}.{number + 1}"
            name = f"{out}~{number + 1}" if len(sides) > 1 else f"{out}~"
            while name in self._data:
                name += "~"
            self._data[name] = Datum(name, "TupleStream", self._data[source.name].attributes)
            made.append(_selection(select, call, key, source, name, side.tests))
            here = DataRef(name, source.line, source.column)
            arguments[side.port] = _with(argument, side.at, here)
        moved = msgspec.structs.replace(call, arguments=arguments, outputs=_given(call, out))
        self._data[out] = msgspec.structs.replace(
            self._data[out], attributes=self._data[str(_out(call))].attributes
        )
        following: list[OperatorCall] = []
        for one in self._calls:
            if one.key == call.key:
                following += [*made, moved]
            elif one.key != select.key:
                following.append(one)
        self._calls = following


def _out(call: OperatorCall) -> str | None:
    """The only output of a call, or None."""
    names = [name for _, _, name in call.produced]
    return names[0] if len(names) == 1 else None


def _is_plain(call: OperatorCall) -> bool:
    """True for a call whose only visible effect is its only output."""
    return not (call.wait or call.enabled) and _out(call) is not None


def _is_shareable(call: OperatorCall) -> bool:
    calls_code = any(
        isinstance(argument, FixedValue) and argument.type == "Function"
        for argument in call.arguments.values()
    )
    return call.operator.name in SHARED and not call.enabled and _out(call) is not None and not calls_code


def _sameness(call: OperatorCall) -> Any:
    """A key that is equal for calls that do the same thing with the same data."""
    arguments = tuple(sorted((name, _bare(argument)) for name, argument in call.arguments.items()))
    return call.operator.name, arguments, tuple(sorted(datum.name for datum in call.wait))


def _bare(argument: Argument) -> Any:
    if isinstance(argument, tuple):
        return tuple(_bare(one) for one in argument)
    return ("datum", argument.name) if isinstance(argument, DataRef) else (argument.type, str(argument.value))


def _renamed(call: OperatorCall, names: Mapping[str, str]) -> OperatorCall:
    """A call that takes data with other names."""

    def ref(argument: Any) -> Any:
        if isinstance(argument, tuple):
            return tuple(ref(one) for one in argument)
        if isinstance(argument, DataRef) and argument.name in names:
            return msgspec.structs.replace(argument, name=names[argument.name])
        return argument

    arguments = {name: ref(argument) for name, argument in call.arguments.items()}
    return msgspec.structs.replace(call, arguments=arguments, wait=ref(call.wait))


def _with(argument: Argument, at: int, here: DataRef) -> Argument:
    if not isinstance(argument, tuple):
        return here
    return (*argument[:at], here, *argument[at + 1 :])


def _given(call: OperatorCall, out: str) -> Mapping[str, Any]:
    return {port: None if name is None else out for port, name in call.outputs.items()}


def _selection(
    select: OperatorCall,
    call: OperatorCall,
    key: str,
    source: DataRef,
    name: str,
    tests: tuple[AttributeTest, ...],
) -> OperatorCall:
    text = " AND ".join(f"'{test.attribute}' {test.compares} {_constant(test.constant)}" for test in tests)
    condition = select.arguments["cond"]
    assert isinstance(condition, FixedValue)
    return msgspec.structs.replace(
        select,
        key=key,
        operator=OPERATOR_TABLE["select"],
        arguments={"cond": msgspec.structs.replace(condition, value=text), "in": source},
        outputs={"out": name},
        parsed={"cond": tests},
        needs=call.needs,
        possible=call.possible,
    )


def _constant(value: str | float) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


# --- the places before each operator ----------------------------------------------------------------------

Columns = Callable[[Argument], tuple[str, ...] | None]
Tests = tuple[AttributeTest, ...]


def _before_project(call: OperatorCall, tests: Tests, columns: Columns) -> list[_Side] | None:
    projected = call.parsed.get("cond")
    return [_Side("in", 0, tests)] if projected and _names(tests) <= set(projected) else None


def _before_union(call: OperatorCall, tests: Tests, columns: Columns) -> list[_Side] | None:
    inputs = call.arguments["in"]
    assert isinstance(inputs, tuple)
    if any(not _names(tests) <= set(names) for one in inputs if (names := columns(one)) is not None):
        return None  # attributes that an input lacks become no value only after the union
    return [_Side("in", at, tests) for at in range(len(inputs))]


def _before_difference(call: OperatorCall, tests: Tests, columns: Columns) -> list[_Side] | None:
    return [_Side("universe", 0, tests)] if _are_safe(tests) else None


def _before_join(call: OperatorCall, tests: Tests, columns: Columns) -> list[_Side] | None:
    """The sides of a join; all tests must concern one side, with known attributes."""
    left, right = columns(call.arguments["left"]), columns(call.arguments["right"])
    if left is None or right is None or call.parsed.get("cond") is None or not _are_safe(tests):
        return None
    of_right = from_right(left, right, call.parsed["cond"])
    if not _names(tests) <= {*left, *of_right}:
        return None
    on_right = tuple(
        msgspec.structs.replace(test, attribute=of_right[test.attribute])
        for test in tests
        if test.attribute not in left
    )
    on_left = tuple(test for test in tests if test.attribute in left)
    sides = [_Side("left", 0, on_left), _Side("right", 0, on_right)]
    return [side for side in sides if side.tests]


def _are_safe(tests: Iterable[AttributeTest]) -> bool:
    return all(test.compares in ("=", "<>") for test in tests)


def _names(tests: Iterable[AttributeTest]) -> set[str]:
    return {test.attribute for test in tests}


_SIDES: Mapping[str, Callable[[OperatorCall, Tests, Columns], list[_Side] | None]] = {
    "project": _before_project,
    "union": _before_union,
    "difference": _before_difference,
    "join": _before_join,
}
