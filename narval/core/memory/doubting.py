"""Doubt: which elements have no other source than what was withdrawn, or is doubtful itself."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from heapq import heapify, heappop, heappush

from narval.core.elements.element import Element
from narval.core.elements.outdated_element import NOTES
from narval.core.memory.memory import Memory


def is_doubtful(
    memory: Memory, element: Element, more: Container[int] = (), less: Container[int] = ()
) -> bool:
    """True if an element was made of something that was withdrawn or is doubtful, and of no other source; as
    if `more` were so too, and `less` were not doubtful.

    A note on what became of elements is not made of them.
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
    """True if something may have come from outside with an element, so that what was made of it rests on it.

    Two sorts are none: what `data/memory.xml` declares, because it is there for all; and what a step was
    given by the author of its definition, in which no element has entered but such.
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
    """The elements that would be doubtful because of these, were these withdrawn or doubtful: oldest first.
    Those that are doubtful already are among them.
    """
    eids = [*eids]
    there = {*eids}
    for element in _younger(memory, eids, there):
        if element.eid in memory.doubtful or is_doubtful(memory, element, more=there):
            there.add(element.eid)
    return sorted(there.difference(eids))


def cleared_after(memory: Memory, eids: Iterable[int]) -> list[int]:
    """The doubtful elements that would not be so any more, were these confirmed: oldest first."""
    eids = [*eids]
    cleared = {*eids}
    for element in _younger(memory, eids, cleared):
        if element.eid in memory.doubtful and not is_doubtful(memory, element, less=cleared):
            cleared.add(element.eid)
    return sorted(cleared.difference(eids))


def _younger(memory: Memory, eids: Iterable[int], followed: Container[int]) -> Iterator[Element]:
    """The elements made from some, oldest first, that were not withdrawn; and from each of those that is to
    be `followed`, once it was given. So what an element was made from comes before it.
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
