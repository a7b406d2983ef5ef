"""The protocol of leases, explored: two daemons, two agents, and all that can happen to them (G98)."""

from __future__ import annotations

import re

import msgspec
import pytest

from narval.daemon.fleet import protocol
from narval.daemon.fleet.protocol import Command, Event, Membership
from narval.store.postgresql.leases import LEASE, PORTION
from tests.daemon.fleet.exploring import explored
from tests.daemon.fleet.model import APART, Rules, World, beginning, nobody, with_renewers

DEPTH = 14


@pytest.mark.parametrize(
    ("world", "clocks", "troubles"),
    [
        (beginning(), (1.0, 1.0), 2),
        pytest.param(beginning(), (1.0, 1.0), 3, marks=pytest.mark.soak),
        (beginning(), (1.0 - APART, 1.0 + APART), 2),
        (with_renewers(), (1.0, 1.0), 2),
        (with_renewers(), (1.0 - APART, 1.0 + APART), 2),
        (nobody(), (1.0, 1.0), 1),
        (nobody(), (1.0 + APART, 1.0 - APART), 1),
    ],
    ids=[
        "at work",
        "at work, three troubles",
        "clocks apart",
        "renewed beside",
        "renewed beside, clocks apart",
        "starting",
        "starting, clocks apart",
    ],
)
def test_G98_never_two_that_may_record_and_never_an_agent_that_nobody_can_take(
    world: World, clocks: tuple[float, float], troubles: int
) -> None:
    count, fault = explored(Rules(clocks=clocks), world, DEPTH, troubles)
    assert not fault, fault
    assert count > 500


@pytest.mark.parametrize("clocks", [(1.0, 1.0), (1.0 - APART, 1.0 + APART)], ids=["alike", "apart"])
def test_G55_an_agent_that_is_moved_is_never_at_two_daemons_and_never_at_none(
    clocks: tuple[float, float],
) -> None:
    count, fault = explored(Rules(clocks=clocks, moves=True), beginning(), DEPTH, 2)
    assert not fault, fault
    assert count > 500


def works_for(seconds: float) -> Rules:
    return Rules(may_work=lambda member, at: not member.over and at - member.renewed < seconds)


def calls_for(seconds: float) -> Rules:
    return Rules(calls_until=lambda member: member.renewed + seconds)


def counting_from_the_answer(member: Membership, event: Event) -> tuple[Membership, tuple[Command, ...]]:
    if isinstance(event, protocol.Prolonged):
        event = msgspec.structs.replace(event, sent=event.at)
    return protocol.advance(member, event)


def counting_from_hearing(member: Membership, event: Event) -> tuple[Membership, tuple[Command, ...]]:
    return protocol.advance(member, protocol.Kept(0.0) if isinstance(event, protocol.Kept) else event)


def giving_first(member: Membership, event: Event) -> tuple[Membership, tuple[Command, ...]]:
    member, commands = protocol.advance(member, event)
    return member, commands[::-1] if isinstance(event, protocol.AtRest) else commands


def asking_for_no_more(member: Membership, event: Event) -> tuple[Membership, tuple[Command, ...]]:
    member, commands = protocol.advance(member, event)
    return member, tuple(command for command in commands if not isinstance(command, protocol.Take))


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        (works_for(4.0), "goes on working when its time is over"),
        (calls_for(4.0), "calls of [ab] go on"),
        (Rules(fence=False), "may record"),
        (Rules(row_goes_first=False), "calls of [ab] go on"),
        (Rules(finds_lost=False), "an agent that nobody can take"),
        (Rules(advance=counting_from_the_answer), "goes on working when its time is over"),
        (Rules(advance=giving_first), "performs for [ab], which it does not have"),
        (Rules(advance=asking_for_no_more), "an agent that nobody can take"),
    ],
    ids=[
        "the gate stays open for 4 s",
        "calls go on for 4 s",
        "no fence",
        "the row stays while agents are taken",
        "agents whose answer was lost are not given again",
        "the time counts from the answer",
        "agents are given before they are let go",
        "nobody takes",
    ],
)
def test_G98_a_protocol_that_is_broken_is_found_to_be(rules: Rules, fault: str) -> None:
    _, found = explored(rules, beginning(), DEPTH, 3)
    assert re.search(fault, found), found


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        (Rules(renews=lambda alive, at: True), "is stopped, and keeps what it has"),
        (Rules(advance=counting_from_hearing), "goes on working when its time is over"),
    ],
    ids=["it renews for one that is stopped", "the time counts from when it is heard of"],
)
def test_G98_a_renewer_that_is_broken_is_found_to_be(rules: Rules, fault: str) -> None:
    _, found = explored(rules, with_renewers(), DEPTH, 2)
    assert re.search(fault, found), found


