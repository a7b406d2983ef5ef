"""The facts that change a case (K47, K66). Applying one decides nothing.

An object is named by its *identity*, the eid that it had when it came into the case; `now` is its eid at
the time. So these facts are the log of work objects: `ObjectPut` is where one went, `ObjectLeft` where it had
been, with which instance, and what came of it.
"""

from __future__ import annotations

from narval.core.engines.run_state import RunBegan, RunChange

Routes = tuple[tuple[str, int], ...]
"""The types that objects go to, each with the object as it is now."""

Divisions = tuple[tuple[int, tuple[int, ...]], ...]
"""Objects, each with the parts or copies that were made of it."""


class CaseChange(RunChange, frozen=True):
    """A fact that changes a case."""


class CaseBegan(CaseChange, RunBegan, frozen=True):
    """The case began; `elements` are its objects."""


# --- the way of an object ---------------------------------------------------------------------------------


class ObjectPut(CaseChange, frozen=True):
    """An object went into the queue of a type (K21). If it `composes`, it waits there for others (K20)."""

    at: float
    object: int
    at_type: str
    composes: bool = False


class ObjectMoved(CaseChange, frozen=True):
    """An object went to a type with a raised `event` (K39); or, without one, it is in the queue there."""

    at: float
    object: int
    at_type: str
    event: str = ""


class VersionTold(CaseChange, frozen=True):
    """An object has been replaced by another version where it is."""

    object: int
    now: int


class ObjectLeft(CaseChange, frozen=True):
    """An instance was done with an object: the terminal state is `result` (K28).

    It was given `was`, and leaves `now` and `outputs`. A step that is `kept` can be compensated by
    `compensator`, if there is one.
    """

    at: float
    object: int
    at_type: str
    instance: int
    result: str
    was: int
    now: int
    outputs: tuple[int, ...] = ()
    kept: bool = False
    compensator: str = ""
    why: str = ""


class ObjectDivided(CaseChange, frozen=True):
    """Parts or copies were made of an object, in this order; they go on in its place (K8, KA18)."""

    at: float
    object: int
    parts: tuple[int, ...]


class ObjectMerged(CaseChange, frozen=True):
    """Parts became their object again, `now` (K20), which is with a type."""

    at: float
    object: int
    now: int
    at_type: str
    parts: tuple[int, ...]


class ObjectHeld(CaseChange, frozen=True):
    """An object cannot go on by itself: an incident of a `kind`, with its error element.

    By hand it may go to `at_type`, "" where that is not known.
    """

    at: float
    object: int
    at_type: str
    kind: str
    why: str
    error: int


class ObjectEnded(CaseChange, frozen=True):
    """The way of an object is over: `end` is committed, aborted or withdrawn."""

    at: float
    object: int
    end: str
    why: str = ""


# --- compensation -----------------------------------------------------------------------------------------


class AbortAsked(CaseChange, frozen=True):
    """All is to be undone (K47): an object came to ABORT, and its instance waits for the answer to `signal`;
    or a person cancelled the case, and `object` is 0.
    """

    at: float
    object: int = 0
    signal: str = ""
    why: str = ""
    by: str = ""


class WithdrawalAsked(CaseChange, frozen=True):
    """An object is to be taken out of a queue, or from an instance."""

    at: float
    object: int


class LinkSkipped(CaseChange, frozen=True):
    """A step of the trail has no compensator: that it cannot be undone is said here."""

    at: float
    step: int


class LinkBegan(CaseChange, frozen=True):
    """The compensator of a step was called, with the object `now`."""

    at: float
    step: int
    call: str
    now: int


class LinkDone(CaseChange, frozen=True):
    """A step is compensated."""

    at: float
    step: int


class ChainBlocked(CaseChange, frozen=True):
    """A compensator failed (KA20): the chain stops at this step."""

    at: float
    step: int
    why: str
    error: int


class ChainResumed(CaseChange, frozen=True):
    """The chain goes on at the step that failed, for a person lets it."""

    at: float
    by: str = ""


class ChainGivenUp(CaseChange, frozen=True):
    """A chain that was blocked is given up by a person: what is left of it is not compensated."""

    at: float
    by: str = ""


class ChainEnded(CaseChange, frozen=True):
    """Every step that could be compensated is; who waits for that is told."""

    at: float


class RoutesKept(CaseChange, frozen=True):
    """The ways of an aborted object by its script, and its parts: it goes once all is undone."""

    object: int
    routes: Routes = ()
    divisions: Divisions = ()


class WaiterGone(CaseChange, frozen=True):
    """The instance that waited for the answer to a signal is over."""

    signal: str


class CaseOver(CaseChange, frozen=True):
    """The way of every object is over."""

    at: float
    status: str
    error: int | None = None
