"""Lineage: an element and those that it replaced, one after another."""

from __future__ import annotations

from itertools import takewhile
from math import inf

from narval.core.elements.changes import MarkScope
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound


def fits_since(memory: Memory, eid: int, bound: Bound, scope: MarkScope | None, known: float = inf) -> float:
    """The moment when a matching element was added, or the first of those that it replaced.

    It replaced the elements it was made from that are outdated, matched and were not used by `scope`.
    Forgotten replaced elements are no longer found; `known` is the moment found before that.
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


def in_force(memory: Memory, eid: int) -> list[int]:
    """The versions of an element that are valid now, oldest first: itself, or those of its name that replaced
    it, one after another; none if nothing replaced it, or it is forgotten.

    Reads all younger elements of its name.
    """
    element = memory.element(eid)
    if element is None or eid not in memory.outdated:
        return [] if element is None else [eid]
    younger = list(takewhile(lambda other: other > eid, memory.index.newest_named([element.name])))
    versions, found = {eid}, []
    for other in reversed(younger):
        if not versions.isdisjoint(made_from(memory, other)):
            if other in memory.outdated:
                versions.add(other)
            else:
                found.append(other)
    return found


def current(memory: Memory, eid: int) -> int | None:
    """The valid version of an element: itself, or the youngest that replaced it, or None.

    A recent replacement is among the youngest of its name, so few elements are read.
    """
    there = eid
    while there in memory.outdated and (element := memory.element(there)) is not None:
        younger = takewhile(there.__lt__, memory.index.newest_named([element.name]))
        new = next((new for new in younger if there in made_from(memory, new)), None)
        if new is None:
            versions = in_force(memory, eid) if there != eid else ()
            return versions[-1] if versions else None
        there = new
    return there if there in memory else None


def replaced_by(memory: Memory, eid: int) -> tuple[int, ...]:
    """The eids that an element replaced; none if it is forgotten or replaced nothing."""
    element = memory.element(eid)
    return element.origin.replaces if element is not None and element.origin is not None else ()


def made_from(memory: Memory, eid: int) -> tuple[int, ...]:
    """The eids that an element was made from; none if it is forgotten or its origin is unknown."""
    element = memory.element(eid)
    return element.origin.inputs if element is not None and element.origin is not None else ()
