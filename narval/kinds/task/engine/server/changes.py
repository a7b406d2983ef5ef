"""The facts that change the standing run of a task type (K63). Applying one decides nothing."""

from __future__ import annotations

import msgspec

from narval.core.engines.run_state import RunBegan, RunChange
from narval.kinds.task.engine.server.state import Result
from narval.kinds.task.language.windows import Interval


class ServerChange(RunChange, frozen=True):
    """A fact that changes a standing run."""


class ServerBegan(ServerChange, RunBegan, frozen=True):
    """The type is loaded for the first time."""


class ServerLoaded(ServerChange, frozen=True):
    """A version of the type is loaded; "" when its file is gone."""

    at: float
    version: str = ""


class ServerEnded(ServerChange, frozen=True):
    """The standing run is over, for its type is gone for good, or for a fault of narval's own."""

    at: float
    status: str = "cancelled"
    error: int | None = None


# --- the queue --------------------------------------------------------------------------------------------


class Enqueued(ServerChange, frozen=True):
    """An object is in the queue, at its end or, given back, in `front`; a part waits for the others."""

    at: float
    object: int
    case: int = 0
    parent: int = 0
    ordinal: int = 0
    count: int = 0
    front: bool = False


class TakeParked(ServerChange, frozen=True):
    """An instance waits for an object; it has done with the one before, and is in no state."""

    at: float
    instance: int
    signal: str


class ObjectGiven(ServerChange, frozen=True):
    """An instance that asked was given an object; 0 if it is to end."""

    at: float
    instance: int
    object: int = 0


class ObjectGone(ServerChange, frozen=True):
    """An object that was in the queue is not there any more, nor with anybody here, and why."""

    at: float
    object: int
    why: str = ""


class PartsMerged(ServerChange, frozen=True):
    """The parts of an object were all there: they are one element, the next version of the object (K20)."""

    at: float
    object: int
    parts: tuple[int, ...]
    element: int


class ObjectSent(ServerChange, frozen=True):
    """An object is put back to the type that it came from, by `call`."""

    at: float
    call: str
    object: int
    case: int
    to: str = ""


class SendingOver(ServerChange, frozen=True):
    """That is answered."""

    at: float
    call: str


class WithdrawalBegan(ServerChange, frozen=True):
    """An instance is to give up its object; when `call` is over the signal is answered."""

    at: float
    call: str
    object: int
    signal: str
    why: str = ""


class WithdrawalEnded(ServerChange, frozen=True):
    """That is over."""

    at: float
    call: str


# --- who works --------------------------------------------------------------------------------------------


class InstanceJoined(ServerChange, frozen=True):
    """An instance works that somebody else has begun."""

    at: float
    instance: int
    user: str = ""
    role: str = ""
    program: bool = False


class InstanceAt(ServerChange, frozen=True):
    """An instance is in a state that has rules, or in none; `call` began it, if the server did."""

    at: float
    instance: int
    state: str = ""
    object: int = 0
    case: int = 0
    call: str = ""


class InstanceLeft(ServerChange, frozen=True):
    """An instance works no more."""

    at: float
    instance: int
    why: str = ""


class InstanceCalled(ServerChange, frozen=True):
    """An instance is begun, on an object of the queue, on that of an event, or on none."""

    at: float
    call: str
    object: int = 0
    case: int = 0
    event: int = 0


class CalledOver(ServerChange, frozen=True):
    """An instance that the server has called is over."""

    at: float
    call: str
    problem: str = ""


class TickSet(ServerChange, frozen=True):
    """The next run of a periodic task, or the next base of a global event, is due; None for none."""

    at: float
    due: float | None = None
    missed: bool = False


# --- events -----------------------------------------------------------------------------------------------


class RuleWindows(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A rule that may answer an event, and the windows in which it is judged; None: if somebody is there."""

    state: str
    ordinal: int
    windows: tuple[Interval, ...] | None = None


class EventRaised(ServerChange, frozen=True):
    """An event is raised, and its windows are known: they are never reckoned again. With `own` it is a global
    one that comes by itself.
    """

    at: float
    event: int
    name: str
    base: float
    rules: tuple[RuleWindows, ...]
    parameters: tuple[str, ...] = ()
    sync: bool = False
    object: int = 0
    case: int = 0
    users: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    raiser: int = 0
    raiser_type: str = ""
    signal: str = ""
    by: str = ""
    own: bool = False


class RuleWakes(ServerChange, frozen=True):
    """A rule is looked at again at a moment; None for none."""

    event: int
    rule: int
    at: float | None = None


class WindowOpened(ServerChange, frozen=True):
    """A rule may be judged from now on, until a moment; None: once somebody is there."""

    at: float
    event: int
    rule: int
    until: float | None = None


class ConditionJudged(ServerChange, frozen=True):
    """A condition was judged, for a receiver (0 where there is none); if it held, the action has windows.

    It is `hearsay` if a language model's answer had a say in that.
    """

    at: float
    event: int
    rule: int
    held: bool
    receiver: int = 0
    windows: tuple[Interval, ...] | None = None
    picky: bool = False
    watched: bool = False
    hearsay: bool = False


class ActionDue(ServerChange, frozen=True):
    """The window of an action has begun; its receiver is busy yet, or another rule may keep what the event
    carries.
    """

    at: float
    event: int
    rule: int


class ActionBegan(ServerChange, frozen=True):
    """The receiver is asked to do the action by `call`."""

    at: float
    event: int
    rule: int
    call: str


class RuleBack(ServerChange, frozen=True):
    """The receiver was not in the state when its action was to begin: the condition is judged again (KA6)."""

    at: float
    event: int
    rule: int
    why: str = ""


class RuleOver(ServerChange, frozen=True):
    """A rule of an event is over; with `kept`, its receiver has the object now that the event carried."""

    at: float
    event: int
    rule: int
    result: Result
    why: str = ""
    kept: bool = False


class CarriedTaken(ServerChange, frozen=True):
    """The object that an event carried is taken from it: it went back, or is withdrawn, or is that of the
    `instance` whose action it was brought to.
    """

    at: float
    event: int
    to: str = ""
    instance: int = 0


class EventOver(ServerChange, frozen=True):
    """An event is over, with the gravest result of its rules."""

    at: float
    event: int
    result: Result
    why: str = ""


class RaiserGone(ServerChange, frozen=True):
    """The raiser of a synchronous event waits for its end no more."""

    at: float
    event: int


class WaitParked(ServerChange, frozen=True):
    """An instance waits for an event, or its end, until a moment."""

    at: float
    signal: str
    instance: int
    event: str
    end: bool = False
    until: float | None = None


class WaitOver(ServerChange, frozen=True):
    """That is over: the event came, or the moment, or the instance is gone."""

    at: float
    signal: str
    event: int = 0


class StoredTaken(ServerChange, frozen=True):
    """A stored event was waited for (KA12)."""

    at: float
    name: str
    event: int
    instance: int = 0
