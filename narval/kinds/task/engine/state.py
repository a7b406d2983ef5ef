"""The state of an instance: plain data, altered only by its changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from narval.core.engines.events import Plain
from narval.core.engines.run_state import Moves, RunState

_ENDS = frozenset({"done", "failed", "aborted", "stopped", "cancelled", "dead"})

INSTANCE_MOVES: Moves = {
    "ready": frozenset({"active", "ending", "failed"}),
    "active": _ENDS | {"ending"},
    "ending": _ENDS,
}
"""The moves of an instance; it ends in two steps, as its calls return first."""

GONE = "gone"
"""The purpose of a call that was given up and has not returned yet."""

Stage = Literal["", "busy", "entering", "entered", "routes", "told", "after"]
"""The stages of the work on an object: none; under way; the ASSERT code of a terminal state runs; the
terminal state was entered; the routing script runs; the case was told; the compensators have ended and ON
ABORT runs.
"""

ScriptKind = Literal["leaving", "assert", "action", "routes"]


class ScriptFrame(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A script under way."""

    kind: ScriptKind
    """Its purpose."""
    state: str
    """The state of the task that it belongs to, or whose rule answers the event."""
    to: str = ""
    """The state that a LEAVE leads to."""
    event: str = ""
    """The event that a rule answers."""
    rule: int = 0
    """The number of that rule."""
    parameters: dict[str, str] = {}
    """The parameters of the event."""
    carried: int = 0
    """The object that the event carries."""
    case: int = 0
    """The case of that object."""
    signal: str = ""
    """The signal that is answered when it ends."""
    position: tuple[int, ...] = (0,)
    """The position of the next statement."""
    call: str = ""
    """The call that it waits for."""
    reserved: tuple[int, ...] = ()
    """The elements that the call has reserved."""
    adopted: bool = False
    """True if the instance has adopted the object."""
    tries: int = 0
    """The number of times that the statement failed and was repeated."""
    wake: str = ""
    """The timer of the next attempt."""

    @property
    def waits(self) -> bool:
        """True while it waits for a call, or for the moment of its retry."""
        return bool(self.call or self.wake)


class KeptSignal(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A signal that waits until no script is under way."""

    name: str
    arguments: dict[str, Plain] = {}


class Route(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A type that an object goes `to`: the work object, the `object` that an event brought, or a `part` by
    its number, from 1.
    """

    to: str
    object: int = 0
    part: int = 0


class InstanceState(RunState, omit_defaults=True):
    """An instance of a task."""

    KIND: ClassVar[str] = "instance"
    MOVES: ClassVar[Moves] = INSTANCE_MOVES
    PHASES: ClassVar[Mapping[str, str]] = {
        "done": "done",
        "failed": "failed",
        "dead": "failed",
        "aborted": "cancelled",
        "stopped": "cancelled",
        "cancelled": "cancelled",
    }

    user: str = ""
    """The user for whom it works."""
    role: str = ""
    """The role of that user."""
    handle: str = ""
    """The name that a program has for it."""
    program: bool = False
    """True if it belongs to a program."""
    joined: bool = False
    """True if it asks the server for objects."""
    compensates: str = ""
    """The task that it compensates."""
    lease: float = 0.0
    """The seconds of a program's lease, which each of its calls renews."""
    lease_until: float | None = None
    """The moment at which the lease expires."""
    wake: str = ""
    """The timer of the lease."""
    stage: Stage = ""
    """The stage of the work on the object."""
    state: str = ""
    """The state of the task."""
    entering: str = ""
    """The state whose ASSERT code runs; it counts as entered once the code has ended."""
    exposed: str = ""
    """The last state that others may see."""
    since: float = 0.0
    """The moment at which it entered its state."""
    object: int = 0
    """The present version of the work object; 0 for none."""
    given: int = 0
    """The work object as it was taken."""
    case: int = 0
    """The case of the object."""
    code: Literal["", "called", "done"] = ""
    """The progress of the task's code: not called, called, done."""
    asks: bool = False
    """True while people are asked: they move the instance, and their answer is the state in which it ends."""
    reserved: tuple[int, ...] = ()
    """The elements that the code has reserved."""
    goal: str = ""
    """The state that it walks to."""
    frames: tuple[ScriptFrame, ...] = ()
    """The scripts under way, the innermost last."""
    calls: dict[str, str] = {}
    """The calls under way, each with its purpose."""
    line: dict[str, KeptSignal] = {}
    """The signals that wait for their turn."""
    asker: str = ""
    """The signal that is answered once no script is under way."""
    answered: dict[str, str] = {}
    """The signals that are answered with the result of a call, by call."""
    produced: tuple[int, ...] = ()
    """The elements that its code and its scripts gave, besides the object."""
    routes: tuple[Route, ...] = ()
    """The types that its script sends the object to."""
    pieces: tuple[int, ...] = ()
    """The parts or copies made from the object."""
    why: str = ""
    """The reason for its state."""
    outcome: str = ""
    """The status that it will end in, set when its end begins."""
    gives_back: bool = False
    """True if it gives its object back when it ends."""
    left: bool = False
    """True once the server was told that it has stopped."""
    passed: int = 0
    """The number of objects that it has taken."""

    @property
    def place(self) -> str:
        """The state whose edges scripts follow: the one being entered, else the present one."""
        return self.entering or self.state

    @property
    def is_busy(self) -> bool:
        """True while it works, with or without an object, in a state that is not terminal."""
        return self.stage == "busy"

    def progress(self) -> Iterator[tuple[str, str]]:
        """The state of the task, and the scripts under way."""
        if self.state:
            yield self.state, self.stage
        yield from ((frame.state, frame.kind) for frame in self.frames)

    def forget_results(self) -> None:
        """Forget the results of the work on an object."""
        self.routes, self.pieces, self.produced = (), (), ()
        self.why, self.error = "", None

    def alter_script(self, **values: Any) -> None:
        """Alter the innermost script under way."""
        *below, frame = self.frames
        altered: ScriptFrame = replace(frame, **values)
        self.frames = (*below, altered)
