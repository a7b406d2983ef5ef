"""Places: the elements that can exist in a home, determined before it runs, as nodes of a graph along which
labels travel; and which of them a search can find.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from narval.core.definitions.library import Definition
from narval.core.memory.labels import SECRET
from narval.core.patterns.contradictions import exclusive, necessary
from narval.core.patterns.pattern import Condition, Pattern
from narval.core.trust.flow import Literal
from narval.core.trust.paths import is_within


class Place(NamedTuple):
    """An element that can exist, or a run: with a node for each part that has labels of its own."""

    title: str
    """The title for people."""
    definition: Definition | None
    """The definition whose runs make it; None if there is none."""
    part: str
    """The step that makes it."""
    nodes: dict[str, int]
    """The nodes by path; "" is everything in no other part."""
    whether: int
    """The graph node of the decision to create it (its `decided by` labels)."""
    number: int
    """Its number among all places."""

    @property
    def bit(self) -> int:
        """The place as a set of places, which is a number with a bit for each."""
        return 1 << self.number

    def of_part(self, path: str) -> list[int]:
        """The nodes of a part and everything in it; "" is the whole."""
        if not path or len(self.nodes) == 1:
            return list(self.nodes.values())
        around = max((outer for outer in self.nodes if is_within(path, outer)), key=len)
        inside = [inner for inner in self.nodes if inner != around and is_within(inner, path)]
        return [self.nodes[each] for each in (around, *inside)]


class Source(Protocol):
    """Elements from which others are made, or that calls are given."""

    @property
    def paths(self) -> Iterable[str]:
        """The paths of the parts that any of them has."""

    def of_part(self, path: str) -> Iterable[int]:
        """The nodes of a part of them and everything in it; "" is the whole."""

    def rest(self) -> Iterable[int]:
        """The nodes of what is in no part of its own."""

    def whether(self) -> Iterable[int]:
        """The nodes of the decisions to create them."""


class Places:
    """Several places as one source."""

    def __init__(self, places: Iterable[Place]) -> None:
        self.places = tuple(places)
        self._of_part: dict[str, list[int]] = {}

    @cached_property
    def paths(self) -> frozenset[str]:
        """The paths of the parts that any of them has."""
        return frozenset(path for place in self.places for path in place.nodes)

    def of_part(self, path: str) -> list[int]:
        """The nodes of a part of them and everything in it; "" is the whole."""
        if path not in self._of_part:
            self._of_part[path] = [node for place in self.places for node in place.of_part(path)]
        return self._of_part[path]

    def rest(self) -> list[int]:
        """The nodes of what is in no part of its own."""
        return [place.nodes[""] for place in self.places]

    def whether(self) -> list[int]:
        """The nodes of the decisions to create them."""
        return [place.whether for place in self.places]


class _Joined:
    """Several sources as one, with one node for each part, so that edges do not multiply."""

    def __init__(
        self, graph: LabelGraph, sources: Sequence[tuple[Source, int]], labels: Iterable[str] = ()
    ) -> None:
        self._graph, self._sources, self._labels = graph, sources, tuple(labels)
        self._nodes: dict[str, int] = {}

    @cached_property
    def paths(self) -> frozenset[str]:
        return frozenset(path for source, _ in self._sources for path in source.paths)

    def of_part(self, path: str) -> list[int]:
        return self._node(
            path, ((node, kind) for source, kind in self._sources for node in source.of_part(path))
        )

    def rest(self) -> list[int]:
        return self._node("/", ((node, kind) for source, kind in self._sources for node in source.rest()))

    def whether(self) -> list[int]:
        return self._node("?", ((node, kind) for source, kind in self._sources for node in source.whether()))

    def _node(self, key: str, nodes: Iterable[tuple[int, int]]) -> list[int]:
        if key not in self._nodes:
            joined = self._nodes[key] = self._graph.node()
            for node, kind in nodes:
                self._graph.edge(node, joined, kind)
            for label in self._labels if key != "?" else ():
                self._graph.seed(joined, label)
        return [self._nodes[key]]


class _Alike:
    """Places with similar elements: those that match one condition, or those that an author wrote."""

    def __init__(self, of: Condition | Literal | None) -> None:
        self.of = of
        self.places: list[Place] = []

        self.names = names_of(of)
        """The names that its elements can have; None: any."""
        self.bits = 0
        """The places as a set."""


class PossibleMemory:
    """The elements that memory can contain, by what is known about them. `secrets` are labels, each with the
    pattern of the elements that have it.
    """

    def __init__(self, graph: LabelGraph, secrets: Iterable[tuple[str, Pattern]]) -> None:
        self._graph = graph
        self._secrets = [(label, Condition((pattern,))) for label, pattern in secrets]
        self._alike: dict[object, _Alike] = {}
        self._known: dict[int, list[Condition | Literal | None]] = {}
        """The known facts about the elements of each place."""
        self._by_name: dict[str | None, list[_Alike]] = {}
        self._joined: dict[object, _Joined] = {}
        self._found: dict[object, _Joined] = {}
        self._fitting: dict[object, int] = {}

    def enter(
        self, place: Place, of: Condition | Literal | None = None, *, may_be_secret: bool = True
    ) -> None:
        """Enter the elements of a place into memory: they match a condition, or are written by an author;
        None: any. Without `may_be_secret` they have the label of a secret only if they are searched by a
        condition that the secret can match.
        """
        key = of.patterns if isinstance(of, Condition) else of
        if key not in self._alike:
            alike = self._alike[key] = _Alike(of)
            for name in (None,) if alike.names is None else alike.names:
                self._by_name.setdefault(name, []).append(alike)
        self._alike[key].places.append(place)
        self._alike[key].bits |= place.bit
        self._fitting.clear()
        self._known.setdefault(place.nodes[""], []).append(of)
        for label, secret in self._secrets if may_be_secret else ():
            if may_be(secret, of):
                for node in place.nodes.values():
                    self._graph.seed(node, label)

    def enter_as(self, place: Place, other: Place) -> None:
        """Enter the elements of a place into memory like those of another."""
        for of in self._known.get(other.nodes[""], ()):
            self.enter(place, of)

    def may_be_named(self, place: Place, names: Iterable[str]) -> bool:
        """True unless it is proved that no element of a place has one of these names."""
        known = (names_of(of) for of in self._known.get(place.nodes[""], (None,)))
        return any(one is None or not one.isdisjoint(names) for one in known)

    def named(self, *names: str) -> Iterator[tuple[Place, Condition | Literal | None]]:
        """The places whose elements can have one of these names, with what is known about them."""
        alike = dict.fromkeys(each for name in (*names, None) for each in self._by_name.get(name, ()))
        return ((place, each.of) for each in alike for place in each.places)

    def search(self, fits: Condition | None) -> Source:
        """All elements that can match a condition; None: all. No place may enter after this.

        Elements that may have any name are among them only if code makes them so.
        """
        key = None if fits is None else fits.patterns
        if key not in self._found:
            is_named = fits is not None and fits.names is not None
            fitting = [
                (self._of(each), CODE if each.names is None and is_named else PLAIN)
                for each in self._near(fits)
            ]
            secrets = [label for label, secret in self._secrets if may_be(secret, fits)]
            self._found[key] = _Joined(self._graph, fitting, secrets)
        return self._found[key]

    def fitting(self, fits: Condition) -> int:
        """The set of the places of which an element can match a condition."""
        if fits.patterns not in self._fitting:
            bits = 0
            for each in self._near(fits):
                bits |= each.bits
            self._fitting[fits.patterns] = bits
        return self._fitting[fits.patterns]

    def _near(self, fits: Condition | None) -> list[_Alike]:
        """The places with elements that can match a condition; None: all."""
        names = None if fits is None else fits.names
        near: Iterable[_Alike] = self._alike.values()
        if names is not None:
            near = (each for name in (*sorted(names), None) for each in self._by_name.get(name, ()))
        return [each for each in dict.fromkeys(near) if may_be(fits, each.of)]

    def _of(self, alike: _Alike) -> _Joined:
        if alike not in self._joined:
            self._joined[alike] = _Joined(self._graph, ((Places(alike.places), PLAIN),))
        return self._joined[alike]


def names_of(of: Condition | Literal | None) -> frozenset[str] | None:
    """The names that elements with these known facts can have; None: any."""
    if isinstance(of, Literal):
        return frozenset({of.name})
    return None if of is None else of.names


def may_be(fits: Condition | None, of: Condition | Literal | None) -> bool:
    """True unless it is proved that no element with these known facts matches a condition."""
    if fits is None or of is None:
        return True
    if isinstance(of, Literal):
        return _may_be_written(fits, of)
    if fits.names is not None and of.names is not None and fits.names.isdisjoint(of.names):
        return False
    return not any(exclusive(one, other) for one in fits.patterns for other in of.patterns)


def _may_be_written(fits: Condition, literal: Literal) -> bool:
    if fits.names is not None and literal.name not in fits.names:
        return False
    written = dict(literal.attributes)
    return all(
        any(
            key.tag in (None, literal.name)
            and all(written.get(attribute) in (None, value) for attribute, value in key.eq)
            for key in necessary(pattern)
        )
        for pattern in fits.patterns
    )


# --- labels on their way ----------------------------------------------------------------------------------

PLAIN, MEMORY, CODE, SECRETS = 0, 1, 2, 4
"""The kinds of edges; one that is of two kinds has both bits. Through an edge of `SECRETS` only the labels of
secrets pass.
"""

_KINDS = 4
"""The kinds of paths: plain, and those with an edge of memory, of code, of both."""

_DETOUR = 1_000
"""The cost of an edge of memory or code, in plain edges."""


class LabelGraph:
    """Nodes, edges between them, and the labels that start at some nodes. It must not be altered once it has
    been read.
    """

    def __init__(self) -> None:
        self._after: list[dict[int, int]] = []
        self._seeds: dict[int, set[str]] = {}
        self._sets: dict[int, list[frozenset[str]]] = {}

    def node(self) -> int:
        """Add a node."""
        self._after.append({})
        return len(self._after) - 1

    def edge(self, source: int, target: int, kind: int = PLAIN) -> None:
        """Connect one node to another; of two edges between them the plainer one counts."""
        self.connect((source,), (target,), kind)

    def connect(self, sources: Iterable[int], targets: Collection[int], kind: int = PLAIN) -> None:
        """Connect each of some nodes to each of others."""
        for source in sources:
            after = self._after[source]
            for target in targets:
                if source != target and after.get(target, kind) >= kind:
                    after[target] = kind

    def seed(self, node: int, label: str) -> None:
        """Start a label at a node."""
        self._seeds.setdefault(node, set()).add(label)

    def labels(self, node: int) -> list[frozenset[str]]:
        """The labels that reach a node by paths of each kind, and by no plainer ones."""
        bits = self._reached[node]
        if bits not in self._sets:
            width, names = len(self._bits), list(enumerate(self._bits))
            of_kinds = [bits >> kind * width for kind in range(_KINDS)]
            plain, by_memory, by_code, by_both = of_kinds
            of_kinds[1:] = by_memory & ~plain, by_code & ~plain, by_both & ~(by_memory | by_code)
            self._sets[bits] = [frozenset(name for at, name in names if kind >> at & 1) for kind in of_kinds]
        return self._sets[bits]

    def way(self, node: int, label: str) -> list[int]:
        """The nodes on a label's path to a node, from the start; [] if it does not reach the node.

        It is the cheapest path: first with the fewest edges that are not plain, then with the fewest edges.
        """
        bits = self._bits.get(label, 0)
        cost, onward, waiting = {node: 0}, dict[int, int](), [(0, node)]
        while waiting:
            so_far, at = heapq.heappop(waiting)
            if so_far > cost[at]:
                continue
            if label in self._seeds.get(at, ()):
                way = [at]
                while way[-1] != node:
                    way.append(onward[way[-1]])
                return way
            for source, kind in self._before[at].items():
                total = so_far + (_DETOUR if kind & (MEMORY | CODE) else 1)
                if total < cost.get(source, total + 1) and self._reached[source] & self._passing[kind] & bits:
                    cost[source], onward[source] = total, at
                    heapq.heappush(waiting, (total, source))
        return []

    @cached_property
    def _bits(self) -> dict[str, int]:
        """The bits of each label: one for each kind of paths."""
        labels = sorted({label for seeds in self._seeds.values() for label in seeds})
        return {
            label: sum(1 << kind * len(labels) for kind in range(_KINDS)) << at
            for at, label in enumerate(labels)
        }

    @cached_property
    def _passing(self) -> list[int]:
        """The bits that pass an edge of each kind: those of the paths that stay of their kind."""
        all_labels = (1 << len(self._bits)) - 1
        of_kinds = [
            sum(all_labels << to * len(self._bits) for to in range(_KINDS) if to & kind == kind)
            for kind in range(_KINDS)
        ]
        secrets = sum(bits for label, bits in self._bits.items() if label.startswith(SECRET))
        return [*of_kinds, *(bits & secrets for bits in of_kinds)]

    @cached_property
    def _reached(self) -> list[int]:
        """For each node the bits of the labels that reach it: by paths of each kind, or by plainer ones."""
        reached, passing = [0] * len(self._after), self._passing
        for node, labels in self._seeds.items():
            reached[node] = sum(self._bits[label] for label in labels)
        waiting = deque(self._seeds)
        queued = set(waiting)
        while waiting:
            source = waiting.popleft()
            queued.discard(source)
            bits = reached[source]
            for target, kind in self._after[source].items():
                news = bits & passing[kind] & ~reached[target]
                if news:
                    reached[target] |= news
                    if target not in queued:
                        queued.add(target)
                        waiting.append(target)
        return reached

    @cached_property
    def _before(self) -> list[dict[int, int]]:
        """For each node the edges that lead to it."""
        before: list[dict[int, int]] = [{} for _ in self._after]
        for source, targets in enumerate(self._after):
            for target, kind in targets.items():
                before[target][source] = kind
        return before
