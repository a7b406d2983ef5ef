"""Lineage: an element and those that it replaced, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import inf

from narval.memory.elements.changes import MarkScope
from narval.memory.elements.element import Element
from narval.memory.memory import Memory
from narval.memory.patterns.pattern import Bound


def fits_since(memory: Memory, eid: int, bound: Bound, scope: MarkScope | None, known: float = inf) -> float:
    """The moment when an element that fits was added, or the first of those that it replaced (N38).

    It replaced those it was made from that are outdated, fitted and were not used by `scope`. An element that
    was replaced and forgotten since is not found any more; `known` is the moment found before it was.
    """
    used = memory.marks.get(scope, ()) if scope is not None else ()
    since, pending, seen = known, [eid], {eid}
    while pending:
        element = memory.element(pending.pop())
        if element is None:
            continue
        since = min(since, element.added)
        for before in element.origin.inputs if element.origin is not None else ():
            if before in memory.outdated and before not in used and before not in seen:
                seen.add(before)
                replaced = memory.element(before)
                if replaced is not None and bound.test(memory.tree(replaced)):
                    pending.append(before)
    return since


def current(memory: Memory, eid: int) -> int | None:
    """The element that counts in place of another: itself, or what has replaced it, one after another (N43).

    An element is replaced by the youngest of its name that was made from it. None where it is outdated and
    nothing has replaced it.
    """
    while eid in memory.outdated or eid not in memory:
        element = memory.element(eid)
        if element is None:
            return None
        younger = takewhile(eid.__lt__, memory.index.newest_named((element.name,)))
        new = next((new for new in younger if eid in _made_from(memory, new)), None)
        if new is None:
            return None
        eid = new
    return eid


def _made_from(memory: Memory, eid: int) -> tuple[int, ...]:
    element = memory.element(eid)
    return element.origin.inputs if element is not None and element.origin is not None else ()


def made_of(memory: Memory, eid: int) -> Iterator[tuple[Element, bool] | None]:
    """Each younger element, oldest first: with True if it was made from the element, with False if from what
    was made of it; None for one that was not.
    """
    family = {eid}
    for younger in memory:
        if younger <= eid or memory.is_run(younger):
            continue
        element = memory.element(younger)
        inputs = element.origin.inputs if element is not None and element.origin is not None else ()
        if element is None or family.isdisjoint(inputs):
            yield None
        else:
            family.add(younger)
            yield element, eid in inputs
