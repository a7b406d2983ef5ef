"""Any process moves its tokens as sections 2 and 4 to 8 say, written out naively: their numbers, in order,
their places in sets and their attributes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from random import Random
from typing import Any

from narval.kinds.process.engine import changes
from tests.core.engines.dialogue import Dialogue, Refusal

JOINS = ("or", "or", "and", "labelAnd", "first", "tokenSet", "tokenSetOr", "joinlang")
ANSWERS = {"Accept": None, "Discard": (), "Skip": ("",), "Skip x": ("x",)}
"""What a guard may answer, and the arcs on which the token then leaves at once."""
TOO_LONG = 200
"""A process that moves so many tokens is in a circle, and is not compared."""


class CircleError(Exception):
    """Tokens move without end."""


class Spot:
    """A node as it is written. Terms of its join are ("node", NAME), ("set", NAME), ("arcs", N, LABEL)."""

    def __init__(self, chance: Random, names: str, at: int) -> None:
        targets = names if chance.random() < 0.3 else names[at + 1 :]
        arcs = {(chance.choice(("", "", "x")), chance.choice(targets)) for _ in "123" if targets}
        self.name, self.arcs = names[at], sorted(arcs)
        self.is_start, self.waits = at == 0 or chance.random() < 0.1, chance.random() < 0.7
        self.join = chance.choice(JOINS)
        self.guard = chance.choice(list(ANSWERS)) if chance.random() < 0.25 else "Accept"
        self.set_name = chance.choice(("", "S", "T"))
        self.terms = [self._terms(chance, names) for _ in range(chance.choice((1, 2)))]

    def _terms(self, chance: Random, names: str) -> list[tuple[Any, bool]]:
        label = chance.choice((None, "", "x"))
        kinds = [("node", chance.choice(names)), ("set", "S"), ("arcs", None, label), ("arcs", 2, label)]
        return [(chance.choice(kinds), chance.random() < 0.3) for _ in range(chance.choice((1, 2)))]

    def xml(self) -> str:
        """The element of the node."""
        text = f"<join>{self.set_name}</join>" if self.set_name and "tokenSet" in self.join else ""
        if self.join == "joinlang":
            text = f"<join>{' or '.join(' '.join(map(required, terms)) for terms in self.terms)}</join>"
        if self.guard != "Accept":
            text += f"<guard>IF p THEN {self.guard} ELSE Accept</guard>"
        text += "".join(f'<arc to="{to}" name="{name}"/>' for name, to in self.arcs)
        type, start = "wait" if self.waits else "node", str(self.is_start).lower()
        return (
            f'<node name="{self.name}" type="{type}" isStart="{start}" joinType="{self.join}">{text}</node>'
        )


def required(term: tuple[Any, bool]) -> str:
    """A requirement in JoinLang."""
    (kind, *more), if_p = term
    if kind == "arcs":
        count = "all" if more[0] is None else f"at least {more[0]}"
        label = {None: "", "": " labelled default"}.get(more[1], f' labelled "{more[1]}"')
        text = f"require {count} arcs{label}"
    else:
        text = f'require {"node" if kind == "node" else "tokenset"} "{more[0]}"'
    return text + " when p" * if_p


class Token:
    """A token on a node, or on an arc (`arc`) from another (`source`)."""

    def __init__(
        self, number: int, node: str, sets: dict[int, int], arc: Any = None, source: Any = None
    ) -> None:
        self.number, self.node, self.sets, self.arc, self.source = number, node, sets, arc, source
        self.environment: dict[str, str] = {}
        self.done, self.there = False, False


class Sections:
    """A process of spots, moved one token after another."""

    def __init__(self, spots: Iterable[Spot], says: Iterator[bool]) -> None:
        self.spots = {spot.name: spot for spot in spots}
        self.says, self.number, self.moved, self.events = says, 0, 0, list[tuple[Any, ...]]()
        self.tokens: list[Token] = []
        self.ways: list[Token] = []
        self.sets: dict[int, tuple[str, int]] = {}
        self.queue: deque[Token] = deque()
        for spot in self.spots.values():
            if spot.is_start:
                self.enter(self.made(spot.name, []))
        self.flow()

    def count(self) -> int:
        self.number += 1
        return self.number

    def note(self, *event: Any) -> None:
        self.events.append(event)

    # --- section 2 ------------------------------------------------------------------------------------

    def made(self, node: str, ways: list[Token], ended: Iterable[int] = ()) -> Token:
        sets: dict[int, int] = {}
        for way in ways:
            for number, index in way.sets.items():
                if number not in ended:
                    sets.setdefault(number, index)
        self.tokens.append(Token(self.count(), node, sets))
        token = self.tokens[-1]
        for way in ways:
            token.environment.update(way.source.environment)
        self.note("NodeTokenCreated", token.number, node, tuple(sorted(sets.items())))
        for way in ways:
            self.end(way, token)
        return token

    def end(self, way: Token, token: Token) -> None:
        if way in self.queue:
            self.queue.remove(way)
        way.done = True
        self.note("ArcTokenCompleted", way.number, token.number)

    def enter(self, token: Token) -> None:
        spot = self.spots[token.node]
        answer = spot.guard if spot.guard == "Accept" or next(self.says) else "Accept"
        names = ANSWERS[answer]
        if names is not None:
            self.leave(token, names)
        elif not spot.waits:
            self.leave(token, ("",))

    def leave(self, token: Token, names: Iterable[str], new: int | None = None) -> None:
        names, token.done = list(names), True
        self.note("NodeTokenCompleted", token.number, tuple(names))
        arcs = [
            (place, *arc)
            for place, arc in enumerate(self.spots[token.node].arcs)
            for _ in range(names.count(arc[0]))
        ]
        made = self.count() if new is not None and arcs else 0
        if made:
            level = 1 + max((self.sets[number][1] for number in token.sets), default=0)
            self.sets[made] = ("S", level)
        for index in range(new or 1) if made else (None,):
            for place, name, to in arcs:
                sets = token.sets if index is None else {**token.sets, made: index}
                self.ways.append(Token(self.count(), to, dict(sets), (token.node, place, name), token))
                self.queue.append(self.ways[-1])
        if not arcs:
            for number in token.sets:
                self.try_again(number)

    def flow(self) -> None:
        while self.queue:
            self.moved += 1
            if self.moved > TOO_LONG:
                raise CircleError
            way = self.queue.popleft()
            way.there = True
            self.ways.remove(way)
            self.ways.append(way)  # those that came first stay before it
            self.arrive(way)

    def try_again(self, number: int) -> None:
        """A dead end: what waits for the set is tried again."""
        for way in sorted(self.ways, key=lambda way: way.number):
            if number in way.sets and self.stands(way) and "tokenSet" in self.spots[way.node].join:
                self.arrive(way)

    # --- sections 5 to 7 --------------------------------------------------------------------------------

    def arrive(self, way: Token) -> None:
        joined = getattr(self, f"join_{self.spots[way.node].join}")(way)
        if joined is None:
            return
        ways, ended, into = joined
        if into is None:
            self.enter(self.made(way.node, ways, ended))
            return
        for one in ways:
            self.end(one, into)
        for one in ways:
            for number in one.sets:
                self.try_again(number)

    @staticmethod
    def stands(way: Token) -> bool:
        return way.there and not way.done

    def at(self, node: str) -> list[Token]:
        return [way for way in self.ways if way.node == node and self.stands(way)]

    def newest(self, node: str) -> Token | None:
        return next((token for token in reversed(self.tokens) if token.node == node), None)

    def arcs_to(self, node: str) -> list[tuple[str, int, str]]:
        return [
            (spot.name, place, name)
            for spot in self.spots.values()
            for place, (name, to) in enumerate(spot.arcs)
            if to == node
        ]

    def join_or(self, way: Token) -> Any:
        return [way], (), None

    def join_first(self, way: Token) -> Any:
        return [way], (), self.newest(way.node)

    def join_and(self, way: Token, label: str | None = None) -> Any:
        deepest = max(way.sets, key=lambda number: self.sets[number][1], default=None)
        ways = []
        for arc in self.arcs_to(way.node):
            if label not in (None, arc[2]):
                continue
            there = [
                one
                for one in self.at(way.node)
                if one.arc == arc
                and (one.sets.get(deepest) == way.sets[deepest] if deepest is not None else not one.sets)
            ]
            if not there:
                return None
            ways.append(there[0])
        return ways, (), None

    def join_labelAnd(self, way: Token) -> Any:
        return self.join_and(way, way.arc[2])

    def join_tokenSet(self, way: Token) -> Any:
        return self.join_tokenSetOr(way) if way.sets else None

    def join_tokenSetOr(self, way: Token) -> Any:
        if not way.sets:
            return [way], (), None
        levels = {number: self.sets[number][1] for number in way.sets}
        name = self.spots[way.node].set_name
        named = [levels[number] for number in way.sets if self.sets[number][0] == name]
        chosen = [number for number in way.sets if levels[number] >= max(named or levels.values())]
        if not all(self.all_at(number, way.node) for number in chosen):
            return None
        members = [one for number in chosen for one in self.members(number)]
        return list(dict.fromkeys(members)), chosen, None

    def members(self, number: int) -> list[Token]:
        ways = [way for way in self.ways if number in way.sets and not way.done]
        return sorted(ways, key=lambda way: way.number)

    def all_at(self, number: int, node: str) -> bool:
        is_active = any(number in token.sets and not token.done for token in self.tokens)
        return not is_active and all(way.node == node for way in self.members(number))

    def join_joinlang(self, way: Token) -> Any:
        target = self.newest(way.node)
        for terms in self.spots[way.node].terms:
            parts = [(not if_p or next(self.says), *self.gathered(way, term)) for term, if_p in terms]
            needed = [part for part in parts if part[0]]
            if any(way in ways for _, ways, _ in needed) and all(enough for *_, enough in needed):
                return list(dict.fromkeys(one for _, ways, _ in parts for one in ways)), (), None
            others = list(dict.fromkeys(one for applies, ways, _ in parts if not applies for one in ways))
            if target is not None and way in others:
                return others, (), target
        return None

    def gathered(self, way: Token, term: Any) -> tuple[list[Token], bool]:
        there = self.at(way.node)
        if term[0] == "node":
            ways = [one for one in (way, *there) if one.arc[0] == term[1]][:1]
            return ways, bool(ways)
        if term[0] == "set":
            sets = [number for one in there for number in one.sets if self.sets[number][0] == term[1]]
            whole = bool(sets) and self.all_at(sets[0], way.node)
            return (self.members(sets[0]) if whole else []), whole
        arcs = [arc for arc in self.arcs_to(way.node) if term[2] in (None, arc[2])]
        firsts = [[one for one in there if one.arc == arc][:1] for arc in arcs]
        ways = [one for first in firsts for one in first]
        return ways, len(ways) >= min(len(arcs), term[1] or len(arcs))


def events(said: Dialogue) -> Iterator[tuple[Any, ...]]:
    """What has just been recorded, as far as the sections note it."""
    for change in said.decided:
        match change:
            case changes.NodeTokenCreated(token=token, node=node, sets=sets):
                yield "NodeTokenCreated", token, node, tuple(sorted(sets))
            case changes.NodeTokenCompleted(token=token, exits=exits):
                yield "NodeTokenCompleted", token, exits
            case changes.ArcTokenCompleted(token=token, child=child):
                yield "ArcTokenCompleted", token, child


def answers(seed: int) -> Iterator[bool]:
    chance = Random(seed)
    while True:
        yield chance.random() < 0.5


def go(seed: int) -> int:
    """Complete tokens at random, in the engine and by the sections; return how many events were equal."""
    chance = Random(seed)
    names = "abcdefg"[: chance.randint(3, 7)]
    spots = [Spot(chance, names, at) for at in range(len(names))]
    said = Dialogue(
        f'<process-definition name="p">{"".join(spot.xml() for spot in spots)}</process-definition>'
    )
    said.answers_to["predicate:p"] = partial(lambda says, _: next(says), answers(seed))
    sections = Sections(spots, answers(seed))
    run, equal = said.start("p", kind="process"), 0
    for _ in range(12):
        state = said.states[run]
        assert [*events(said)] == sections.events, "".join(spot.xml() for spot in spots)
        tokens = {token.number: token for token in sections.tokens}
        assert {number: token.environment for number, token in state.nodes.items()} == {
            number: token.environment for number, token in tokens.items()
        }
        waiting = [token for token in sections.tokens if not token.done]
        assert [*state.active_nodes] == [token.number for token in waiting]
        equal += len(sections.events)
        if not waiting:
            break
        sections.events.clear()
        token = chance.choice(waiting)
        said.says(run, "environment", token=token.number, set={chance.choice("uvw"): "1"})
        token.environment = dict(state.nodes[token.number].environment)
        arcs = chance.choice(
            [[name] * chance.choice((1, 1, 2)) for name, _ in sections.spots[token.node].arcs] or [[]]
        )
        count = chance.choice((1, 2, 3)) if chance.random() < 0.4 else None
        new = {"set": {"name": "S", "count": count}, "asynchronous": False} if count else {}
        try:
            said.says(run, "complete", token=token.number, arcs=arcs, **new)
        except Refusal as refusal:  # some token has come to a tokenSet that is in none; all others go on
            if refusal.kind != "no-token-set":
                raise
        sections.leave(token, arcs, count)
        sections.flow()
    return equal


def test_any_process_moves_as_the_sections_say() -> None:
    compared = 0
    for seed in range(200):
        try:
            compared += go(seed)
        except CircleError:
            continue
    assert compared > 2000
