"""The messages between a network and its driver: requests for outside work, results, and the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from narval.core.engines.events import Failure
from narval.kinds.dataflow.engine.network.batches import MemoryAlone, Spill, TupleBatch
from narval.kinds.dataflow.language.definition import OperatorCall

Phase = Literal["run", "batch", "eos"]


class OperatorRequest(NamedTuple):
    """A request for outside work of an operator, answered by any number of batches and one end.

    Requests with the same `frame`, call and `epoch` belong to one instance of the operator.
    """

    id: int
    """Its number."""
    frame: str
    """The frame of the operator."""
    depth: int
    """The depth of that frame."""
    epoch: int
    """The try of that frame."""
    call: OperatorCall
    """The operator as it is called."""
    phase: Phase
    """`run`: all work of an operator without streams. `batch`: tuples that arrived on `port`. `eos`: the end
    of that stream, after all its tuples have been answered.
    """
    arguments: Mapping[str, Any]
    """The arguments of the operator: the same for all requests of an instance."""
    port: str = ""
    """The port on which tuples arrived."""
    at: int = 0
    """The index of the stream in the group of that port."""
    batch: TupleBatch | None = None
    """The tuples that arrived; for a lifted `run` the current one."""


class RestartRequest(NamedTuple):
    """A frame with a temporary failure: it is void, and asks to restart after a pause (T43)."""

    frame: str
    depth: int
    attempt: int
    failure: Failure


class RequestsWithdrawn(NamedTuple):
    """Requests, and instances of a frame in an epoch, whose answers are no longer needed."""

    requests: tuple[int, ...]
    frame: str
    epoch: int


class OutputTuples(NamedTuple):
    """Tuples of an output of the dataflow."""

    output: str
    batch: TupleBatch


class OutputRetracted(NamedTuple):
    """Tuples of an output that only a void try gave; what already stands outside stays there (T43).

    Then others may follow the end of an output, and another value its value.
    """

    output: str
    batch: TupleBatch


class OutputValue(NamedTuple):
    """The value of a non-streaming output."""

    output: str
    value: Any


class OutputOver(NamedTuple):
    """The end of an output; a `cancelled` output got nothing, or not everything."""

    output: str
    cancelled: bool


class TransactionOver(NamedTuple):
    """The end of the transaction: done, void by its own choice, or failed."""

    state: Literal["done", "void", "failed"]
    failure: Failure | None = None


FlowEvent = (
    OperatorRequest
    | RestartRequest
    | RequestsWithdrawn
    | OutputTuples
    | OutputRetracted
    | OutputValue
    | OutputOver
    | TransactionOver
)


class DataArrived(NamedTuple):
    """An item that arrived at an input of an operator: tuples, a value, the end, or a cancellation (T53)."""

    plan: str
    frame: str
    call: OperatorCall
    port: str
    at: int
    item: TupleBatch | Any
    kind: Literal["tuples", "value", "end", "cancelled"]


class OperatorMoved(NamedTuple):
    """A transition of an operator: it `fired` because it has all its inputs, or is `finished`, `cancelled` or
    `failed` (T53).
    """

    plan: str
    frame: str
    call: OperatorCall
    state: str


FlowListener = Callable[[DataArrived | OperatorMoved], None]
"""A function that hears what happens at operators, synchronously: nothing continues before it returns."""


class FlowSettings(NamedTuple):
    """Bounds of a transaction (TA7, TA23, TA34, TA41).

    `queue` is the most batches that wait for an outside operator; when it is full, the producers pause.
    `concurrency` is the most requests of an operator at once.
    """

    depth: int = 1_000
    frames: int = 10_000
    restarts: int = 3
    concurrency: int = 20
    queue: int = 16
    spill: Spill = MemoryAlone()
    listener: FlowListener | None = None
