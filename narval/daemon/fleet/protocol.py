"""Protocol of leases: the moves of a daemon of a fleet, their order, and when it may do nothing (G46 to G49).

    Due        -> Renew
    Prolonged  -> Take, or FindAtRest, or nothing
    Kept       -> nothing: the program beside the daemon has renewed for it
    Took       -> TakeOver, and Take where there is more
    AtRest     -> LetGo, then Give
    Drain      -> FindAtRest with each renewal
    Gone       -> StartOver: another daemon may have all that it held

It is pure, as an engine is, so that all states of two daemons can be explored (G98). Moments are seconds of
the daemon's own monotonic clock; the store tells by its own clock whose lease has ended.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from narval.store.postgresql.leases import ALIVE, DOUBTED, GIVEN_UP, LEASE, PORTION, WEIGHT

OVER_SHARE = 0.1
"""The part of its share that a daemon may have beyond it before it gives any back."""

GIVEN_AT_ONCE = 0.05
"""The part of its agents that a daemon gives away with one renewal."""

BUSY_AT_ONCE = 0.01
"""The part of its agents given at once that may be busy ones, which the new daemon restores (G54)."""


class Membership(NamedTuple):
    """The part that a daemon has in its fleet.

    `renewed` is when the last answered renewal was sent. `present` is since when answers have come without a
    gap as long as a lease. `unclaimed` is since when there are agents that it leaves to others, if any.
    `wanted` is the number that it still wants to take. It is `giving` from when it has a tenth more than its
    share until it has its share.
    """

    renewed: float
    present: float
    unclaimed: float | None = None
    wanted: int = 0
    draining: bool = False
    over: bool = False
    giving: bool = False


class Other(NamedTuple):
    """Another daemon that does not drain: its number, the agents it has, and its weight."""

    daemon: int
    agents: int
    weight: int = WEIGHT


def joined(sent: float) -> Membership:
    """The part of a daemon whose request to join was sent at a moment, and answered."""
    return Membership(sent, sent)


def may_work(member: Membership, at: float) -> bool:
    """True if the daemon may begin turns, and perform what is recorded, as of a moment (G48)."""
    return not member.over and at - member.renewed < DOUBTED


def calls_until(member: Membership) -> float:
    """The moment at which calls of its agents are ended, above all in workers and programs (G48)."""
    return member.renewed + GIVEN_UP


def renews(alive: float, at: float) -> bool:
    """True if the program beside a daemon renews for it; the daemon's last sign of life was at `alive`."""
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
    """The agents that the daemon has."""
    all: int
    """The agents that it and the others have, or may take."""
    free: int
    """The agents that it may take."""
    others: tuple[Other, ...] = ()
    """The other daemons that do not drain."""
    weight: int = WEIGHT
    """The weight of this one."""
    unknown: int = 0
    """The agents among those it may take that it holds without knowing."""
    room: int = PORTION
    """The number of agents that it can restore soon."""


class Kept(msgspec.Struct, frozen=True):
    """A renewal that the program beside the daemon sent at a moment was answered."""

    sent: float


class Gone(msgspec.Struct, frozen=True):
    """The daemon's row is gone, for its lease has ended; or its home's own agent is another's."""


class Took(msgspec.Struct, frozen=True):
    """Agents were taken: all that were asked for unless `short`; there is `room` for that many more."""

    at: float
    agents: tuple[int, ...]
    short: bool
    room: int = PORTION


class AtRest(msgspec.Struct, frozen=True):
    """Agents found at rest, to be given to a daemon, or to any (0): they have nothing to do, or are between
    two turns, and nothing is performed for them.
    """

    agents: tuple[int, ...]
    to: int = 0


class Drain(msgspec.Struct, frozen=True):
    """All agents are to be given away."""


Event: TypeAlias = Due | Prolonged | Kept | Gone | Took | AtRest | Drain

# --- commands -----------------------------------------------------------------------------------------


class Renew(msgspec.Struct, frozen=True):
    """Renew, and tell when the renewal was sent."""

    draining: bool


class Take(msgspec.Struct, frozen=True):
    """Take agents, at most `most`; with `of_others` from daemons whose lease has ended."""

    most: int
    of_others: bool


class TakeOver(msgspec.Struct, frozen=True):
    """Continue agents that were taken."""

    agents: tuple[int, ...]


class FindAtRest(msgspec.Struct, frozen=True):
    """Find agents that a daemon may have, or any (0), at most `most`; among them at most `busy` busy ones,
    which are brought to the end of a turn first.
    """

    most: int
    busy: int = 0
    to: int = 0


class LetGo(msgspec.Struct, frozen=True):
    """Take agents out of work: nothing of them is decided or performed from now on."""

    agents: tuple[int, ...]


class Give(msgspec.Struct, frozen=True):
    """Give agents to a daemon, or back (0), for any to take at once."""

    agents: tuple[int, ...]
    to: int = 0


class StartOver(msgspec.Struct, frozen=True):
    """Drop everything, as if killed, and join again."""


Command: TypeAlias = Renew | Take | TakeOver | FindAtRest | LetGo | Give | StartOver


def advance(member: Membership, event: Event) -> tuple[Membership, tuple[Command, ...]]:
    """Decide what to do after an event. A request that was not answered counts as not made: it is made again
    with the next renewal, which reports what was taken all the same.
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
    """The number of all agents that a daemon of that weight is to have."""
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
