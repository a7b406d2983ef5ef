"""The messages between a network and its driver: requests for work outside, results, and the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from narval.core.engines.events import Failure
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.spilling import MemoryAlone, Spill
from narval.kinds.dataflow.language.definition import OperatorCall

Phase = Literal["run", "batch", "eos"]


class OperatorRequest(NamedTuple):
    """Outside work for an operator, answered by any number of batches and one end.

    Requests of one `frame`, call and `epoch` belong to one instance of the operator.
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
    """`run`: all work of an operator without streams. `batch`: tuples that came on `port`. `eos`: the end of
    that stream, after all its tuples have been answered.
    """
    arguments: Mapping[str, Any]
    """The arguments of the operator: the same for all requests of an instance."""
    port: str = ""
    """The port on which tuples came."""
    at: int = 0
    """The place of that port in its group."""
    batch: TupleBatch | None = None
    """The tuples that came; for a lifted `run` the current one."""


class RestartRequest(NamedTuple):
    """A frame with a temporary failure is void, and asks to begin again after a while (T43)."""

    frame: str
    depth: int
    attempt: int
    failure: Failure


class RequestsWithdrawn(NamedTuple):
    """Requests, and instances of a frame in an epoch, that are no longer waited for."""

    requests: tuple[int, ...]
    frame: str
    epoch: int


class OutputTuples(NamedTuple):
    """Tuples of an output of the dataflow."""

    output: str
    batch: TupleBatch


class OutputValue(NamedTuple):
    """The value of an output that does not stream."""

    output: str
    value: Any


class OutputOver(NamedTuple):
    """The end of an output; a `cancelled` one got nothing, or not all that it should."""

    output: str
    cancelled: bool


class TransactionOver(NamedTuple):
    """The end of the transaction: done, void by its own will, or failed."""

    state: Literal["done", "void", "failed"]
    failure: Failure | None = None


FlowEvent = (
    OperatorRequest
    | RestartRequest
    | RequestsWithdrawn
    | OutputTuples
    | OutputValue
    | OutputOver
    | TransactionOver
)


class DataArrived(NamedTuple):
    """Something came to an input of an operator: tuples, a value, the end, or its cancellation (T53)."""

    plan: str
    frame: str
    call: OperatorCall
    port: str
    at: int
    item: TupleBatch | Any
    kind: Literal["tuples", "value", "end", "cancelled"]


class OperatorMoved(NamedTuple):
    """An operator has all that it needs and has `fired`, or is `finished`, `cancelled` or `failed` (T53)."""

    plan: str
    frame: str
    call: OperatorCall
    state: str


FlowListener = Callable[[DataArrived | OperatorMoved], None]
"""Hears what happens at operators, synchronously: nothing continues before it returns."""


class FlowSettings(NamedTuple):
    """Bounds of a transaction (TA7, TA23, TA34, TA41).

    `queue` is the most batches that wait for an outside operator; beyond that its producers are held back.
    `concurrency` is the most requests of an operator at once.
    """

    depth: int = 1_000
    frames: int = 10_000
    restarts: int = 3
    concurrency: int = 20
    queue: int = 16
    spill: Spill = MemoryAlone()
    listener: FlowListener | None = None
