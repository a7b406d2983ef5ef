"""The lifecycle of an agent, explored: all that can happen to one, in any order, and long lives at random."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from narval.daemon.agents import lifecycle
from narval.daemon.agents.lifecycle import (
    ACTIVE,
    ELSEWHERE,
    FIRST,
    LONGEST,
    MOST,
    PASSIVATING,
    PASSIVE,
    RESTORING,
    WITHIN,
    Event,
    Life,
)

DEPTH = 7
IDLE = 60.0

Advance = Callable[[Life, Event], lifecycle.Next]


class World(NamedTuple):
    """An agent in a daemon, and what is outside of its life."""

    life: Life = Life()
    at: float = 0.0
    hosts: int = 0
    """The number of times that it is in memory."""
    timer: float | None = None
    waits: bool = False
    """True while something in the store, or in the executor, waits for it to be active."""
    asks: bool = False
    """True while somebody waits for the answer of an operation."""
    calls: bool = True
    """True while it has calls under way."""
    acts_at_start: bool = False
    """True from the start of the daemon until what acts then has."""
    said: str = ""
    """What was said of it last: that it is tried again, or suspended."""
    fault: str = ""
    """What is wrong."""


def happen(world: World, event: Event, advance: Advance = lifecycle.advance) -> World:
    """The world after an event, with all commands done."""
    life, commands = advance(world.life, event)
    before, world = world, world._replace(life=life)
    for command in commands:
        world = perform(world, command)
        if isinstance(command, lifecycle.Begin):
            if command.is_start != world.acts_at_start:
                world = world._replace(fault="what acts at a start does not act once")
            world = happen(world._replace(acts_at_start=False), lifecycle.Joined(world.at, IDLE), advance)
    if world.life.phase == ACTIVE and not world.life.is_suspended:
        world = world._replace(waits=False, calls=True)
    if before.life.phase == RESTORING and world.life.phase != RESTORING:
        world = world._replace(asks=False)
    return world._replace(fault=world.fault or fault_of(before, world))


def perform(world: World, command: lifecycle.Command) -> World:
    match command:
        case lifecycle.Restore():
            return world._replace(hosts=world.hosts + 1)
        case lifecycle.Drop():
            return world._replace(hosts=0, asks=False)
        case lifecycle.EndCalls():
            return world._replace(calls=False)
        case lifecycle.Wait():
            return world._replace(timer=command.at)
        case lifecycle.Refuse():
            return world._replace(asks=False)
        case lifecycle.Report():
            return world._replace(said=f"again in {command.seconds:g} s")
        case lifecycle.Suspend():
            return world._replace(said=f"suspended: {command.why}", acts_at_start=False)
    return world


def fault_of(before: World, world: World) -> str:
    """The rule of all lives that is broken, or ""."""
    life = world.life
    is_in_memory = life.phase in (RESTORING, ACTIVE, PASSIVATING)
    if world.hosts != is_in_memory:
        return f"{world.hosts} times in memory while {life.phase}"
    if world.asks and life.phase not in (RESTORING, PASSIVATING):
        return "who asks is neither answered nor waits for anything"
    if life.phase == ELSEWHERE and (world.calls or world.timer is not None):
        return "an agent that was lost goes on"
    if life.is_suspended and life.phase == PASSIVE and world.timer is not None:
        return "an agent that is suspended is looked after"
    if life.phase == ACTIVE and world.timer is None:
        return "an active agent is never passivated"
    comes_soon = world.timer is not None and world.timer <= world.at + LONGEST
    if world.waits and not life.is_suspended and life.phase == PASSIVE and not comes_soon:
        return "what waits for a passive agent is lost"
    if len(life.failures) > len(before.life.failures) and life.retry_at != world.timer:
        return "an agent that failed is not tried again"
    return ""


def asked(world: World) -> World:
    """An operation: it waits for what is between, and uses what is active."""
    if world.life.phase == PASSIVE:
        return happen(world._replace(asks=True), lifecycle.Asked(world.at))
    return world


def needed(world: World) -> World:
    is_here = world.life.phase != ELSEWHERE
    is_taken = world.life.phase == ACTIVE or not is_here
    return happen(world._replace(waits=not is_taken), lifecycle.Needed(world.at))


def came(world: World) -> World:
    """The moment of the timer."""
    if world.timer is None:
        return world
    world = world._replace(at=max(world.at, world.timer), timer=None)
    return happen(world, lifecycle.Due(world.at, world.at - IDLE, IDLE))


def failed(cause: lifecycle.Cause) -> Callable[[World], World]:
    def fail(world: World) -> World:
        if world.life.phase not in (RESTORING, ACTIVE, PASSIVATING):
            return world
        is_at_work = world.life.phase != RESTORING
        waits = (is_at_work or world.life.is_needed) and cause != "not here"
        told = ((1, "mail"),)
        world = world._replace(waits=waits and not world.life.is_suspended)
        return happen(world, lifecycle.Failed(world.at, cause, told))

    return fail


def resumed(world: World) -> World:
    if not world.life.is_suspended:
        return world
    world = happen(world._replace(waits=False), lifecycle.Resumed())
    return happen(world._replace(waits=True), lifecycle.Needed(world.at, at_once=True))


def started(world: World) -> World:
    is_begun = world.life.phase == PASSIVE and not world.life.is_suspended
    world = world._replace(acts_at_start=world.acts_at_start or is_begun)
    return happen(world, lifecycle.Started(world.at, was_active=True))


def only_in(phase: str, event: Callable[[float], Event]) -> Callable[[World], World]:
    return lambda world: happen(world, event(world.at)) if world.life.phase == phase else world


HAPPENINGS: dict[str, Callable[[World], World]] = {
    "started": started,
    "asked": asked,
    "needed": needed,
    "its moment comes": came,
    "restored": only_in(RESTORING, lifecycle.Restored),
    "cannot be restored, or breaks down": failed("fault"),
    "the store is away": failed("away"),
    "what it follows is not here": failed("not here"),
    "quiet": only_in(ACTIVE, lambda at: lifecycle.Quiet()),
    "passivated": only_in(PASSIVATING, lambda at: lifecycle.Passivated(at, at + 1e6)),
    "passivated, and a call has reported": only_in(
        PASSIVATING, lambda at: lifecycle.Passivated(at, None, has_reports=True)
    ),
    "suspended": lambda world: happen(
        world._replace(waits=False, acts_at_start=False), lifecycle.Suspended()
    ),
    "resumed": resumed,
    "lost": lambda world: happen(world._replace(waits=False), lifecycle.Lost()),
    "the clock is set back": lambda world: happen(
        world._replace(at=world.at - 30.0), lifecycle.ClockSet(world.at - 30.0, -30.0)
    ),
    "an hour goes by": lambda world: world._replace(at=world.at + 3600.0),
}


def explored(depth: int) -> Iterator[tuple[list[str], World]]:
    """All lives of so many happenings, each world once."""
    worlds: dict[World, list[str]] = {World(): []}
    seen = set(worlds)
    for _ in range(depth):
        following: dict[World, list[str]] = {}
        for world, story in worlds.items():
            for name, happening in HAPPENINGS.items():
                after = happening(world)
                if after not in seen:
                    seen.add(after)
                    following[after] = [*story, name]
                    yield [*story, name], after
        worlds = following


def test_G9_whatever_happens_to_an_agent_it_is_once_in_memory_and_nothing_is_lost() -> None:
    count = 0
    for story, world in explored(DEPTH):
        assert not world.fault, f"{world.fault}, after: {', '.join(story)}"
        count += 1
    assert count > 5_000


@pytest.mark.parametrize("seed", range(20))
def test_G9_long_lives_are_as_short_ones(seed: int) -> None:
    chance, world, story = random.Random(seed), World(), list[str]()
    for _ in range(2_000):
        name = chance.choice([name for name in HAPPENINGS if name != "lost"])
        story.append(name)
        world = HAPPENINGS[name](world)
        assert not world.fault, f"{world.fault}, after: {', '.join(story[-20:])}"
    while world.life.is_suspended:
        world = resumed(world)
    world = needed(world)
    for _ in range(3):  # left alone, it is active in the end
        world = came(world) if world.life.phase == PASSIVE else world
        world = HAPPENINGS["restored"](world)
    assert world.life.phase in (ACTIVE, PASSIVATING)
    assert not world.waits


def ignored(life: Life, event: Event) -> lifecycle.Next:
    return life, ()


def dropped_alone(life: Life, event: Event) -> lifecycle.Next:
    phase = ELSEWHERE if isinstance(event, lifecycle.Lost) else PASSIVE
    return Life(phase), (lifecycle.Drop("is gone"),)


def active_for_ever(life: Life, event: Event) -> lifecycle.Next:
    return life._replace(phase=ACTIVE), ()


def restored_again(life: Life, event: Event) -> lifecycle.Next:
    return life, (lifecycle.Restore(),)


@pytest.mark.parametrize(
    ("event", "phase", "move", "fault"),
    [
        (lifecycle.Needed, PASSIVATING, ignored, "is lost"),
        (lifecycle.Needed, RESTORING, restored_again, "2 times in memory"),
        (lifecycle.Asked, PASSIVE, ignored, "who asks is neither answered"),
        (lifecycle.Lost, ACTIVE, dropped_alone, "an agent that was lost goes on"),
        (lifecycle.Failed, RESTORING, lambda life, event: (Life(), (lifecycle.Drop(""),)), "is lost"),
        (
            lifecycle.Joined,
            RESTORING,
            lambda life, event: (life._replace(phase=ACTIVE), ()),
            "never passivated",
        ),
    ],
)
def test_G9_a_lifecycle_that_is_broken_is_found_to_be(
    event: type[Event], phase: str, move: lifecycle.Move, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lifecycle.LIFE_MOVES[event], phase, move)
    assert any(fault in world.fault for _, world in explored(5))


# --- rules, one by one -----------------------------------------------------------------------------------


def fail(life: Life, at: float, *told: lifecycle.Told) -> tuple[Life, tuple[lifecycle.Command, ...]]:
    return lifecycle.advance(life._replace(phase=ACTIVE), lifecycle.Failed(at, "fault", told))


def test_G18_an_agent_that_fails_is_tried_again_ever_later_and_suspended_the_fifth_time() -> None:
    life, seconds = Life(), []
    for at in range(MOST - 1):
        life, commands = fail(life, float(at))
        seconds += [command.seconds for command in commands if isinstance(command, lifecycle.Report)]
        assert commands[-1] == lifecycle.Wait(at + seconds[-1])
    assert seconds == [1.0, 2.0, 4.0, 8.0]
    assert seconds[0] == FIRST
    life, commands = fail(life, 5.0)
    assert lifecycle.state_of(life) == "suspended"
    assert not life.failures
    assert lifecycle.Suspend("it broke down 5 times in 10 minutes") in commands
    assert lifecycle.EndCalls() in commands


def test_G18_failures_of_long_ago_do_not_count() -> None:
    life = Life()
    for turn in range(3 * MOST):
        life, commands = fail(life, turn * WITHIN / 2)
        assert not life.is_suspended
        assert all(
            command.seconds <= LONGEST for command in commands if isinstance(command, lifecycle.Report)
        )


def test_G18_who_asks_meanwhile_is_refused_and_told_when() -> None:
    life, _ = fail(Life(), 10.0)
    assert lifecycle.advance(life, lifecycle.Asked(10.25)) == (life, (lifecycle.Refuse(0.75),))
    assert lifecycle.advance(life, lifecycle.Needed(10.25)) == (life, (lifecycle.Wait(11.0),))
    assert lifecycle.advance(life, lifecycle.Asked(11.0))[1] == (lifecycle.Restore(),)


def test_G18_an_event_that_brought_it_down_twice_is_told_no_more() -> None:
    life, _ = fail(Life(), 0.0, (1, "a"), (1, "b"))
    life, _ = fail(life, 2.0, (1, "b"))
    life = life._replace(phase=RESTORING)
    _, commands = lifecycle.advance(life, lifecycle.Restored(5.0))
    assert commands == (lifecycle.Begin(is_start=False, is_careful=True, suspected=frozenset({(1, "b")})),)
    _, commands = lifecycle.advance(life, lifecycle.Restored(5.0 + WITHIN))
    assert commands == (lifecycle.Begin(is_start=False, is_careful=False, suspected=frozenset()),)


def test_G52_G58_what_is_no_fault_of_the_agent_does_not_count() -> None:
    for cause in ("away", "not here"):
        life, commands = lifecycle.advance(Life(ACTIVE), lifecycle.Failed(0.0, cause))  # type: ignore[arg-type]
        assert not life.failures
        assert not any(isinstance(each, lifecycle.Report) for each in commands)
    starting, _ = lifecycle.advance(Life(), lifecycle.Started(0.0, was_active=True))
    life, _ = lifecycle.advance(starting, lifecycle.Failed(0.0, "not here"))
    life, _ = lifecycle.advance(life, lifecycle.Needed(9.0, at_once=True))
    assert life.is_start, "it acts as at a start once what it follows is here"


def test_G50_one_whose_turn_to_be_restored_is_to_come_acts_as_at_a_start_whoever_needs_it_first() -> None:
    waiting, commands = lifecycle.advance(Life(), lifecycle.Started(0.0, was_active=True, in_turn=True))
    assert (waiting.phase, commands) == (PASSIVE, ())
    for event in (lifecycle.Asked(1.0), lifecycle.Needed(1.0, at_once=True)):
        restoring, commands = lifecycle.advance(waiting, event)
        assert commands == (lifecycle.Restore(),)
        _, [begin] = lifecycle.advance(restoring, lifecycle.Restored(1.0))
        assert begin == lifecycle.Begin(is_start=True, is_careful=False, suspected=frozenset())


def test_G6_an_agent_that_was_idle_for_long_enough_is_passivated_unless_it_is_used() -> None:
    active = Life(ACTIVE)
    assert lifecycle.advance(active, lifecycle.Due(60.0, 30.0, IDLE))[1] == (lifecycle.Wait(90.0),)
    due = lifecycle.Due(90.0, 30.0, IDLE)
    assert lifecycle.advance(active, due)[1] == (lifecycle.Wait(150.0), lifecycle.Passivate())
    used = lifecycle.Due(90.0, 30.0, IDLE, in_use=True)
    assert lifecycle.advance(active, used)[1] == (lifecycle.Wait(150.0),)


def test_the_table_that_people_read_is_that_of_the_moves() -> None:
    assert lifecycle.__doc__ is not None
    phases = (PASSIVE, RESTORING, ACTIVE, PASSIVATING)
    rows = dict[str, list[bool]]()
    columns = [re.search(rf" {phase}\b", lifecycle.__doc__).start() + 1 for phase in phases]  # type: ignore[union-attr]
    start = lifecycle.__doc__.rfind("\n", 0, columns[0])
    columns = [column - start - 1 for column in columns]
    for line in lifecycle.__doc__[start + 1 :].split("\n\n")[0].splitlines()[1:]:
        ends = [*columns[1:], None]
        rows[line.split()[0]] = [bool(line[at:end].strip()) for at, end in zip(columns, ends, strict=True)]
    moves = {event.__name__: [phase in of for phase in phases] for event, of in lifecycle.LIFE_MOVES.items()}
    assert rows == moves
