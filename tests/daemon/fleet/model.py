"""A model of two daemons, two agents and the store between them, for exploring the protocol of leases (G98).

The daemons follow `protocol.advance`; the store does what the contract in `leases.py` says. Time passes in
steps of a second, by the store's clock; that of a daemon may run apart from it. All moments are kept as
seconds from now, and not further than they matter, so that the same situation is the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from narval.daemon.fleet import protocol
from narval.daemon.fleet.protocol import Command, Event, Membership
from narval.store.postgresql.leases import ALIVE, LEASE

STEP = 1.0
"""Seconds that pass at once."""
APART = 1 / 64
"""The part by which a clock runs slow or fast: a little more than 1 %, and exact in binary."""

LONG_AGO = -LEASE - STEP
"""Moments before that are all the same."""

LOST_BY = -ALIVE - LEASE
"""The moment since which a daemon that is stopped has lost what it had."""

NONE, CURRENT, FORMER = "none", "current", "former"
"""The epoch under which a daemon believes to hold an agent: it does not; that of the store; one before."""


class Answer(msgspec.Struct, frozen=True):
    """What the store answered and has not arrived yet; `epochs` are those of agents taken, as of now."""

    event: Event
    epochs: tuple[str, ...]


class Node(msgspec.Struct, frozen=True):
    """A daemon: up, stopped or down; `row` is until when it holds, by the store, None where it has none.

    `todo` are the commands that it has not performed yet, `answer` one that is on its way. With `renewer` a
    program renews beside it: `alive` is when it has shown last that it lives, `kept` is when the renewal was
    sent that it has not heard of.
    """

    life: str = "down"
    member: Membership | None = None
    epochs: tuple[str, ...] = (NONE, NONE)
    todo: tuple[Command, ...] = ()
    answer: Answer | None = None
    row: float | None = None
    is_cut: bool = False
    renewer: bool = False
    alive: float = 0.0
    kept: float | None = None


class World(msgspec.Struct, frozen=True):
    """Two daemons, and the owner of each of the two agents by the store."""

    nodes: tuple[Node, Node]
    owners: tuple[int | None, ...]


class Rules(NamedTuple):
    """The rules that are explored; a test breaks one after another to see that it is missed."""

    advance: Callable[[Membership, Event], tuple[Membership, tuple[Command, ...]]] = protocol.advance
    may_work: Callable[[Membership, float], bool] = protocol.may_work
    calls_until: Callable[[Membership], float] = protocol.calls_until
    renews: Callable[[float, float], bool] = protocol.renews
    fence: bool = True
    """Commits count under the epoch that the store has, alone."""
    row_goes_first: bool = True
    """The row of a daemon goes before anything of it is taken."""
    finds_lost: bool = True
    """What a daemon has without knowing it is given to it again."""
    moves: bool = False
    """Agents may be moved to the other daemon, as somebody asks."""
    clocks: tuple[float, float] = (1.0, 1.0)
    """How fast the clocks of the daemons run, compared with that of the store."""


class Step(NamedTuple):
    """Something that can happen, in words, and what comes of it."""

    said: str
    world: World
    is_trouble: bool = False


def beginning() -> World:
    """Two daemons that have been at work for long, with an agent each."""
    member = Membership(0.0, -LEASE)
    return World(
        (
            Node("up", member, (CURRENT, NONE), row=LEASE),
            Node("up", member, (NONE, CURRENT), row=LEASE),
        ),
        (0, 1),
    )


def with_renewers() -> World:
    """The same, with a program beside each that renews for it."""
    first, second = beginning().nodes
    return replace(beginning(), nodes=(replace(first, renewer=True), replace(second, renewer=True)))


def nobody() -> World:
    """A store with two agents at which no daemon is running."""
    return World((Node(), Node()), (None, None))


class Model:
    """All that can happen in a world, under some rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def steps(self, world: World, *, calm: bool = False) -> Iterator[Step]:
        """All that can happen next, or where it is calm all but troubles; time passes once all did what they
        can do at once.
        """
        if not any(_can_ask(node) and node.todo for node in world.nodes):
            for order in (0, 1), (1, 0):
                yield Step("a second passes", self.later(world, order))
        for who, node in enumerate(world.nodes):
            name = "AB"[who]
            for said, after in self._of(world, who, node):
                yield Step(f"{name} {said}", after)
            for said, after in () if calm else self._troubles_of(world, who, node):
                yield Step(f"{name} {said}", after, is_trouble=True)

    def _of(self, world: World, who: int, node: Node) -> Iterator[tuple[str, World]]:
        if node.life == "down":
            if node.row is None or node.row <= 0:
                yield "joins", self.joined(world, who)
            return
        if node.life == "stopped":
            yield "goes on", self.going_on(world, who)
            return
        if node.is_cut:
            yield "is reached again", put(world, who, replace(node, is_cut=False))
        elif node.answer is not None:
            yield "gets its answer", self.answered(world, who)
            yield "gets no answer", put(world, who, replace(node, answer=None))
        elif node.todo:
            yield f"has {node.todo[0]} done", self.done(world, who)
        elif node.member is not None and node.member.draining and node.epochs == (NONE, NONE):
            yield "stops", self.left(world, who)
        if self.rules.fence and FORMER in node.epochs:
            kept = tuple(NONE if epoch == FORMER else epoch for epoch in node.epochs)
            yield "commits, and is fenced", put(world, who, replace(node, epochs=kept))

    def _troubles_of(self, world: World, who: int, node: Node) -> Iterator[tuple[str, World]]:
        if node.life == "down":
            return
        yield "is killed", put(world, who, Node(row=node.row))
        if node.life == "stopped":
            return
        if node.renewer:
            yield "loses its renewer", put(world, who, replace(node, renewer=False))
        yield "is stopped", put(world, who, replace(node, life="stopped"))
        if not node.is_cut:
            yield "is cut from the store", put(world, who, replace(node, is_cut=True))
            if node.answer is None:
                yield from self._troubles_of_asking(world, who, node)

    def _troubles_of_asking(self, world: World, who: int, node: Node) -> Iterator[tuple[str, World]]:
        """The troubles that can come of what a daemon asks of the store."""
        assert node.member is not None
        if node.todo:
            served, answer = self._served(world, who)
            if answer is not None:
                yield f"has {node.todo[0]} done, answered late", late(served, who, answer)
            yield f"asks in vain: {node.todo[0]}", put(world, who, replace(node, todo=()))
            return
        served, answer = self._served(self.told(world, who, protocol.Due(0.0)), who)
        if answer is not None:
            yield "renews, and is answered late", late(served, who, answer)
        for agent, epoch in enumerate(node.epochs):
            if self.rules.moves and epoch != NONE and not node.member.draining:
                moved = protocol.AtRest((agent,), 2 - who)
                yield f"is to move {'ab'[agent]}", self.told(world, who, moved)
        if not node.member.draining:
            yield "is to drain", self.told(world, who, protocol.Drain())
        elif node.epochs != (NONE, NONE):
            yield "stops", self.left(world, who)

    # --- time -----------------------------------------------------------------------------------------

    def later(self, world: World, order: tuple[int, ...] = (0, 1)) -> World:
        """The world a second later, in which all that can have renewed what they hold."""
        nodes = [
            replace(
                node,
                row=None if node.row is None else max(0.0, node.row - STEP),
                member=None if node.member is None else _older(node.member, STEP * rate),
                answer=None if node.answer is None else _aged(node.answer, STEP * rate),
                alive=max(LOST_BY, node.alive - STEP * rate) if node.life == "stopped" else 0.0,
                kept=None if node.kept is None else max(LONG_AGO, node.kept - STEP * rate),
            )
            for node, rate in zip(world.nodes, self.rules.clocks, strict=True)
        ]
        world = replace(world, nodes=(nodes[0], nodes[1]))
        for who in order:
            world = self.kept(world, who)
            if _can_ask(world.nodes[who]):
                world = self.done(self.told(world, who, protocol.Due(0.0)), who)
        return world

    def kept(self, world: World, who: int) -> World:
        """The world once the program beside a daemon has renewed for it, if it does."""
        node = world.nodes[who]
        if not node.renewer or node.is_cut or node.row is None or not self.rules.renews(node.alive, 0.0):
            return world
        world = put(world, who, replace(node, row=LEASE, kept=0.0))
        return world if node.life == "stopped" else self.going_on(world, who)

    def going_on(self, world: World, who: int) -> World:
        """The world once a daemon is running, and has heard of its last renewal."""
        node = world.nodes[who]
        world = put(world, who, replace(node, life="up", alive=0.0, kept=None))
        return world if node.kept is None else self.told(world, who, protocol.Kept(node.kept))

    # --- daemons --------------------------------------------------------------------------------------

    def joined(self, world: World, who: int) -> World:
        """The world once a daemon was started."""
        owners = tuple(None if owner == who else owner for owner in world.owners)
        return replace(put(world, who, Node("up", protocol.joined(0.0), row=LEASE)), owners=owners)

    def left(self, world: World, who: int) -> World:
        """The world once a daemon has stopped in good order, and given back what it still had."""
        return put(_freed(world, who), who, Node())

    def told(self, world: World, who: int, event: Event, epochs: tuple[str, ...] = (NONE, NONE)) -> World:
        """The world once a daemon was told an event, and has done what it does by itself."""
        node = world.nodes[who]
        assert node.member is not None
        member, commands = self.rules.advance(node.member, event)
        node = replace(node, member=member)
        todo = list(node.todo)
        for command in commands:
            match command:
                case protocol.TakeOver():
                    known = zip(node.epochs, epochs, strict=True)
                    node = replace(node, epochs=tuple(new if new != NONE else old for old, new in known))
                case protocol.LetGo() if not todo:
                    node = replace(node, epochs=without(node.epochs, command.agents))
                case protocol.FindAtRest():
                    held = [agent for agent, epoch in enumerate(node.epochs) if epoch != NONE]
                    found = protocol.AtRest(tuple(held[: command.most]), command.to)
                    return self.told(put(world, who, node), who, found)
                case protocol.StartOver():
                    return put(world, who, Node(row=node.row))
                case _:
                    todo.append(command)
        return put(world, who, replace(node, todo=tuple(todo)))

    def done(self, world: World, who: int) -> World:
        """The world once the next request of a daemon was answered at once."""
        served, answer = self._served(world, who)
        return served if answer is None else self.answered(served, who, answer)

    def answered(self, world: World, who: int, answer: Answer | None = None) -> World:
        """The world once a daemon got the answer that is on its way, or one at once."""
        answer = answer or world.nodes[who].answer
        assert answer is not None
        world = put(world, who, replace(world.nodes[who], answer=None))
        return self.told(world, who, answer.event, answer.epochs)

    # --- the store ------------------------------------------------------------------------------------

    def _served(self, world: World, who: int) -> tuple[World, Answer | None]:
        """The world once the store did what a daemon asks, and its answer."""
        node = world.nodes[who]
        command, todo = node.todo[0], node.todo[1:]
        world = put(world, who, replace(node, todo=todo))
        if isinstance(command, protocol.LetGo):
            return put(
                world, who, replace(node, todo=todo, epochs=without(node.epochs, command.agents))
            ), None
        if node.row is None:
            return world, Answer(protocol.Gone(), (NONE, NONE))
        if isinstance(command, protocol.Give):
            return self._given(world, who, command), None
        if isinstance(command, protocol.Take):
            return self._taken(world, who, command)
        assert isinstance(command, protocol.Renew)
        world = put(world, who, replace(world.nodes[who], row=LEASE))
        return world, Answer(self._renewed(world, who), (NONE, NONE))

    def _given(self, world: World, who: int, command: protocol.Give) -> World:
        """The world once agents are nobody's, or the other daemon's, under another epoch."""
        given = [agent for agent in command.agents if world.owners[agent] == who]
        receiver = command.to - 1 if command.to else None
        if receiver is not None:
            node = world.nodes[receiver]
            if node.row is None or node.row <= 0 or (node.member is not None and node.member.draining):
                return world
            world = self._under_another_epoch(world, given)
        owners = (receiver if agent in given else owner for agent, owner in enumerate(world.owners))
        return replace(world, owners=tuple(owners))

    def _renewed(self, world: World, who: int) -> protocol.Prolonged:
        there = [at for at, node in enumerate(world.nodes) if node.row is not None and node.row > 0]
        members = [at for at in there if (member := world.nodes[at].member) is None or not member.draining]
        free = self._takeable(world, who, of_others=True)
        mine = sum(epoch != NONE for epoch in world.nodes[who].epochs)
        others = tuple(
            protocol.Other(at + 1, sum(epoch != NONE for epoch in world.nodes[at].epochs))
            for at in members
            if at != who
        )
        unknown = sum(world.owners[agent] == who for agent in free)
        return protocol.Prolonged(0.0, 0.0, mine, len(world.owners), len(free), others, unknown=unknown)

    def _takeable(self, world: World, who: int, *, of_others: bool) -> list[int]:
        found = []
        for agent, owner in enumerate(world.owners):
            row = None if owner is None else world.nodes[owner].row
            if owner == who:
                is_free = self.rules.finds_lost and world.nodes[who].epochs[agent] == NONE
            else:
                is_free = row is None or (of_others and row <= 0)
            if is_free:
                found.append(agent)
        return found

    def _taken(self, world: World, who: int, command: protocol.Take) -> tuple[World, Answer]:
        found = self._takeable(world, who, of_others=command.of_others)[: command.most]
        for agent in found:
            owner = world.owners[agent]
            if owner is not None and owner != who and self.rules.row_goes_first:
                world = put(world, owner, replace(world.nodes[owner], row=None))
                world = _freed(world, owner)
        world = self._under_another_epoch(world, found)
        owners = tuple(who if agent in found else owner for agent, owner in enumerate(world.owners))
        epochs = tuple(CURRENT if agent in found else NONE for agent in range(len(owners)))
        event = protocol.Took(0.0, tuple(found), len(found) < command.most)
        return replace(world, owners=owners), Answer(event, epochs)

    def _under_another_epoch(self, world: World, agents: list[int]) -> World:
        """The world once agents have another epoch than daemons know of."""
        for other, node in enumerate(world.nodes):
            answer = node.answer
            if answer is not None:
                answer = replace(answer, epochs=_former(answer.epochs, agents))
            world = put(world, other, replace(node, epochs=_former(node.epochs, agents), answer=answer))
        return world


