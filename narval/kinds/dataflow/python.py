"""Dataflows in a program: run from a file, with a listener to their events (T51, T53)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from narval.core.definitions.suggestions import closest
from narval.core.errors import ActionError, RequestError
from narval.kinds.dataflow.calls.documents import GatheredTuples, relation_of, value_of
from narval.kinds.dataflow.calls.driver import FlowInput, with_place
from narval.kinds.dataflow.calls.foreground import load_dataflow, run_sessions
from narval.kinds.dataflow.engine.engine import LIMITS, limits_in
from narval.kinds.dataflow.engine.network.batches import FlowError, Relation, TupleBatch, batch_of
from narval.kinds.dataflow.engine.network.requests import DataArrived, FlowListener, OperatorMoved
from narval.kinds.dataflow.language.definition import Datum


class FlowEvent(NamedTuple):
    """An event at an operator of a dataflow.

    `kind` is `tuples`, `value`, `end` or `cancelled` for an item that arrives at its input `port`; for the
    operator itself it is `fired`, `finished`, `cancelled` or `failed`, with an empty `port`. `plan` is the
    dataflow, `operator` the call in it, such as `select-1`, at `line` of its file. `frame` distinguishes the
    calls of a dataflow. `data` is the tuples as dicts, or the value.
    """

    kind: str
    plan: str
    operator: str
    line: int
    frame: str
    port: str = ""
    data: Any = None


def run_dataflow(
    file: str | Path,
    plan: str = "",
    inputs: Mapping[str, Any] | None = None,
    *,
    listen: Callable[[FlowEvent], object] | None = None,
    limits: Mapping[str, str | float] | None = None,
) -> dict[str, Any]:
    """Run a dataflow of a file to its end; return its outputs by name, a stream or relation as a list of
    dicts.

    The dataflow is the first of the file, or the one named `plan`. An input is a text or a number, or a list
    of dicts if it takes tuples. Cancelled outputs are left out. `listen` is called with each event, and
    nothing continues before it returns; with the `put` of a queue, another thread can handle events later.
    `limits` are those of `[dataflows]` in the settings, as numbers or texts: `ttl`, `restarts`, `depth`,
    `frames`, `spill`. What the dataflow sees is not remembered.

    Raises DefinitionError, RequestError for inputs and limits, and ActionError if it fails.
    """
    flow = load_dataflow(Path(file), plan)
    datum_of = {datum.name: datum for datum in flow.definition.inputs}
    values = dict(inputs or {})
    if other := next((name for name in values if name not in datum_of), None):
        there = ", ".join(datum_of) or "none"
        raise RequestError(f"expected an input of {flow.definition.full_name} ({there}), found {other!r:.80}")
    if lacking := [name for name in datum_of if name not in values]:
        example = f"inputs={{{lacking[0]!r}: …}}"
        raise RequestError(f"expected the input {', '.join(lacking)}; give it by {example}")
    outcome = _Outputs()
    try:
        asked = _limits(limits or {})
        values_of = {name: _input(datum_of[name], value) for name, value in values.items()}
        listener = None if listen is None else _listener(listen)
        work = run_sessions(flow, [values_of], [outcome], print, _warn, asked, listener=listener)
        (over,) = asyncio.run(work)
    except (FlowError, ValueError) as error:
        raise RequestError(f"{file}: {error}") from None
    if over.state == "failed" and over.failure is not None:
        raise ActionError(with_place(over.failure), over.failure.kind, final=over.failure.final)
    return outcome.whole()


class _Outputs:
    """The outputs of a session, as Python values."""

    def __init__(self) -> None:
        self.outputs: dict[str, Any] = {}
        self._tuples: dict[str, GatheredTuples] = {}

    def tuples(self, output: str, batch: TupleBatch) -> None:
        """Take tuples of an output."""
        self._tuples.setdefault(output, GatheredTuples()).add(batch)

    def retracted(self, output: str, batch: TupleBatch) -> None:
        """Take tuples back."""
        self._tuples[output].retract(batch)

    def value(self, output: str, value: Any) -> None:
        """Take the value of an output."""
        is_relation = isinstance(value, Relation)
        self.outputs[output] = (
            [row for batch in value.batches() for row in _dicts(batch)] if is_relation else value
        )

    def over(self, output: str, cancelled: bool) -> None:
        """Handle the end of an output: an empty stream is a list without tuples."""
        if cancelled:
            self.outputs.pop(output, None)
        else:
            self.outputs.setdefault(output, [])

    def whole(self) -> dict[str, Any]:
        """All outputs that were not cancelled."""
        tuples = {name: _dicts(self._tuples[name].whole) for name in self.outputs if name in self._tuples}
        return {**self.outputs, **tuples}


def _dicts(batch: TupleBatch) -> list[dict[str, Any]]:
    return [dict(zip(batch.schema, row, strict=True)) for row in batch.rows]


def _limits(limits: Mapping[str, str | float]) -> dict[str, float]:
    """The parsed limits. Raises RequestError for an unknown limit, and ValueError for an invalid one."""
    for name in limits:
        if name not in LIMITS:
            raise RequestError(f"limits: there is no limit {name!r}{closest(name, LIMITS)}")
    words = {True: "yes", False: "no"}
    return limits_in(
        {
            f":{name}": words[value] if isinstance(value, bool) else str(value)
            for name, value in limits.items()
        }
    )


def _input(datum: Datum, value: Any) -> FlowInput:
    if isinstance(value, Sequence) and not isinstance(value, str):
        if datum.type not in ("TupleStream", "Relation", "Object"):
            raise FlowError("bad-input", f"expected a value for the input {datum.name}, found a list")
        other = next((row for row in value if not isinstance(row, Mapping)), None)
        if other is not None:
            raise FlowError(
                "bad-input", f"expected a list of dicts for the input {datum.name}, found {other!r:.40} in it"
            )
        return relation_of(batch_of(value), datum.name)
    is_number = isinstance(value, float) and isfinite(value)
    return value if is_number or not isinstance(value, str | float) else value_of(datum, str(value))


def _listener(listen: Callable[[FlowEvent], object]) -> FlowListener:
    def hear(event: DataArrived | OperatorMoved) -> None:
        plan, call, frame = event.plan, event.call, event.frame
        if isinstance(event, OperatorMoved):
            listen(FlowEvent(event.state, plan, call.key, call.line, frame))
        else:
            data = _dicts(event.item) if isinstance(event.item, TupleBatch) else event.item
            listen(FlowEvent(event.kind, plan, call.key, call.line, frame, event.port, data))

    return hear


def _warn(line: str) -> None:
    sys.stderr.write(f"narval: {line}\n")
