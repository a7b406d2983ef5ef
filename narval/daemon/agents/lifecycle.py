"""Lifecycle of an agent in a daemon: when it is restored, dropped and retried (G5, G6, G18).

                 passive       restoring      active         passivating
    Started      restoring
    Asked        restoring
    Needed       Wait          noted                         noted
    Due          restoring     noted          Passivate      Wait
    Restored                   Begin
    Joined                     active
    Quiet                                     passivating
    Passivated                                               passive
    Failed                     passive        passive        passive
    Suspended    passive       passive        passive        passive
    Resumed      passive       passive        passive        passive
    Lost         elsewhere     elsewhere      elsewhere      elsewhere
    ClockSet     .             .              .              .

A lowercase word is the next phase; a capitalized word is a command without a change of phase. Pairs not in
the table do nothing. `Failed` leads to a wait, or, if the agent failed often, to its suspension. Only `Asked`
restores a suspended agent, which then records requests and does nothing else.

The module is pure, and a test explores it. The supervisor (`supervisor.py`) performs its commands. Moments
are seconds since 1970.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

Cause: TypeAlias = Literal["fault", "away", "not here"]

Told: TypeAlias = tuple[int, str]
"""Something delivered to an agent (`narval/agent/waiting.py`)."""

PASSIVE, RESTORING, ACTIVE, PASSIVATING = "passive", "restoring", "active", "passivating"
"""The phases: only in the store, being restored to memory, in memory, and about to be only in the store."""

ELSEWHERE = "elsewhere"
"""The phase in which a life ends: the agent is another daemon's, or was removed."""

SUSPENDED = "suspended"
"""The state of an agent that does nothing until it is resumed, whatever its phase."""

LEAST_IDLE = 1.0
"""The least number of seconds between two checks whether an active agent has become idle."""

AWAY_AGAIN = 1.0
"""Seconds until an agent is restored again after the store was unavailable."""

MOST, WITHIN = 5, 600.0
"""An agent with `MOST` failures within `WITHIN` seconds is suspended."""

OFTEN = f"it broke down {MOST} times in {WITHIN / 60:.0f} minutes"
"""The reason given for such a suspension."""

FIRST, LONGEST = 1.0, 300.0
"""Seconds until an agent that failed is restored again: doubled each time, up to the second number."""

TWICE = 2
"""An event that was being delivered during this many failures of an agent is not delivered again."""


class Life(NamedTuple):
    """The life of an agent, as its daemon knows it; most passive ones have `Life()`, which is not stored."""

    phase: str = PASSIVE
    is_suspended: bool = False
    is_start: bool = False
    """True until it has done what agents do at a daemon's start."""
    is_needed: bool = False
    """True if something wants the agent active besides waiting askers, who are told about failures."""
    failures: tuple[float, ...] = ()
    """The moments of its recent failures."""
    suspected: tuple[Told, ...] = ()
    """Everything that was being delivered during any of them."""
    retry_at: float | None = None
    """The moment of the retry after the last of them."""


def state_of(life: Life) -> str:
    """The state of an agent, in the words shown to people."""
    if life.is_suspended:
        return SUSPENDED
    return {RESTORING: PASSIVE, PASSIVATING: ACTIVE}.get(life.phase, life.phase)


def backoff(life: Life, at: float) -> float | None:
    """The seconds until a failed agent is retried; None if it need not wait."""
    return life.retry_at - at if life.retry_at is not None and life.retry_at > at else None


# --- events -------------------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True):
    """The agent is this daemon's from now on; `wake_at` is the next moment that it waits for. With `in_turn`
    it becomes `Needed` when its turn to be restored comes.
    """

    at: float
    was_active: bool
    wake_at: float | None = None
    in_turn: bool = False


class Asked(msgspec.Struct, frozen=True):
    """An operation wants to use the agent, and waits for it."""

    at: float


class Needed(msgspec.Struct, frozen=True):
    """Something has arrived for the agent: a message, the outcome of a call, or changed files.

    It is restored `at_once`, or in the next round, because the part that needs it may be in the middle of
    other work.
    """

    at: float
    at_once: bool = False


class Due(msgspec.Struct, frozen=True):
    """The moment of the last `Wait` has come; an active agent was last `used` then, or is `in_use`."""

    at: float
    used: float = 0.0
    idle_after: float = 0.0
    in_use: bool = False


class Restored(msgspec.Struct, frozen=True):
    """Everything that the store has of the agent is in memory."""

    at: float


class Joined(msgspec.Struct, frozen=True):
    """The agent takes part in rounds."""

    at: float
    idle_after: float