def put(world: World, who: int, node: Node) -> World:
    """The world with another state of a daemon."""
    return replace(world, nodes=(node, world.nodes[1]) if who == 0 else (world.nodes[0], node))


def _can_ask(node: Node) -> bool:
    return node.life == "up" and node.answer is None and not node.is_cut


def late(world: World, who: int, answer: Answer) -> World:
    """The world with an answer on its way to a daemon."""
    return put(world, who, replace(world.nodes[who], answer=answer))


def swapped_agents(world: World) -> World:
    """The same world, but that the agents have one another's names."""
    nodes = [
        replace(
            node,
            epochs=node.epochs[::-1],
            todo=tuple(map(_named_otherwise, node.todo)),
            answer=node.answer and Answer(_named_otherwise(node.answer.event), node.answer.epochs[::-1]),
        )
        for node in world.nodes
    ]
    return World((nodes[0], nodes[1]), world.owners[::-1])


def swapped_daemons(world: World) -> World:
    """The same world, but that the daemons have one another's names."""
    owners = tuple(None if owner is None else 1 - owner for owner in world.owners)
    first, second = (
        replace(
            node,
            todo=tuple(map(_of_other_daemons, node.todo)),
            answer=node.answer and replace(node.answer, event=_of_other_daemons(node.answer.event)),
        )
        for node in world.nodes
    )
    return World((second, first), owners)


