"""A graph along which labels travel, from their starting points to everything they can reach."""

from __future__ import annotations

import heapq
from collections import deque
from functools import cached_property

PLAIN, MEMORY, CODE = 0, 1, 2
"""The kinds of edges; a path with both is `MEMORY | CODE`."""

_DETOUR = 1_000
"""The cost of an edge that is not plain, in plain edges."""


class LabelGraph:
    """Nodes, edges between them, and the labels that start at some nodes. It must not be altered once it has
    been read.
    """

    def __init__(self) -> None:
        self._after: list[dict[int, int]] = []
        self._before: list[dict[int, int]] = []
        self._seeds: dict[int, int] = {}
        self._labels: list[str] = []
        self._bits: dict[str, int] = {}

    def node(self) -> int:
        """Add a node."""
        self._after.append({})
        self._before.append({})
        return len(self._after) - 1

    def edge(self, source: int, target: int, kind: int = PLAIN) -> None:
        """Connect one node to another; of two edges between them the plainer one counts."""
        had = self._after[source].get(target)
        if source != target and (had is None or kind < had):
            self._after[source][target] = self._before[target][source] = kind

    def seed(self, node: int, label: str) -> None:
        """Start a label at a node."""
        if label not in self._bits:
            self._bits[label] = 1 << len(self._labels)
            self._labels.append(label)
        self._seeds[node] = self._seeds.get(node, 0) | self._bits[label]

    def labels(self, node: int, kind: int = PLAIN) -> frozenset[str]:
        """The labels that reach a node by paths of a kind, and by no plainer ones."""
        bits = self._reached[node][kind]
        return frozenset(name for at, name in enumerate(self._labels) if bits >> at & 1)

    def way(self, node: int, label: str) -> list[int]:
        """The nodes on a label's path to a node, from the start; [] if it does not reach the node.

        It is the cheapest path: first with the fewest edges that are not plain, then with the fewest edges.
        """
        bit = self._bits.get(label, 0)
        cost, onward, waiting = {node: 0}, dict[int, int](), [(0, node)]
        while waiting:
            so_far, at = heapq.heappop(waiting)
            if so_far > cost[at]:
                continue
            if self._seeds.get(at, 0) & bit:
                way = [at]
                while way[-1] != node:
                    way.append(onward[way[-1]])
                return way
            for source, kind in self._before[at].items():
                total = so_far + (1 if kind == PLAIN else _DETOUR)
                if total < cost.get(source, total + 1) and any(bits & bit for bits in self._reached[source]):
                    cost[source], onward[source] = total, at
                    heapq.heappush(waiting, (total, source))
        return []

    @cached_property
    def _reached(self) -> list[list[int]]:
        """For each node, the bits of the labels that reach it, by the kind of the plainest path."""
        reached = [[0, 0, 0, 0] for _ in self._after]
        for node, bits in self._seeds.items():
            reached[node][PLAIN] = bits
        waiting = deque(self._seeds)
        queued = set(waiting)
        while waiting:
            source = waiting.popleft()
            queued.discard(source)
            for target, kind in self._after[source].items():
                if _pass_on(reached[source], reached[target], kind) and target not in queued:
                    queued.add(target)
                    waiting.append(target)
        return reached


def _pass_on(source: list[int], target: list[int], kind: int) -> bool:
    """Pass labels from one node to another along an edge; True if any is new there."""
    is_news = False
    for by, bits in enumerate(source):
        to = by | kind
        news = bits & ~(target[PLAIN] | target[to] | target[to & MEMORY] | target[to & CODE])
        if news:
            target[to] |= news
            is_news = True
    return is_news