class Quiet(msgspec.Struct, frozen=True):
    """A turn of the agent has found nothing left to do, and has written that it is passive. If that is not
    recorded, the agent has `Failed` or is `Lost`.
    """


class Passivated(msgspec.Struct, frozen=True):
    """That turn is recorded. `has_reports`: a call had an outcome in the meantime."""

    at: float
    wake_at: float | None = None
    has_reports: bool = False


class Failed(msgspec.Struct, frozen=True):
    """The agent could not be restored, or a turn of it broke down while `suspected` were being delivered.

    The causes `away` (of the store) and `not here` (of the files that it follows) are not faults of the
    agent.
    """

    at: float
    cause: Cause = "fault"
    suspected: tuple[Told, ...] = ()


class Suspended(msgspec.Struct, frozen=True):
    """The agent must do nothing until it is resumed."""


class Resumed(msgspec.Struct, frozen=True):
    """The agent may continue. It is `Needed` as soon as that is recorded."""


class Lost(msgspec.Struct, frozen=True):
    """The agent is another daemon's, or was removed."""


class ClockSet(msgspec.Struct, frozen=True):
    """The clock was set by `seconds` seconds."""

    at: float
    by: float


Event: TypeAlias = (
    Started | Asked | Needed | Due | Restored | Joined | Quiet | Passivated | Failed
    | Suspended | Resumed | Lost | ClockSet
)  # fmt: skip

# --- commands -----------------------------------------------------------------------------------------


class Restore(msgspec.Struct, frozen=True):
    """Restore the agent from the store; answer `Restored`, or `Failed`."""


class Begin(msgspec.Struct, frozen=True):
    """Let the restored agent take part in rounds; answer `Joined`, or `Failed`.

    If it failed recently, it gets one event a turn, so that a faulty event is identified, and none of
    `suspected`.
    """

    is_start: bool
    is_careful: bool
    suspected: frozenset[Told]


class Passivate(msgspec.Struct, frozen=True):
    """Have a turn of the agent write that it is passive, unless it has work; then answer `Quiet`."""


class Drop(msgspec.Struct, frozen=True):
    """Drop the agent from memory, as if killed; those who wait for it are told `why`. Its calls continue."""

    why: str


class EndCalls(msgspec.Struct, frozen=True):
    """Give up all calls of the agent."""


class Wait(msgspec.Struct, frozen=True):
    """Send `Due` at a moment, instead of at the previous one; None: never."""

    at: float | None


class Refuse(msgspec.Struct, frozen=True):
    """Refuse the askers: the agent is retried in `seconds` seconds."""

    seconds: float


class Report(msgspec.Struct, frozen=True):
    """Report that the agent failed, and is retried in `seconds` seconds."""

    seconds: float


class Suspend(msgspec.Struct, frozen=True):
    """Record that the agent is suspended, and report it."""

    why: str


Command: TypeAlias = Restore | Begin | Passivate | Drop | EndCalls | Wait | Refuse | Report | Suspend

Next: TypeAlias = tuple[Life, tuple[Command, ...]]
Move: TypeAlias = Callable[[Life, Any], Next]

# --- moves --------------------------------------------------------------------------------------------

BROKE_DOWN, GONE, IDLE = "broke down", "is no longer active here", "has become passive"
"""The reasons for dropping an agent, to follow its name in a sentence."""


def advance(life: Life, event: Event) -> Next:
    """Decide what to do after an event."""
    move = LIFE_MOVES[type(event)].get(life.phase)
    return move(life, event) if move is not None else (life, ())


def _start(life: Life, event: Started) -> Next:
    if life.is_suspended:
        return life, ()
    if event.was_active or (event.wake_at is not None and event.wake_at <= event.at):
        life = life._replace(is_start=True)
        return (life, ()) if event.in_turn else _restore(life, event)
    return life, () if event.wake_at is None else (Wait(event.wake_at),)


def _ask(life: Life, event: Asked) -> Next:
    if not life.is_suspended and (seconds := backoff(life, event.at)) is not None:
        return life, (Refuse(seconds),)
    return life._replace(phase=RESTORING), (Restore(),)


def _wake(life: Life, event: Needed) -> Next:
    if life.is_suspended:
        return life, ()
    if backoff(life, event.at) is not None:
        return life, (Wait(life.retry_at),)
    return _restore(life, event) if event.at_once else (life, (Wait(event.at),))


def _restore(life: Life, event: Started | Needed | Due) -> Next:
    if life.is_suspended:
        return life, ()
    return life._replace(phase=RESTORING, is_needed=True), (Restore(),)


def _note_need(life: Life, event: Event) -> Next:
    return life._replace(is_needed=True), ()


