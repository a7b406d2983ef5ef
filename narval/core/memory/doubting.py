"""Doubt: the elements whose only sources are withdrawn, or doubtful themselves."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from heapq import heapify, heappop, heappush

from narval.core.elements.element import Element
from narval.core.elements.own_elements import NOTES
from narval.core.memory.memory import Memory


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
