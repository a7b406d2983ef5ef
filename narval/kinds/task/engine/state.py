"""The state of an instance: plain data that its changes alone alter."""

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
"""An instance ends in two steps: what it has under way comes back first."""

GONE = "gone"
"""The purpose of a call that was given up and is not back yet."""

Stage = Literal["", "busy", "entered", "routes", "told", "after"]
"""The stages of the work on an object: there is none; it is under way; a terminal state was entered; the
routing script runs; the case was told; the compensators are through and ON ABORT runs.
"""

ScriptKind = Literal["leaving", "assert", "action", "routes"]


class ScriptFrame(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A script under way: that of a state or, of a rule, of an event; `to` is the state a LEAVE leads to.

    An action knows the `parameters` of its event, the object that is `carried` and that one's `case`, and the
    `signal` to be answered; the instance may have `adopted` the object. `position` is that of the next
    statement. It waits for `call`, if one is under way, which has `reserved` elements; after so many `tries`
    that failed it waits for the timer `wake`.
    """

    kind: ScriptKind
    state: str
    to: str = ""
    event: str = ""
    rule: int = 0
    parameters: dict[str, str] = {}
    carried: int = 0
    case: int = 0
    signal: str = ""
    position: tuple[int, ...] = (0,)
    call: str = ""
    reserved: tuple[int, ...] = ()
    adopted: bool = False
    tries: int = 0
    wake: str = ""

    @property
    def waits(self) -> bool:
        """True while it waits for a call, or for the moment at which one is made again."""
        return bool(self.call or self.wake)


class KeptSignal(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A signal that waits until no script is under way."""

    name: str
    arguments: dict[str, Plain] = {}


class Route(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A type that an object goes `to`: the work object, or one that an event brought; or the `part` of it
    that has this number, from 1.
    """

    to: str
    object: int = 0
    part: int = 0


class InstanceState(RunState, omit_defaults=True):
    """An instance of a task.

    `state` is the task's, since a moment; `exposed` the last one that others may see (K26). `object` is the
    work object now, `given` as it was taken; 0 for none. `goal` is the state it walks to. `calls` are under
    way, each with what it is for. Signals in `line` wait for their turn, `asker` is the one answered when no
    script is under way any more; others are `answered` by what comes of a call. The program's `lease` begins
    anew with all that it asks. It ends in the status `outcome`, once the server knows (`left`).
    """

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
    role: str = ""
    handle: str = ""
    program: bool = False
    joined: bool = False
    compensates: str = ""
    lease: float = 0.0
    lease_until: float | None = None
    wake: str = ""
    stage: Stage = ""
    state: str = ""
    exposed: str = ""
    since: float = 0.0
    object: int = 0
    given: int = 0
    case: int = 0
    code: Literal["", "called", "done"] = ""
    reserved: tuple[int, ...] = ()
    goal: str = ""
    frames: tuple[ScriptFrame, ...] = ()
    calls: dict[str, str] = {}
    line: dict[str, KeptSignal] = {}
    asker: str = ""
    answered: dict[str, str] = {}
    produced: tuple[int, ...] = ()
    routes: tuple[Route, ...] = ()
    pieces: tuple[int, ...] = ()
    why: str = ""
    outcome: str = ""
    gives_back: bool = False
    left: bool = False
    passed: int = 0

    @property
    def is_busy(self) -> bool:
        """True while it is at work on an object, or on none, in a state that is not terminal."""
        return self.stage == "busy"

    def progress(self) -> Iterator[tuple[str, str]]:
        """The state of the task, and the scripts under way."""
        if self.state:
            yield self.state, self.stage
        yield from ((frame.state, frame.kind) for frame in self.frames)

    def forget_results(self) -> None:
        """Forget what came of the work on an object."""
        self.routes, self.pieces, self.produced = (), (), ()
        self.why, self.error = "", None

    def alter_script(self, **values: Any) -> None:
        """Alter the script under way: the uppermost."""
        *below, frame = self.frames
        altered: ScriptFrame = replace(frame, **values)
        self.frames = (*below, altered)