def _of_other_daemons(said: Any) -> Any:
    if isinstance(said, protocol.Give) and said.to:
        return replace(said, to=3 - said.to)
    if isinstance(said, protocol.Prolonged):
        others = tuple(other._replace(daemon=3 - other.daemon) for other in said.others)
        return replace(said, others=others)
    return said


def _named_otherwise(said: Any) -> Any:
    agents = getattr(said, "agents", None)
    if not isinstance(agents, tuple):
        return said
    return replace(said, agents=tuple(1 - agent for agent in agents))


def without(epochs: tuple[str, ...], agents: tuple[int, ...]) -> tuple[str, ...]:
    """The epochs of a daemon that does not hold some agents any more."""
    return tuple(NONE if agent in agents else epoch for agent, epoch in enumerate(epochs))


def _former(epochs: tuple[str, ...], taken: list[int]) -> tuple[str, ...]:
    return tuple(
        FORMER if agent in taken and epoch == CURRENT else epoch for agent, epoch in enumerate(epochs)
    )


def _freed(world: World, who: int) -> World:
    return replace(world, owners=tuple(None if owner == who else owner for owner in world.owners))


def _older(member: Membership, by: float) -> Membership:
    unclaimed = None if member.unclaimed is None else max(-LEASE, member.unclaimed - by)
    renewed, present = max(LONG_AGO, member.renewed - by), max(-LEASE, member.present - by)
    return member._replace(renewed=renewed, present=present, unclaimed=unclaimed)


def _aged(answer: Answer, by: float) -> Answer:
    event = answer.event
    if isinstance(event, protocol.Prolonged):
        return replace(answer, event=replace(event, sent=max(LONG_AGO, event.sent - by)))
    return answer
