"""The state of a run of a dataflow: its sessions and their results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from narval.core.engines.run_state import Moves, RunState


class OperatorCount(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An operator of an ended session: the tuples that it took and gave, the number of its requests, and how
    it ended: `done`, `cancelled`, `failed`, or "" if it never fired.
    """

    key: str
    state: str = ""
    taken: int = 0
    given: int = 0
    requests: int = 0


class UnreadNumbers(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The texts of a numeric attribute that are not numbers; they became no value. Without an attribute, the
    fault of the lines of a file that do not fit its first one. Without texts, an attribute that a call names,
    and that none of its tuples had.

    `texts` has the first of them; the operator that read them is the call `key` at `line` of its dataflow.
    """

    key: str
    line: int
    attribute: str
    count: int = 0
    texts: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.texts:
            return f"{self.key}, line {self.line}: none of {self.count} tuples has {self.attribute}"
        more = ", …" if self.count > len(self.texts) else ""
        texts = f"{', '.join(map(repr, self.texts))}{more}"
        if not self.attribute:
            texts = f"{'; '.join(self.texts)}{more}"
            return f"{self.key}, line {self.line}: lines that do not fit: {texts} ({self.count} in all)"
        return f"{self.attribute} of {self.key}, line {self.line}: no numbers: {texts} ({self.count} in all)"


class FlowSession(msgspec.Struct, omit_defaults=True):
    """A session: one transaction of the dataflow."""

    call: str
    """The call that runs it."""
    eid: int
    """The element that has its inputs."""
    place: int
    """The place in that element, from 1."""
    state: str = "running"
    """One of running, done, void, failed, cancelled."""
    started: float = 0.0
    """The moment it began."""
    ended: float | None = None
    """The moment it ended."""
    results: tuple[int, ...] = ()
    """The elements that it produced."""
    operators: tuple[OperatorCount, ...] = ()
    """The work of its operators."""
    error: int | None = None
    """The error element that says why it failed."""
    kept: bool = False
    """True if it was done in the run that this one retries."""
    unread: tuple[UnreadNumbers, ...] = ()
    """The texts that are not numbers where numbers are expected."""
    printed: tuple[str, ...] = ()
    """The last lines that it printed."""
    streams: dict[str, int] = {}
    """The number of tuples that each of its streams carried, by name."""


class DataflowState(RunState, omit_defaults=True):
    """One run of a dataflow. `calls` are the running sessions: their indexes in `sessions`, by call."""

    KIND: ClassVar[str] = "dataflow"
    MOVES: ClassVar[Moves] = {
        "ready": frozenset({"running", "failed", "cancelled"}),
        "running": frozenset({"done", "failed", "cancelled"}),
    }

    ttl: float | None = None
    open: bool = False
    retry_of: int = 0
    limits: dict[str, float] = {}
    sessions: list[FlowSession] = []
    calls: dict[str, int] = {}

    @property
    def results(self) -> tuple[int, ...]:
        """The results of all sessions, in order."""
        return tuple(eid for session in self.sessions for eid in session.results)

    def with_session(self, place: int, session: FlowSession) -> DataflowState:
        """Return the same state with another session at an index."""
        sessions = (*self.sessions[:place], session, *self.sessions[place + 1 :])
        return msgspec.structs.replace(self, sessions=[*sessions])

    def progress(self) -> Iterator[tuple[str, str]]:
        """The sessions so far."""
        return ((f"session {at}", session.state) for at, session in enumerate(self.sessions, 1))
