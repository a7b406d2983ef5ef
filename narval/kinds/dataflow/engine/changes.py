"""Facts that change a run of a dataflow, each with its effect. Tuples are not among them: the executor has
them.
"""

from __future__ import annotations

from narval.core.engines.run_state import RunBegan, RunChange
from narval.kinds.dataflow.engine.state import DataflowState, FlowSession, OperatorCount, UnreadNumbers


class DataflowChange(RunChange, frozen=True):
    """A fact that changes a run of a dataflow."""


class DataflowBegan(DataflowChange, RunBegan, frozen=True):
    """The run began. Its sessions have `ttl` seconds from their last progress (T30), and `limits` override
    the settings. If `open`, more sessions follow until its input is declared complete (T38). A retry
    continues from the run `retry_of`.
    """

    ttl: float | None = None
    open: bool = False
    retry_of: int = 0
    limits: dict[str, float] = {}

    def apply(self, state: DataflowState) -> None:
        state.move("running")
        state.begin(self)
        state.limits = self.limits
        state.ttl, state.open, state.retry_of = self.ttl, self.open, self.retry_of


class SessionBegan(DataflowChange, frozen=True):
    """A session began, and with it a transaction (T21, T29): the one at `place`, from 1, in the element
    `eid`.
    """

    call: str
    at: float
    eid: int
    place: int

    def apply(self, state: DataflowState) -> None:
        state.calls[self.call] = len(state.sessions)
        state.sessions.append(FlowSession(self.call, self.eid, self.place, started=self.at))


class SessionKept(DataflowChange, frozen=True):
    """A session had already ended, with these results, in the run that this one retries."""

    eid: int
    place: int
    results: tuple[int, ...] = ()

    def apply(self, state: DataflowState) -> None:
        session = FlowSession("", self.eid, self.place, "done", results=self.results, kept=True)
        state.sessions.append(session)


class SessionEnded(DataflowChange, frozen=True):
    """A session ended: `done`, `void` by its own choice (T35), or `failed` with the element `error`."""

    call: str
    """The call that ran it."""
    at: float
    """The moment."""
    state: str
    """One of done, void, failed."""
    results: tuple[int, ...] = ()
    """The elements that it produced."""
    operators: tuple[OperatorCount, ...] = ()
    """The work of its operators."""
    error: int | None = None
    """The error element that says why it failed."""
    unread: tuple[UnreadNumbers, ...] = ()
    """The texts that are not numbers where numbers are expected."""
    printed: tuple[str, ...] = ()
    """The last lines that it printed."""
    streams: dict[str, int] = {}
    """The number of tuples that each of its streams carried, by name."""

    def apply(self, state: DataflowState) -> None:
        session = state.sessions[state.calls.pop(self.call)]
        session.state, session.ended = self.state, self.at
        session.results, session.operators, session.error = self.results, self.operators, self.error
        session.unread, session.printed, session.streams = self.unread, self.printed, self.streams


class InputCompleted(DataflowChange, frozen=True):
    """The input is declared complete: no more sessions follow (T38)."""

    def apply(self, state: DataflowState) -> None:
        state.open = False


class DataflowEnded(DataflowChange, frozen=True):
    """The run has ended."""

    at: float
    status: str
    error: int | None = None

    def apply(self, state: DataflowState) -> None:
        state.move(self.status, self.at, self.error)
        state.open = False
        for place in state.calls.values():
            session = state.sessions[place]
            session.state, session.ended = "cancelled", self.at
        state.calls.clear()
