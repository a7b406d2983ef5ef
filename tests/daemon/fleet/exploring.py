"""Exploration of the protocol of leases: all that can come of a world, and what must never be (G98)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tests.daemon.fleet.model import (
    CURRENT,
    LOST_BY,
    NONE,
    Model,
    Node,
    Rules,
    World,
    put,
    swapped_agents,
    swapped_daemons,
)

Story = tuple[str, ...]

MOST_STEPS_TO_REST = 60
"""So many steps at most until a fleet to which nothing happens any more has all agents at work."""


def explored(rules: Rules, world: World, depth: int, most: int) -> tuple[int, str]:
    """The number of worlds that can come of one in so many steps, among them at most so many troubles; and
    the first fault found in one, or "".
    """
    model, good = Model(rules), set[World]()
    known: dict[int, int] = {_key(world, rules): 0}
    keys: dict[World, int] = {}
    wave: list[tuple[World, Story, int]] = [(world, (), 0)]
    for _ in range(depth + 1):
        following: list[tuple[World, Story, int]] = []
        for world, story, troubles in wave:
            fault = fault_of(world, rules) or _left_alone(model, world, good)
            if fault:
                return len(known), "\n  ".join((f"{fault}:", *_told(story)))
            for said, after, is_trouble in model.steps(world, calm=troubles == most):
                count = troubles + is_trouble
                key = keys.get(after)
                if key is None:
                    key = keys[after] = _key(after, rules)
                if known.get(key, most + 1) > count:
                    known[key] = count
                    following.append((after, (said, story), count))
        wave = following
    return len(known), ""


def fault_of(world: World, rules: Rules) -> str:
    """What must never be in a world, or ""."""
    for agent, owner in enumerate(world.owners):
        name = "ab"[agent]
        recording, performing = [], []
        for who, node in enumerate(world.nodes):
            if node.epochs[agent] == NONE or node.member is None:
                continue
            if node.epochs[agent] == CURRENT or not rules.fence:
                recording.append(who)
            if node.life == "up" and rules.may_work(node.member, 0.0):
                performing.append(who)
            if owner not in (None, who) and rules.calls_until(node.member) > 0.0:
                return f"calls of {name} go on at {'AB'[who]}, and another has it"
        if len(recording) > 1:
            return f"two may record for {name}"
        if recording and owner not in (None, *recording):
            return f"{'AB'[recording[0]]} may record for {name}, and another has it"
        if performing and owner != performing[0]:
            return f"{'AB'[performing[0]]} performs for {name}, which it does not have"
        if len(performing) > 1:
            return f"two perform for {name}"
    for who, node in enumerate(world.nodes):
        if node.alive <= LOST_BY and node.row:
            return f"{'AB'[who]} is stopped, and keeps what it has"
    for who, (node, rate) in enumerate(zip(world.nodes, rules.clocks, strict=True)):
        if node.member is None or node.row is None or not node.epochs.count(CURRENT):
            continue
        if rules.may_work(node.member, max(0.0, node.row) * rate):
            return f"{'AB'[who]} goes on working when its time is over"
    return ""


def _left_alone(model: Model, world: World, good: set[World]) -> str:
    """What is wrong where no more trouble comes to a fleet: each agent is to be at work at one daemon."""
    for who, node in enumerate(world.nodes):
        # a machine that never goes on is a machine that is lost; one that is cut off is reached again
        healed = Node(row=node.row) if node.life == "stopped" else replace(node, is_cut=False)
        world = put(world, who, healed)
    way = []
    for _ in range(MOST_STEPS_TO_REST):
        if world in good or _is_at_rest(world):
            good.update(way)
            return ""
        way.append(world)
        world = _next(model, world)
    return "an agent that nobody can take"


def _is_at_rest(world: World) -> bool:
    """True if each agent is known to be at work where the store has it."""
    return all(
        owner is not None and world.nodes[owner].life == "up" and world.nodes[owner].epochs[agent] == CURRENT
        for agent, owner in enumerate(world.owners)
    )


def _next(model: Model, world: World) -> World:
    """The world a second later where all goes well; a daemon is started where none is up."""
    if all(node.life == "down" and not node.row for node in world.nodes):
        return model.joined(world, 0)
    for who, node in enumerate(world.nodes):
        if node.answer is not None:
            world = model.answered(world, who)
        while world.nodes[who].todo:
            world = model.done(world, who)
        member = world.nodes[who].member
        if member is not None and member.draining and world.nodes[who].epochs == (NONE, NONE):
            world = model.left(world, who)
    return model.later(world)


def _key(world: World, rules: Rules) -> int:
    """A number for a world and for those that are the same but for the names of agents, and of daemons
    whose clocks agree.
    """
    alike = [world, swapped_agents(world)]
    if rules.clocks[0] == rules.clocks[1]:
        alike += map(swapped_daemons, alike[:])
    return min(map(hash, alike))


def _told(story: Iterable[object]) -> list[str]:
    said: list[str] = []
    while story:
        word, story = story  # type: ignore[misc,assignment]
        said.append(str(word))
    return said[::-1]
