"""Facts that change a run of a dataflow. Tuples are none: they pass through the executor."""

from __future__ import annotations

import msgspec

from narval.core.engines.run_state import RunBegan, RunChange


class OperatorCount(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An operator of a session that has ended: the tuples that it took and gave, in how many requests; how it
    ended is `done`, `cancelled`, `failed`, or "" if it never fired.
    """

    key: str
    state: str = ""
    taken: int = 0
    given: int = 0
    requests: int = 0


class UnreadNumbers(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The texts of an attribute that are no numbers though it has numbers: no value is in their place.

    `texts` are the first of them; the operator that read them is the call `key` at `line` of its dataflow.
    """

    key: str
    line: int
    attribute: str
    count: int = 0
    texts: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.texts) else ""
        texts = f"{', '.join(map(repr, self.texts))}{more}"
        return f"{self.attribute} of {self.key}, line {self.line}: no numbers: {texts} ({self.count} in all)"


class DataflowChange(RunChange, frozen=True):
    """A fact that changes a run of a dataflow."""


class DataflowBegan(DataflowChange, RunBegan, frozen=True):
    """The run began. Its session has `ttl` seconds from its last progress (T30); with `open` others follow
    until its input is declared complete (T38). A retry goes on from the run `retry_of`.
    """

    ttl: float | None = None
    open: bool = False
    retry_of: int = 0


class SessionBegan(DataflowChange, frozen=True):
    """A session began, and with it a transaction (T21, T29): the one at `place` of the element `eid`,
    from 1.
    """

    call: str
    at: float
    eid: int
    place: int


class SessionKept(DataflowChange, frozen=True):
    """A session had ended in the run that this one is a retry of; its results are these."""

    eid: int
    place: int
    results: tuple[int, ...] = ()


class SessionEnded(DataflowChange, frozen=True):
    """A session ended: `done`, `void` by its own will (T35), or `failed`, which the element `error` tells."""

    call: str
    at: float
    state: str
    results: tuple[int, ...] = ()
    operators: tuple[OperatorCount, ...] = ()
    error: int | None = None
    unread: tuple[UnreadNumbers, ...] = ()


class InputCompleted(DataflowChange, frozen=True):
    """The input is declared complete: no other session follows (T38)."""


class DataflowEnded(DataflowChange, frozen=True):
    """The run is over."""

    at: float
    status: str
    error: int | None = None
