"""The words between a network and whoever drives it: requests for work outside, results, and the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from narval.core.engines.events import Failure
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.spilling import MemoryAlone, Spill
from narval.kinds.dataflow.language.definition import OperatorCall

Phase = Literal["run", "batch", "eos"]


class OperatorRequest(NamedTuple):
    """Work that is to be done outside for an operator, answered by any number of batches and one end.

    `run`: the whole of an operator without streams, with its `arguments`; where it is lifted, `batch` has the
    one tuple at hand (TA7). `batch`: tuples that came on `port`, at a place of its group. `eos`: the end of
    that stream, after all its tuples have been answered. Requests of one `frame`, call and `epoch` are of one
    instance of the operator; `arguments` are the same for all of them.
    """

    id: int
    frame: str
    depth: int
    epoch: int
    call: OperatorCall
    phase: Phase
    arguments: Mapping[str, Any]
    port: str = ""
    at: int = 0
    batch: TupleBatch | None = None


class RestartRequest(NamedTuple):
    """A frame that failed for the time being is void, and asks to begin again after a while (T43)."""

    frame: str
    depth: int
    attempt: int
    failure: Failure


class RequestsWithdrawn(NamedTuple):
    """Requests, and instances of a frame in an epoch, that nobody waits for any more."""

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
    """The end of an output; a `cancelled` one got nothing, or no more of what it should."""

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


class FlowSettings(NamedTuple):
    """Bounds of a transaction (TA7, TA23, TA34, TA41).

    `queue` are the batches that may wait for an operator outside; beyond that its producers are held back.
    `concurrency` are the requests that an operator may have outside at once.
    """

    depth: int = 1_000
    frames: int = 10_000
    restarts: int = 3
    concurrency: int = 20
    queue: int = 16
    spill: Spill = MemoryAlone()