def test_G48_one_that_was_renewed_for_beside_it_works_as_if_it_had_renewed() -> None:
    member, commands = told(protocol.joined(0.0), protocol.Kept(5.0))
    assert commands == ()
    assert protocol.may_work(member, 6.9)
    assert protocol.calls_until(member) == 7.5
    assert told(member, protocol.Kept(4.5))[0] == member, "one that was sent before is no news"
    assert protocol.renews(5.0, 6.9)
    assert not protocol.renews(5.0, 7.0)


def test_G98_what_is_left_of_a_lease_covers_clocks_that_run_apart() -> None:
    close = LEASE * (1 - APART / 2)
    _, fault = explored(works_for(close), beginning(), DEPTH, 1)
    assert not fault, fault
    apart = works_for(close)._replace(clocks=(1.0 - APART, 1.0))
    _, fault = explored(apart, beginning(), DEPTH, 1)
    assert fault.startswith("A goes on working when its time is over")


# --- dialogues: what a daemon does, event by event -------------------------------------------------------


def renewed(
    at: float,
    agents: int,
    all: int = 90,
    free: int = 0,
    others: tuple[protocol.Other, ...] = (protocol.Other(2, 30), protocol.Other(3, 30)),
) -> protocol.Prolonged:
    return protocol.Prolonged(at, at - 0.1, agents, all, free, others)


def told(member: Membership, *events: Event) -> tuple[Membership, tuple[Command, ...]]:
    """The last of the commands after some events."""
    commands: tuple[Command, ...] = ()
    for event in events:
        member, commands = protocol.advance(member, event)
    return member, commands


def test_G48_a_daemon_works_for_two_seconds_after_it_asked_and_calls_go_on_a_little_longer() -> None:
    member, _ = told(protocol.joined(0.0), renewed(10.1, 30))
    assert protocol.may_work(member, 11.99)
    assert not protocol.may_work(member, 12.0)
    assert protocol.calls_until(member) == 12.5


def test_G49_one_that_has_just_started_takes_what_nobody_holds_and_for_a_lease_nothing_of_others() -> None:
    member = protocol.joined(0.0)
    assert told(member, renewed(0.5, 1, free=40))[1] == (protocol.Take(29, of_others=False),)
    assert told(member, renewed(1.5, 1), renewed(3.5, 1, free=40))[1] == (protocol.Take(29, of_others=True),)


def test_G49_one_that_was_cut_off_takes_nothing_of_others_for_a_lease() -> None:
    member = protocol.joined(0.0)
    cut_off = told(member, renewed(2.0, 1), renewed(60.0, 1, free=40))
    assert cut_off[1] == (protocol.Take(29, of_others=False),)
    assert told(cut_off[0], renewed(61.5, 1, free=40), renewed(63.0, 1, free=40))[1] == (
        protocol.Take(40, of_others=True),
    )


def test_G49_agents_are_taken_in_portions_until_a_daemon_has_its_share() -> None:
    member = protocol.joined(0.0)
    member, commands = told(member, renewed(2.0, 1, 1800, 1200))
    assert commands == (protocol.Take(PORTION, of_others=False),)
    some = tuple(range(PORTION))
    member, commands = told(member, protocol.Took(2.1, some, short=False))
    assert commands == (protocol.TakeOver(some), protocol.Take(PORTION, of_others=False))
    _, commands = told(member, protocol.Took(2.2, some, short=False))
    assert commands == (protocol.TakeOver(some), protocol.Take(99, of_others=False))
    assert told(member, protocol.Took(2.2, (7,), short=True))[1] == (protocol.TakeOver((7,)),)


