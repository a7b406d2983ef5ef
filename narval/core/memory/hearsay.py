"""Hearsay: the elements and runs into which a language model's answer has entered, directly or not.

Each is marked in memory as an element is that was used, so the mark is recorded, undone and forgotten in the
same ways. What is marked stays so though what it came from is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from narval.core.elements.changes import HEARSAY, Added, Change, Held
from narval.core.elements.element import Element
from narval.core.memory.memory import Memory


def is_hearsay(memory: Memory, eids: Iterable[int]) -> bool:
    """True if one of these elements or runs is marked."""
    marked = memory.marks.get(HEARSAY)
    return marked is not None and not marked.keys().isdisjoint(eids)


def spreads_to(memory: Memory, change: Change) -> tuple[int, int]:
    """The element and the run that a change makes hearsay, 0 for none.

    An element is if it was made of hearsay, or by a run that is, or says something of such a run; a run is
    that holds such an element.
    """
    if type(change) is Held:
        return 0, change.run if is_hearsay(memory, change.eids) else 0
    if type(change) is not Added or not _came_of(memory, change.element):
        return 0, 0
    return change.element.eid, change.held


def _came_of(memory: Memory, element: Element) -> bool:
    origin = element.origin
    if origin is None:
        return False
    return is_hearsay(memory, (origin.run, *origin.inputs))
