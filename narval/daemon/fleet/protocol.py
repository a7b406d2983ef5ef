"""The protocol of leases: the moves of a daemon of a fleet, their order, and when it must do nothing (G46 to
G49).

    Due        -> Renew
    Prolonged  -> Take, or FindAtRest, or nothing
    Kept       -> nothing: the program beside the daemon has renewed for it
    Took       -> TakeOver, and Take if there is more
    AtRest     -> LetGo, then Give
    Drain      -> FindAtRest with each renewal
    Gone       -> StartOver: another daemon may have everything that it held

It is pure, like an engine, so that all states of two daemons can be explored (G98). Moments are seconds of
the daemon's monotonic clock; the store decides by its own clock whose lease has ended.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from narval.store.postgresql.leases import ALIVE, DOUBTED, GIVEN_UP, LEASE, PORTION, WEIGHT

OVER_SHARE = 0.1
"""The surplus that a daemon may have, as a part of its share, before it gives any agents back."""

GIVEN_AT_ONCE = 0.05
"""The part of its agents that a daemon gives away with one renewal."""

BUSY_AT_ONCE = 0.01
"""The part of its agents given at once that may be busy; the new daemon restores these."""


class Membership(NamedTuple):
    """The part that a daemon has in its fleet.

    `renewed` is when the last answered renewal was sent. `present` is since when answers have come without a
    gap as long as a lease. `unclaimed` is since when there are agents that it leaves to others, if any.
    `wanted` is the number of agents that it still wants to take. It is `giving` from when it has a tenth more
    than its share until it has its share.
    """

    renewed: float
    present: float
    unclaimed: float | None = None
    wanted: int = 0
    draining: bool = False
    over: bool = False
    giving: bool = False


class Other(NamedTuple):
    """Another daemon that does not drain: its number, the number of its agents, and its weight."""

    daemon: int
    agents: int
    weight: int = WEIGHT


def joined(sent: float) -> Membership:
    """The part of a daemon whose request to join was sent at a moment, and answered."""
    return Membership(sent, sent)


def may_work(member: Membership, at: float) -> bool:
    """True if the daemon may begin turns, and perform recorded ones, at a moment (G48)."""
    return not member.over and at - member.renewed < DOUBTED


def calls_until(member: Membership) -> float:
    """The moment at which calls of its agents are ended, above all in workers and programs (G48)."""
    return member.renewed + GIVEN_UP


def renews(alive: float, at: float) -> bool:
    """True if the program beside a daemon should renew for it; `alive` is the daemon's last sign of life."""
    return at - alive < ALIVE


# --- events -------------------------------------------------------------------------------------------


class Due(msgspec.Struct, frozen=True):
    """The time to renew has come."""

    at: float


class Prolonged(msgspec.Struct, frozen=True):
    """A renewal was answered."""

    at: float
    """The moment of the answer."""
    sent: float
    """The moment at which it was sent."""
    agents: int
    """The number of agents that the daemon has."""
    all: int
    """The number of agents that all daemons have, or may take."""
    free: int
    """The number of agents that it may take."""
    others: tuple[Other, ...] = ()
    """The other daemons that do not drain."""
    weight: int = WEIGHT
    """The weight of this daemon."""
    unknown: int = 0
    """The number of agents among the free ones that it holds without knowing."""
    room: int = PORTION
    """The number of agents that it can restore soon."""


class Kept(msgspec.Struct, frozen=True):
    """A renewal that the program beside the daemon sent at a moment was answered."""

    sent: float


class Gone(msgspec.Struct, frozen=True):
    """The daemon's row is gone because its lease has ended, or its home's own agent is another's."""


class Took(msgspec.Struct, frozen=True):
    """Agents were taken: as many as requested unless `short`. There is `room` for that many more."""

    at: float
    agents: tuple[int, ...]
    short: bool
    room: int = PORTION


class AtRest(msgspec.Struct, frozen=True):
    """Agents found at rest, to be given to a daemon, or to any (0). They have nothing to do, or are between
    two turns, and nothing is performed for them.
    """

    agents: tuple[int, ...]
    to: int = 0


class Drain(msgspec.Struct, frozen=True):
    """All agents must be given away."""


Event: TypeAlias = Due | Prolonged | Kept | Gone | Took | AtRest | Drain

# --- commands -----------------------------------------------------------------------------------------


class Renew(msgspec.Struct, frozen=True):
    """Renew, and report when the renewal was sent."""

    draining: bool


