"""The facts that change an instance (K31), each with its effect. Applying one decides nothing."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from narval.core.engines.events import Plain
from narval.core.engines.run_state import RunBegan, RunChange
from narval.kinds.task.engine.state import GONE, InstanceState, KeptSignal, Route, ScriptFrame, Stage


class TaskChange(RunChange, frozen=True):
    """A fact that changes an instance."""


class TaskFact(TaskChange, frozen=True):
    """A fact with its moment."""

    at: float


class InstanceBegan(TaskChange, RunBegan, frozen=True):
    """An instance began: for a user in a role, or for a program that has a `handle` and a `lease` (seconds).

    One that has `joined` asks the server for objects; `compensates` is the task that a compensator undoes.
    """

    user: str = ""
    role: str = ""
    handle: str = ""
    program: bool = False
    joined: bool = False
    compensates: str = ""
    lease: float = 0.0

    def apply(self, state: InstanceState) -> None:
        state.begin(self)
        state.move("active")
        state.user, state.role, state.handle = self.user, self.role, self.handle
        state.program, state.joined, state.compensates = self.program, self.joined, self.compensates
        state.lease = self.lease


class LeaseRenewed(TaskChange, frozen=True):
    """The lease lasts until a moment; `wake` is its new timer, "" if the present one stays."""

    until: float
    wake: str = ""

    def apply(self, state: InstanceState) -> None:
        state.lease_until = self.until
        state.wake = self.wake or state.wake


class LeaseOver(TaskChange, frozen=True):
    """The lease has expired: the program is presumed dead."""

    def apply(self, state: InstanceState) -> None:
        state.wake, state.lease_until = "", None


class CallAsked(TaskChange, frozen=True):
    """A call was made for a `purpose`, and the instance waits for it; its result answers `signal`."""

    call: str
    purpose: str
    signal: str = ""

    def apply(self, state: InstanceState) -> None:
        state.calls[self.call] = self.purpose
        if self.signal:
            state.answered[self.call] = self.signal


class CallBack(TaskChange, frozen=True):
    """A call has returned."""

    call: str

    def apply(self, state: InstanceState) -> None:
        if state.calls.pop(self.call, None) == "code":
            state.reserved, state.asks = (), False
        state.answered.pop(self.call, None)


class CallDropped(TaskChange, frozen=True):
    """A call was given up; its result is no longer needed."""

    call: str

    def apply(self, state: InstanceState) -> None:
        if state.calls[self.call] == "code":
            state.reserved, state.asks = (), False
        state.calls[self.call] = GONE


class ObjectTaken(TaskFact, frozen=True):
    """The instance took an object of a case; 0 if it works on none. One that came too late goes `back`."""

    object: int
    case: int = 0
    back: bool = False

    def apply(self, state: InstanceState) -> None:
        state.object = state.given = self.object
        state.case, state.passed = self.case, state.passed + 1
        state.code = ""
        state.forget_results()
        state.gives_back = state.gives_back or self.back


class ObjectAdopted(TaskChange, frozen=True):
    """The instance, which had no object, adopts the one that an event brought (K39)."""

    object: int
    case: int = 0

    def apply(self, state: InstanceState) -> None:
        state.object = state.given = self.object
        state.case = self.case


class EntryBegan(TaskFact, frozen=True):
    """The ASSERT code of a state begins; the state counts as entered once the code has ended.

    With `why` no edge led there, as in `StateEntered`.
    """

    state: str
    terminal: bool = False
    why: str = ""
    error: int | None = None

    def apply(self, state: InstanceState) -> None:
        state.entering = self.state
        state.stage = "entering" if self.terminal else "busy"
        if self.why:
            state.why, state.routes, state.pieces = self.why, (), ()
        if self.error is not None:
            state.error = self.error


class StateEntered(TaskFact, frozen=True):
    """A state was entered with an object: its ASSERT code, if it has any, has run (K31, K66).

    With `why` no edge led there: something failed (the `error` element says what), or a person forced it.
    """

    state: str
    object: int
    terminal: bool = False
    exposed: bool = True
    why: str = ""
    error: int | None = None

    def apply(self, state: InstanceState) -> None:
        state.state, state.since, state.entering = self.state, self.at, ""
        state.stage = "entered" if self.terminal else "busy"
        if self.exposed:
            state.exposed = self.state
        if self.terminal or self.state == state.goal:
            state.goal = ""
        if self.why:
            state.why, state.routes, state.pieces = self.why, (), ()
        if self.error is not None:
            state.error = self.error


class StageReached(TaskChange, frozen=True):
    """The next stage after a terminal state was reached."""

    stage: str

    def apply(self, state: InstanceState) -> None:
        state.stage = cast("Stage", self.stage)


class ScriptBegan(TaskChange, frozen=True):
    """A script began."""

    frame: ScriptFrame

    def apply(self, state: InstanceState) -> None:
        state.frames = (*state.frames, self.frame)


class ScriptAt(TaskChange, frozen=True):
    """The script waits at a position until a move or a call has ended."""

    position: tuple[int, ...]
    call: str = ""
    reserved: tuple[int, ...] = ()

    def apply(self, state: InstanceState) -> None:
        state.alter_script(position=self.position, call=self.call, reserved=self.reserved, wake="")


class ScriptRested(TaskChange, frozen=True):
    """A call of an action failed; its statement, at a position, is repeated when a timer fires."""

    position: tuple[int, ...]
    wake: str
    until: float
    problem: str

    def apply(self, state: InstanceState) -> None:
        tries = state.frames[-1].tries + 1
        state.alter_script(position=self.position, call="", reserved=(), tries=tries, wake=self.wake)


class ScriptEnded(TaskChange, frozen=True):
    """The script ended."""

    def apply(self, state: InstanceState) -> None:
        state.frames = state.frames[:-1]


class ScriptsDropped(TaskChange, frozen=True):
    """The scripts under way stop: a terminal state was entered, or, with `why`, something failed."""

    why: str = ""

    def apply(self, state: InstanceState) -> None:
        state.frames = ()
        if self.why:
            state.why, state.routes = self.why, ()


class CodeBegan(TaskChange, frozen=True):
    """The code of the task was called, with `reserved` elements; or work, which `asks` people."""

    call: str
    reserved: tuple[int, ...] = ()
    asks: bool = False

    def apply(self, state: InstanceState) -> None:
        state.code, state.reserved, state.asks = "called", self.reserved, self.asks
        state.calls[self.call] = "code"


class CodeOver(TaskFact, frozen=True):
    """The code has finished; `produced` are the elements that it gave besides the object."""

    produced: tuple[int, ...] = ()

    def apply(self, state: InstanceState) -> None:
        state.code, state.reserved = "done", ()
        state.produced += self.produced


class GoalSet(TaskChange, frozen=True):
    """A state was chosen as the one to walk to."""

    goal: str

    def apply(self, state: InstanceState) -> None:
        state.goal = self.goal


class ObjectReplaced(TaskChange, frozen=True):
    """An object was replaced by another version, given away (`object` 0), or taken back (`was` 0;
    K39, K59).
    """

    was: int
    object: int

    def apply(self, state: InstanceState) -> None:
        if state.object == self.was:
            state.object = self.object
        state.frames = tuple(
            replace(frame, carried=self.object) if self.was and frame.carried == self.was else frame
            for frame in state.frames
        )


class OutputKept(TaskChange, frozen=True):
    """A script's action gave elements."""

    produced: tuple[int, ...]

    def apply(self, state: InstanceState) -> None:
        state.produced += self.produced