def _begin(life: Life, event: Restored) -> Next:
    is_careful = bool(life.failures) and life.failures[-1] > event.at - WITHIN
    often = Counter(life.suspected if is_careful else ())
    suspected = frozenset(file for file, times in often.items() if times >= TWICE)
    return life, (Begin(life.is_start, is_careful, suspected),)


def _join(life: Life, event: Joined) -> Next:
    return life._replace(phase=ACTIVE, is_start=False, is_needed=False, retry_at=None), (
        Wait(event.at + event.idle_after),
    )


def _look(life: Life, event: Due) -> Next:
    """Passivate an agent that was idle for long enough; check again later in any case."""
    if event.used + event.idle_after > event.at:
        return life, (Wait(event.used + event.idle_after),)
    later = Wait(event.at + max(event.idle_after, LEAST_IDLE))
    return life, (later,) if event.in_use else (later, Passivate())


def _look_later(life: Life, event: Due) -> Next:
    return life, (Wait(event.at + max(event.idle_after, LEAST_IDLE)),)


def _rest(life: Life, event: Quiet) -> Next:
    return life._replace(phase=PASSIVATING), ()


def _become_passive(life: Life, event: Passivated) -> Next:
    at = event.at if life.is_needed or event.has_reports else event.wake_at
    if life.is_suspended:
        at = None
    return life._replace(phase=PASSIVE, is_needed=False), (Drop(IDLE), Wait(at))


def _fail(life: Life, event: Failed) -> Next:
    is_needed = life.is_needed or life.phase != RESTORING
    after = life._replace(phase=PASSIVE, is_needed=False)
    if life.is_suspended:
        return after, (Drop(BROKE_DOWN), Wait(None))
    if not is_needed or event.cause == "not here":
        return after, (Drop(BROKE_DOWN),)  # askers are told, and new files need it again
    if event.cause == "away":
        return after, (Drop(BROKE_DOWN), Wait(event.at + AWAY_AGAIN))
    recent = tuple(at for at in life.failures if at > event.at - WITHIN)
    failures = (*recent, event.at)
    if len(failures) >= MOST:
        return Life(is_suspended=True), (Drop(BROKE_DOWN), Wait(None), Suspend(OFTEN), EndCalls())
    seconds = min(LONGEST, FIRST * 2.0 ** len(recent))
    suspected = (*(life.suspected if recent else ()), *event.suspected)
    after = after._replace(failures=failures, suspected=suspected, retry_at=event.at + seconds)
    return after, (Drop(BROKE_DOWN), Report(seconds), Wait(event.at + seconds))


def _suspend(life: Life, event: Suspended) -> Next:
    return Life(is_suspended=True), (*_dropped(life), Wait(None), EndCalls())


def _resume(life: Life, event: Resumed) -> Next:
    return Life(), (*_dropped(life), Wait(None))


def _lose(life: Life, event: Lost) -> Next:
    return Life(ELSEWHERE), (*_dropped(life), Wait(None), EndCalls())


def _dropped(life: Life) -> tuple[Command, ...]:
    return (Drop(GONE),) if life.phase != PASSIVE else ()


def _adjust(life: Life, event: ClockSet) -> Next:
    """Keep a failed agent waiting for as long as before."""
    life = life._replace(failures=tuple(at + event.by for at in life.failures))
    if life.retry_at is None:
        return life, ()
    life = life._replace(retry_at=life.retry_at + event.by)
    is_waiting = life.phase == PASSIVE and backoff(life, event.at) is not None
    return life, (Wait(life.retry_at),) if is_waiting else ()


def _always(move: Move) -> dict[str, Move]:
    return dict.fromkeys((PASSIVE, RESTORING, ACTIVE, PASSIVATING), move)


LIFE_MOVES: dict[type[Event], dict[str, Move]] = {
    Started: {PASSIVE: _start},
    Asked: {PASSIVE: _ask},
    Needed: {PASSIVE: _wake, RESTORING: _note_need, PASSIVATING: _note_need},
    Due: {PASSIVE: _restore, RESTORING: _note_need, ACTIVE: _look, PASSIVATING: _look_later},
    Restored: {RESTORING: _begin},
    Joined: {RESTORING: _join},
    Quiet: {ACTIVE: _rest},
    Passivated: {PASSIVATING: _become_passive},
    Failed: {RESTORING: _fail, ACTIVE: _fail, PASSIVATING: _fail},
    Suspended: _always(_suspend),
    Resumed: _always(_resume),
    Lost: _always(_lose),
    ClockSet: _always(_adjust),
}
"""The moves by event and phase; a missing pair does nothing."""