class Take(msgspec.Struct, frozen=True):
    """Take at most `most` agents; with `of_others`, from daemons whose lease has ended."""

    most: int
    of_others: bool


class TakeOver(msgspec.Struct, frozen=True):
    """Continue the agents that were taken."""

    agents: tuple[int, ...]


class FindAtRest(msgspec.Struct, frozen=True):
    """Find at most `most` agents that a daemon, or any (0), may have. At most `busy` of them may be busy;
    those are first brought to the end of a turn.
    """

    most: int
    busy: int = 0
    to: int = 0


class LetGo(msgspec.Struct, frozen=True):
    """Remove agents from work: nothing is decided or performed for them from now on."""

    agents: tuple[int, ...]


class Give(msgspec.Struct, frozen=True):
    """Give agents to a daemon, or back (0), for any daemon to take at once."""

    agents: tuple[int, ...]
    to: int = 0


class StartOver(msgspec.Struct, frozen=True):
    """Drop everything, as if killed, and join again."""


Command: TypeAlias = Renew | Take | TakeOver | FindAtRest | LetGo | Give | StartOver


def advance(member: Membership, event: Event) -> tuple[Membership, tuple[Command, ...]]:
    """Decide what to do after an event. A request without an answer counts as not made: it is repeated with
    the next renewal, which reports what was taken nevertheless.
    """
    if member.over:
        return member, ()
    match event:
        case Due():
            return member, (Renew(member.draining),)
        case Prolonged():
            return _renewed(member, event)
        case Kept():
            return _kept(member, event.sent), ()
        case Took():
            return _took(member, event)
        case AtRest():
            return member, (LetGo(event.agents), Give(event.agents, event.to)) if event.agents else ()
        case Drain():
            return member._replace(draining=True, wanted=0, giving=False), ()
        case Gone():
            return member._replace(over=True), (StartOver(),)


def _renewed(member: Membership, event: Prolonged) -> tuple[Membership, tuple[Command, ...]]:
    member = _kept(member, event.sent)
    unclaimed = None if not event.free else event.at if member.unclaimed is None else member.unclaimed
    member = member._replace(unclaimed=unclaimed, wanted=0)
    if member.draining:
        busy = _part(GIVEN_AT_ONCE, event.agents) if event.others else 0
        return member, (FindAtRest(PORTION, busy),)
    over = event.agents - share_of(event, event.weight)
    if event.free:
        nobody_takes_them = unclaimed is not None and event.at - unclaimed >= LEASE
        wanted = event.free if nobody_takes_them else max(event.unknown, min(event.free, -over))
        if wanted > 0:
            return _take(member._replace(wanted=wanted), event.at, event.room)
        return member, ()
    is_far_over = over > max(1, OVER_SHARE * (event.agents - over))
    member = member._replace(giving=over > 0 and (member.giving or is_far_over))
    return member, _give(event, over) if member.giving else ()


def share_of(event: Prolonged, weight: int) -> int:
    """The number of agents that a daemon of that weight should have."""
    weights = event.weight + sum(other.weight for other in event.others)
    return -(-event.all * weight // weights)


def _give(event: Prolonged, over: int) -> tuple[Command, ...]:
    """Give some of the surplus to the daemon that lacks most."""
    lacking = [(share_of(event, other.weight) - other.agents, other.daemon) for other in event.others]
    lack, to = max(lacking, default=(0, 0))
    if lack <= 0:
        return ()
    most = min(over, lack, _part(GIVEN_AT_ONCE, event.agents))
    return (FindAtRest(most, min(most, _part(BUSY_AT_ONCE, event.agents)), to),)


def _part(of: float, agents: int) -> int:
    return max(1, int(of * agents))


def _kept(member: Membership, sent: float) -> Membership:
    was_cut_off = sent - member.renewed >= LEASE
    present = sent if was_cut_off else member.present
    return member._replace(renewed=max(member.renewed, sent), present=present)


def _took(member: Membership, event: Took) -> tuple[Membership, tuple[Command, ...]]:
    wanted = 0 if event.short or member.draining else max(0, member.wanted - len(event.agents))
    member, more = _take(member._replace(wanted=wanted), event.at, event.room)
    return member, (TakeOver(event.agents), *more) if event.agents else more


def _take(member: Membership, at: float, room: int) -> tuple[Membership, tuple[Command, ...]]:
    if member.wanted <= 0 or room <= 0:
        return member, ()
    return member, (Take(min(member.wanted, room, PORTION), at - member.present >= LEASE),)