class RouteChosen(TaskChange, frozen=True):
    """A script routed the work object or a part of it, or, with `object`, what an event brought (K43)."""

    to: str
    object: int = 0
    part: int = 0

    def apply(self, state: InstanceState) -> None:
        route = Route(self.to, self.object, self.part)
        if route not in state.routes:
            state.routes = (*state.routes, route)


class RoutesSent(TaskChange, frozen=True):
    """The routes of a carried object were handed to its case."""

    object: int

    def apply(self, state: InstanceState) -> None:
        state.routes = tuple(route for route in state.routes if route.object != self.object)


class PiecesMade(TaskChange, frozen=True):
    """The object was split or copied into these elements (K8)."""

    eids: tuple[int, ...]

    def apply(self, state: InstanceState) -> None:
        state.pieces += self.eids


class SignalKept(TaskChange, frozen=True):
    """A signal waits until no script is under way."""

    signal: str
    name: str
    arguments: dict[str, Plain] = {}

    def apply(self, state: InstanceState) -> None:
        state.line[self.signal] = KeptSignal(self.name, self.arguments)


class SignalLeft(TaskChange, frozen=True):
    """A signal has its turn, or its answer is no longer awaited."""

    signal: str

    def apply(self, state: InstanceState) -> None:
        state.line.pop(self.signal, None)
        if state.asker == self.signal:
            state.asker = ""
        state.answered = {call: signal for call, signal in state.answered.items() if signal != self.signal}


class AskerSet(TaskChange, frozen=True):
    """A signal must be answered once no script is under way; "" after the answer."""

    signal: str = ""

    def apply(self, state: InstanceState) -> None:
        state.asker = self.signal


class ObjectDone(TaskFact, frozen=True):
    """The object is done; the next is taken when it is asked for."""

    def apply(self, state: InstanceState) -> None:
        state.stage, state.state, state.exposed, state.since = "", "", "", self.at
        state.object = state.given = state.case = 0
        state.code = ""
        state.forget_results()


class EndingBegan(TaskFact, frozen=True):
    """The instance ends in a status once its calls have returned; it may give its object back."""

    outcome: str
    why: str = ""
    gives_back: bool = False
    error: int | None = None

    def apply(self, state: InstanceState) -> None:
        state.move("ending")
        state.outcome, state.gives_back = self.outcome, self.gives_back
        state.why = self.why or state.why
        state.frames, state.goal, state.entering = (), "", ""
        if self.error is not None:
            state.error = self.error


class ServerLeft(TaskChange, frozen=True):
    """The server was told that the instance has stopped, and has the object back as it was when taken."""

    object: int = 0

    def apply(self, state: InstanceState) -> None:
        state.left, state.object = True, self.object or state.object


class InstanceOver(TaskFact, frozen=True):
    """The instance has ended."""

    status: str
    error: int | None = None

    def apply(self, state: InstanceState) -> None:
        state.frames, state.calls, state.line = (), {}, {}
        state.move(self.status, self.at, self.error)
