"""The record of a call in the book of calls: its target, its state, and its listener (N33)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from narval.calls.context import CallContext
from narval.core.engines.events import Failure, OutputElement
from narval.core.errors import InternalError

if TYPE_CHECKING:
    import asyncio

    from narval.agent.loop import Delivery
    from narval.agent.turn import Turn
    from narval.core.engines.commands import Call


class Outcome(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The end of a call: its output elements, why it failed, or that it was given up on request.

    `value` is plain data: the status and last lines of a program, or the effects of a node's code. A `lost`
    outcome is not a result: the program that answered the call was ended with the daemon's lease, and
    recovery decides about the call.
    """

    elements: list[OutputElement] = []
    problem: Failure | None = None
    abandoned: bool = False
    value: dict[str, Any] | None = None
    lost: bool = False


ABANDONED = Outcome(abandoned=True)
LOST = Outcome(lost=True)

Finish = Callable[[Outcome], Outcome]
"""Makes the engine's outcome from the call's outcome."""

State = Literal["waiting", "announced", "running", "reported", "recorded", "left"]

CALL_MOVES: Mapping[State, frozenset[State]] = {
    "waiting": frozenset({"announced", "running", "reported", "left"}),
    "announced": frozenset({"running", "reported", "left"}),
    "running": frozenset({"reported", "left"}),
    "reported": frozenset({"recorded"}),
    "recorded": frozenset(),
    "left": frozenset(),
}
"""The moves of a call. It is

- *waiting* for a slot of its agent, for room where it is answered, or for a server that starts: it is not
  sent;
- *announced* if it must not be made twice, or can be undone: it runs as soon as its start is recorded;
- *running* while its code runs;
- *reported* when it has an outcome;
- *recorded* when the outcome is recorded, or not wanted: the book forgets the call;
- *left* to recovery, if the daemon closes first, or loses whatever answers the call.
"""

_OVER = frozenset({"reported", "recorded", "left"})


class CallListener:
    """The listener of a call. This one records nothing; `answered` gets the outcome.

    Its calls are not announced, and elements that a source yields are dropped.
    """

    def __init__(self, answered: Callable[[Outcome], None]) -> None:
        self._on_answer = answered

    def announce(self, record: CallRecord) -> None:
        """Record that a call of the journal begins, and then let it continue."""

    async def produced(self, record: CallRecord, elements: list[OutputElement]) -> None:
        """Take the elements that a source yields; the source continues when this returns."""

    def answered(self, record: CallRecord, outcome: Outcome) -> None:
        """Take the outcome, once; `settle` the record when nothing is left to do for it."""
        record.settle()
        self._on_answer(outcome)


def tell_listener(record: CallRecord, outcome: Outcome | None) -> None:
    """Tell the listener of a call its outcome, unless it is left to recovery."""
    if outcome is not None:
        record.listener.answered(record, outcome)


LiveState = Callable[[Any], Any]
"""A function that returns the state of a run with what its call has done so far, and alters nothing."""


