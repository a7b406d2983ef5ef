"""Lineage: an element, those that it replaced, one after another, and those that it was made from; and doubt,
where these sources are withdrawn, or doubtful themselves.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import takewhile
from math import inf

from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element
from narval.core.elements.own_elements import NOTES
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
    versions, versions_in_force = {eid}, []
    for other in reversed(younger):
        if not versions.isdisjoint(made_from(memory, other)):
            if other in memory.outdated:
                versions.add(other)
            else:
                versions_in_force.append(other)
    return versions_in_force


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


# --- doubt ------------------------------------------------------------------------------------------------


def is_doubtful(
    memory: Memory, element: Element, more: Container[int] = (), less: Container[int] = ()
) -> bool:
    """True if an element was made only from elements that are withdrawn or doubtful. Elements in `more` count
    as doubtful too; those in `less` do not.

    A note about elements is not made from them.
    """
    origin = element.origin
    if origin is None or not origin.inputs or element.name in NOTES:
        return False
    withdrawn, doubtful = memory.withdrawn, memory.doubtful
    good = [
        eid
        for eid in origin.inputs
        if eid not in more and eid not in withdrawn and (eid not in doubtful or eid in less)
    ]
    return len(good) < len(origin.inputs) and not any(is_source(memory, eid) for eid in good)


def is_source(memory: Memory, eid: int) -> bool:
    """True if an element may have brought something from outside, so that it supports what was made from it.

    Two sorts are no source: what `data/memory.xml` declares, because it exists for everything; and what the
    author of a definition gave a step, made only from such elements.
    """
    ahead, seen = [eid], {eid}
    while ahead:
        eid = ahead.pop()
        if eid in memory.declared:
            continue
        element = memory.elements.get(eid)
        origin = element.origin if element is not None else None
        if origin is None or not origin.run or not origin.step or origin.call or origin.agent:
            return True
        before = {*origin.inputs} - seen
        seen |= before
        ahead += before
    return False


def doubtful_after(memory: Memory, eids: Iterable[int]) -> list[int]:
    """The elements that would be doubtful if these were withdrawn or doubtful, oldest first, including those
    that are already doubtful.
    """
    eids = [*eids]
    there = {*eids}
    for element in _younger(memory, eids, there):
        if element.eid in memory.doubtful or is_doubtful(memory, element, more=there):
            there.add(element.eid)
    return sorted(there.difference(eids))


def cleared_after(memory: Memory, eids: Iterable[int]) -> list[int]:
    """The doubtful elements that would no longer be doubtful if these were confirmed, oldest first."""
    eids = [*eids]
    cleared = {*eids}
    for element in _younger(memory, eids, cleared):
        if element.eid in memory.doubtful and not is_doubtful(memory, element, less=cleared):
            cleared.add(element.eid)
    return sorted(cleared.difference(eids))


def _younger(memory: Memory, eids: Iterable[int], followed: Container[int]) -> Iterator[Element]:
    """The elements made from these and not withdrawn, oldest first, and those made from each yielded element
    that is in `followed` by then. So an element comes after what it was made from.
    """
    made_of = memory.descent.of
    for _ in memory.descent.reading:
        pass
    ahead = [made for eid in eids for made in made_of(eid)]
    heapify(ahead)
    last = 0
    while ahead:
        eid = heappop(ahead)
        if eid == last or eid in memory.withdrawn or (element := memory.elements.get(eid)) is None:
            continue
        last = eid
        yield element
        if eid in followed:
            for made in made_of(eid):
                heappush(ahead, made)
