"""The facts that change an instance (K31). Applying one decides nothing."""

from __future__ import annotations

from narval.core.engines.events import Plain
from narval.core.engines.run_state import RunBegan, RunChange
from narval.kinds.task.engine.state import ScriptFrame


class TaskChange(RunChange, frozen=True):
    """A fact that changes an instance."""


class InstanceBegan(TaskChange, RunBegan, frozen=True):
    """An instance began: for a user in a role, or for a program that has a `handle` and a `lease` (seconds).

    One that has `joined` asks the server for objects; of a compensator `compensates` is the task.
    """

    user: str = ""
    role: str = ""
    handle: str = ""
    program: bool = False
    joined: bool = False
    compensates: str = ""
    lease: float = 0.0


class LeaseRenewed(TaskChange, frozen=True):
    """The lease counts until a moment, under the name of a timer; "" while that is not set."""

    until: float
    wake: str = ""


class LeaseOver(TaskChange, frozen=True):
    """The lease is over: the program is dead, as far as can be known."""


class CallAsked(TaskChange, frozen=True):
    """A call was made that it waits for, and what for; `signal` is who is told what comes of it."""

    call: str
    purpose: str
    signal: str = ""


class CallBack(TaskChange, frozen=True):
    """A call is back."""

    call: str


class CallDropped(TaskChange, frozen=True):
    """A call was given up: what comes back of it counts no more."""

    call: str


class ObjectTaken(TaskChange, frozen=True):
    """An object was taken, of a case; 0 where it works on none. It goes `back` if it comes too late."""

    at: float
    object: int
    case: int = 0
    back: bool = False


class ObjectAdopted(TaskChange, frozen=True):
    """The object that an event brought is that of the instance, which had none (K39)."""

    object: int
    case: int = 0


class StateEntered(TaskChange, frozen=True):
    """A state was entered with an object (K31, K66).

    With `why` no edge led there: something failed (an `error` element tells), or a person forced it.
    """

    at: float
    state: str
    object: int
    terminal: bool = False
    exposed: bool = True
    why: str = ""
    error: int | None = None


class StageReached(TaskChange, frozen=True):
    """The next stage after a terminal state was reached."""

    stage: str


class ScriptBegan(TaskChange, frozen=True):
    """A script began."""

    frame: ScriptFrame


class ScriptAt(TaskChange, frozen=True):
    """The script stands at a position until something is over: a move, or a call."""

    position: tuple[int, ...]
    call: str = ""
    reserved: tuple[int, ...] = ()


class ScriptRested(TaskChange, frozen=True):
    """A call of an action failed: its statement, at a position, is done again when a timer has fired."""

    position: tuple[int, ...]
    wake: str
    until: float
    problem: str


class ScriptEnded(TaskChange, frozen=True):
    """The script came to its end."""


class ScriptsDropped(TaskChange, frozen=True):
    """The scripts under way go no further: a terminal state was entered, or, with `why`, something failed."""

    why: str = ""


class CodeBegan(TaskChange, frozen=True):
    """The code of the task, or the work of a person, was called for; it `reserved` elements."""

    call: str
    reserved: tuple[int, ...] = ()


class CodeOver(TaskChange, frozen=True):
    """The code did its work; what it gave that is not the object is `produced`."""

    at: float
    produced: tuple[int, ...] = ()


class GoalSet(TaskChange, frozen=True):
    """A state was chosen, to walk to."""

    goal: str


class ObjectReplaced(TaskChange, frozen=True):
    """Another version stands for an object from now on; 0: it was given away (K39, K59)."""

    was: int
    object: int


class OutputKept(TaskChange, frozen=True):
    """A script's action gave elements."""

    produced: tuple[int, ...]


class RouteChosen(TaskChange, frozen=True):
    """A script routed the work object, or a part of it, or with `object` what an event brought (K43)."""

    to: str
    object: int = 0
    part: int = 0


class RoutesSent(TaskChange, frozen=True):
    """The routes of a carried object were handed to its case."""

    object: int


class PiecesMade(TaskChange, frozen=True):
    """The object was split, or copied, into these (K8)."""

    eids: tuple[int, ...]


class SignalKept(TaskChange, frozen=True):
    """A signal waits until no script is under way."""

    signal: str
    name: str
    arguments: dict[str, Plain] = {}


class SignalLeft(TaskChange, frozen=True):
    """A signal has its turn, or nobody waits for its answer any more."""

    signal: str


class AskerSet(TaskChange, frozen=True):
    """A signal is answered once no script is under way; "" when it was."""

    signal: str = ""


class ObjectDone(TaskChange, frozen=True):
    """The object is done; the next is taken when it is asked for."""

    at: float


class EndingBegan(TaskChange, frozen=True):
    """The instance ends in a status once what it has under way is back; it may give its object back."""

    at: float
    outcome: str
    why: str = ""
    gives_back: bool = False
    error: int | None = None


class ServerLeft(TaskChange, frozen=True):
    """The server knows that it works no more, and has the object back, as it was when it was taken."""

    object: int = 0


class InstanceOver(TaskChange, frozen=True):
    """The instance is over."""

    at: float
    status: str
    error: int | None = None