def test_G49_no_more_is_taken_than_can_be_restored_soon() -> None:
    member, cramped = protocol.joined(0.0), msgspec.structs.replace(renewed(2.0, 1, free=40), room=12)
    member, commands = told(member, cramped)
    assert commands == (protocol.Take(12, of_others=False),)
    some = tuple(range(12))
    assert told(member, protocol.Took(2.1, some, short=False, room=0))[1] == (protocol.TakeOver(some),)
    member, commands = told(member, protocol.Took(2.1, some, short=False, room=4))
    assert commands == (protocol.TakeOver(some), protocol.Take(4, of_others=False))
    assert told(member, msgspec.structs.replace(cramped, room=-3))[1] == ()


def test_what_nobody_else_takes_is_taken_beyond_the_share() -> None:
    member = protocol.joined(0.0)
    member, commands = told(member, renewed(2.0, 40, free=5))
    assert commands == ()
    assert told(member, renewed(4.0, 40, free=5))[1] == ()
    assert told(member, renewed(4.0, 40, free=5), renewed(5.0, 40, free=5))[1] == (protocol.Take(5, True),)
    assert told(member, renewed(4.0, 40), renewed(5.0, 40, free=5))[1] == (), "others take some"


def test_one_that_has_more_than_its_share_looks_for_a_few_at_rest_to_give_back() -> None:
    member = protocol.joined(0.0)
    others = (protocol.Other(2, 22), protocol.Other(3, 8))
    assert told(member, renewed(2.0, 33))[1] == (), "a tenth over its share is no matter"
    assert told(member, renewed(2.0, 60, others=others))[1] == (protocol.FindAtRest(3, 1, 3),)
    assert told(member, protocol.AtRest((4, 5), 3))[1] == (protocol.LetGo((4, 5)), protocol.Give((4, 5), 3))
    assert told(member, protocol.AtRest(()))[1] == ()


def test_G54_one_that_gives_goes_on_until_it_has_its_share_and_gives_to_who_lacks_most() -> None:
    lacks = (protocol.Other(2, 29), protocol.Other(3, 20))
    giving, _ = told(protocol.joined(0.0), renewed(2.0, 41, others=lacks))
    assert told(giving, renewed(2.5, 32, others=lacks))[1] == (protocol.FindAtRest(1, 1, 3),)
    assert told(giving, renewed(2.5, 30, others=lacks))[1] == ()
    at_share, _ = told(giving, renewed(2.5, 30, others=lacks))
    assert told(at_share, renewed(3.0, 32, others=lacks))[1] == (), "it has come to rest"
    full = (protocol.Other(2, 30), protocol.Other(3, 31))
    assert told(giving, renewed(2.5, 41, others=full))[1] == (), "nobody lacks any"


def test_G54_a_daemon_has_a_share_by_its_weight() -> None:
    member, others = protocol.joined(0.0), (protocol.Other(2, 10, weight=30),)
    heavy = renewed(2.0, 80, others=others)
    assert told(member, heavy)[1] == (protocol.FindAtRest(4, 1, 2),)
    assert protocol.share_of(heavy, 30) == 68
    light = msgspec.structs.replace(renewed(2.0, 60, others=others), weight=70)
    assert told(member, light)[1] == ()
    wants = msgspec.structs.replace(renewed(2.0, 10, free=80, others=others), weight=70)
    assert told(member, wants)[1] == (protocol.Take(53, of_others=False),)


def test_G55_agents_that_another_daemon_gave_are_taken_whatever_the_share() -> None:
    given = msgspec.structs.replace(renewed(2.0, 40, free=5), unknown=2)
    assert told(protocol.joined(0.0), given)[1] == (protocol.Take(2, of_others=False),)


def test_G56_one_that_drains_takes_nothing_and_offers_all_it_has() -> None:
    member, commands = told(protocol.joined(0.0), protocol.Drain(), protocol.Due(0.5))
    assert commands == (protocol.Renew(draining=True),)
    member, commands = told(member, renewed(0.5, 30, free=40))
    assert commands == (protocol.FindAtRest(PORTION, 1),)
    assert protocol.may_work(member, 0.5)


def test_G47_one_whose_row_is_gone_starts_over_and_does_nothing_more() -> None:
    member, commands = told(protocol.joined(0.0), protocol.Gone())
    assert commands == (protocol.StartOver(),)
    assert not protocol.may_work(member, 0.1)
