"""The state of a run of a dataflow: its sessions, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from narval.core.engines.run_state import Moves, RunState
from narval.kinds.dataflow.engine.changes import OperatorCount, UnreadNumbers


class FlowSession(msgspec.Struct, omit_defaults=True):
    """A session: one transaction of the dataflow, with the inputs at a `place` of an element.

    It is `running`, `done`, `void`, `failed` or `cancelled`; `kept` from the run that this one is a retry of.
    """

    call: str
    eid: int
    place: int
    state: str = "running"
    started: float = 0.0
    ended: float | None = None
    results: tuple[int, ...] = ()
    operators: tuple[OperatorCount, ...] = ()
    error: int | None = None
    kept: bool = False
    unread: tuple[UnreadNumbers, ...] = ()


class DataflowState(RunState, omit_defaults=True):
    """One run of a dataflow. `calls` are the sessions under way, by call: their places in `sessions`."""

    KIND: ClassVar[str] = "dataflow"
    MOVES: ClassVar[Moves] = {
        "ready": frozenset({"running", "failed", "cancelled"}),
        "running": frozenset({"done", "failed", "cancelled"}),
    }

    ttl: float | None = None
    open: bool = False
    retry_of: int = 0
    sessions: list[FlowSession] = []
    calls: dict[str, int] = {}

    @property
    def results(self) -> tuple[int, ...]:
        """The results of all sessions, in their order."""
        return tuple(eid for session in self.sessions for eid in session.results)

    def progress(self) -> Iterator[tuple[str, str]]:
        """The sessions so far."""
        return ((f"session {at}", session.state) for at, session in enumerate(self.sessions, 1))