class CallRecord:
    """One call, from the request until its outcome is recorded.

    `listener` gets its reports. `on_over` gets its outcome, for the listener, or None if the call is left to
    recovery. `asked` is the command of the journal behind the call, or None; `finish` transforms its outcome.
    The other fields are its state.
    """

    __slots__ = (
        "also", "asked", "call", "confined", "finish", "listener", "live", "on_late_end",
        "on_over", "on_recorded", "outlives", "place", "report", "since", "state", "taken", "timer",
        "verdict",
    )  # fmt: skip

    def __init__(
        self,
        call: CallContext,
        listener: CallListener,
        on_over: Callable[[CallRecord, Outcome | None], None] = tell_listener,
        *,
        asked: Call | None = None,
        finish: Finish | None = None,
        since: float = 0.0,
    ) -> None:
        self.call, self.listener, self.on_over, self.asked, self.finish = (
            call,
            listener,
            on_over,
            asked,
            finish,
        )
        self.since = since
        """The moment of the request."""
        self.state: State = "waiting"
        self.place: Any = None
        """The thread, worker, task or cluster task that answers it, set by its backend."""
        self.confined: Any = None
        """The places that its worker may reach, if that is confined; None until they are determined."""
        self.verdict: Outcome | None = None
        """The outcome with which it was ended, until the code that answers it has ended."""
        self.timer: asyncio.TimerHandle | None = None
        """Ends it when its time limit, or its time to clean up, has passed."""
        self.live: LiveState | None = None
        """A function that returns what it has done so far; None if it has none."""
        self.report: Delivery | None = None
        """The latest report to its agent, until that is recorded."""
        self.also: Callable[[Turn], None] | None = None
        """More work for the turn that records its outcome."""
        self.taken: asyncio.Future[None] | None = None
        """Done when the elements that a source has yielded are recorded."""
        self.outlives = False
        """True while its code still runs after its end: it was given up, and could not be stopped."""
        self.on_late_end: Callable[[CallRecord, Outcome | None], None] = _ignore
        """Called when such code has ended, with its result, if any."""
        self.on_recorded: Callable[[], None] = _nothing
        """Called when its outcome is recorded or not wanted."""

    @property
    def is_once(self) -> bool:
        """True for a call that must not be made twice, and has not begun."""
        return self.asked is not None and self.asked.on_restart == "error" and not self.asked.begun

    @property
    def is_announced(self) -> bool:
        """True for a call that has not begun, and whose start must be recorded first."""
        asked = self.asked
        return asked is not None and (asked.on_restart == "error" or asked.undoable) and not asked.begun

    @property
    def has_room(self) -> bool:
        """True once its backend has room for it."""
        return self.state != "waiting"

    @property
    def is_over(self) -> bool:
        """True once it is answered, or left to recovery."""
        return self.state in _OVER

    def _move(self, state: State) -> None:
        """Take one of the moves. Raises InternalError for any other."""
        if state not in CALL_MOVES[self.state]:
            raise InternalError(f"expected a move of a call that is {self.state}, got {state}: {self.call!r}")
        self.state = state

    def give_to(self, place: Any) -> None:
        """Set the object that answers the call."""
        self.place = place

    def begin(self, expire: Callable[[CallRecord], None] | None = None) -> bool:
        """Begin the call; True if the work must be done now. Otherwise it is announced first, and its backend
        does the work when that is recorded.

        The time limit runs from now, not from the request; at its end `expire` is called. Without `expire`
        the limit is enforced elsewhere.
        """
        if expire is not None:
            self.start_clock(expire)
        if not self.is_announced:
            return self.go()
        self._move("announced")
        self.listener.announce(self)
        return False

    def start_clock(self, expire: Callable[[CallRecord], None]) -> None:
        """Start the time limit now, possibly before the call begins; at its end `expire` is called."""
        if self.call.timeout is not None:
            self.call.start_clock()
            self.after(self.call.timeout, expire)

    def go(self) -> bool:
        """Mark it as running; False if it has ended in the meantime."""
        if self.is_over:
            return False
        self._move("running")
        return True

    def tell(self, report: Delivery | None, taken: asyncio.Future[None] | None = None) -> None:
        """Set the report that its agent has not recorded yet; None once recorded. Then `taken` is done."""
        self.report, self.taken = report, taken

    def end_with(self, verdict: Outcome) -> bool:
        """Set the outcome with which the call is ended; False if an earlier one is set."""
        is_first = self.verdict is None
        self.verdict = self.verdict or verdict
        return is_first

    def redirect(self, listener: CallListener) -> None:
        """Report to another listener from now on."""
        self.listener = listener

    def answer(self, outcome: Outcome) -> None:
        """End the call with this outcome; any later one is dropped."""
        self.stop_timer()
        if not self.is_over:
            self._move("left" if outcome.lost else "reported")
            self.on_over(self, outcome)

    def outlive(self) -> None:
        """Record that its code still runs after its answer, which follows now."""
        self.outlives = True

    def when_ended_late(self, act: Callable[[CallRecord, Outcome | None], None]) -> None:
        """Call `act` when its code, which still runs, has ended, with its result."""
        self.on_late_end = act

    def end_late(self, outcome: Outcome | None) -> None:
        """Record that code that outlived its answer has ended, with its result: None if it was stopped, or
        broke down.
        """
        self.outlives = False
        self.stop_timer()
        self.on_late_end(self, outcome)

    def leave(self, stop: Callable[[CallRecord], None] | None = None) -> None:
        """Leave the call to recovery, after `stop` has stopped it; drop its outcome."""
        self.listener = CallListener(_drop)
        if stop is not None:
            stop(self)
        self.stop_timer()
        if not self.is_over:
            self._move("left")
            self.on_over(self, None)

    def tell_state(self, live: LiveState | None) -> None:
        """Set the function that returns what it has done so far, or None."""
        self.live = live

    def when_recorded(self, act: Callable[[], None], also: Callable[[Turn], None] | None = None) -> None:
        """Call `act` when its outcome is recorded or not wanted; the turn that takes it also does `also`."""
        self.on_recorded, self.also = act, also

    def settle(self) -> None:
        """Note that the outcome is recorded or not wanted."""
        if self.state == "reported":
            self._move("recorded")
        self.on_recorded()

    def after(self, seconds: float, act: Callable[[CallRecord], None]) -> None:
        """Call `act` after `seconds` seconds, unless the call, or its code that still runs, has ended by
        then. This replaces the previous `act`.
        """
        self.stop_timer()
        from asyncio import get_running_loop  # a worker, which has records too, starts faster without it

        self.timer = get_running_loop().call_later(seconds, act, self)

    def stop_timer(self) -> None:
        """Stop the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def expired(self) -> Outcome:
        """The outcome of a call that exceeded its time limit."""
        message = f"{self.call.target.action} did not come back within {self.call.timeout:g} s"
        return Outcome(problem=Failure("timeout", message))


def _nothing() -> None:
    """Do nothing."""


def _ignore(record: CallRecord, outcome: Outcome | None) -> None:
    """Do nothing: there is no waiter."""


def _drop(outcome: Outcome) -> None:
    """Drop the outcome: the call is left to recovery."""
