"""Walks over the graphs of definitions, without recursion: reachable nodes, and cycles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

Mark = TypeVar("Mark")


def reached(start: Iterable[str], edges: Iterable[tuple[Collection[str], Collection[str]]]) -> set[str]:
    """The nodes that can start: an edge is followed once all the nodes it leaves have started."""
    edges = list(edges)
    missing = [set(ins) for ins, _ in edges]
    leaving: dict[str, list[int]] = {}
    for number, ins in enumerate(missing):
        for node in ins:
            leaving.setdefault(node, []).append(number)
    seen: set[str] = set()
    pending = [*start, *(node for ins, outs in edges if not ins for node in outs)]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        for number in leaving.get(node, ()):
            missing[number].discard(node)
            if not missing[number]:
                pending.extend(edges[number][1])
    return seen


def cycles(after: Mapping[str, Iterable[tuple[str, Mark]]]) -> Iterator[tuple[list[str], Mark]]:
    """The cycles, given the successors of nodes: one for each edge that leads back in a depth-first walk.

    Each edge has a mark; that of the edge that leads back is returned with the cycle.
    """
    seen: set[str] = set()
    for root in after:
        path = {} if root in seen else {root: iter(after[root])}
        seen.add(root)
        while path:
            edge = next(path[next(reversed(path))], None)
            if edge is None:
                path.popitem()
            elif edge[0] in path:
                walked = list(path)
                yield walked[walked.index(edge[0]) :], edge[1]
            elif edge[0] not in seen:
                seen.add(edge[0])
                path[edge[0]] = iter(after.get(edge[0], ()))
