"""Descent: what was made from each element, by what the origins of elements name.

Memory has none until somebody asks what was made of an element: then all origins are read once, and each
element that comes or goes afterwards is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.core.elements.element import Element
from narval.core.memory.packed import ElementTable

SMALLEST = 64
"""A list of fewer eids is not looked through for those that are gone."""

Sent = tuple[str, int]
"""An element of another agent: the name of the agent, and the eid there."""


class Descent:
    """The elements that were made from each, and those that came from each element of another agent.

    It is complete when `reading` has come to its end. Whoever asks goes on with that, at once or by and by.
    """

    def __init__(self, elements: ElementTable) -> None:
        self._elements = elements
        self._made: dict[int | Sent, list[int]] = {}
        self._reading: Iterator[None] | None = None
        self.is_used = False
        """True once somebody has asked, so that what comes is to be noted."""

    @property
    def reading(self) -> Iterator[None]:
        """The work that is left before it is complete, an element at a time."""
        if self._reading is None:
            self._reading, self.is_used = self._read(list(self._elements)), True
        return self._reading

    def add(self, element: Element) -> None:
        """Note what an element was made from."""
        for source in _sources(element):
            made = self._made.setdefault(source, [])
            if len(made) >= SMALLEST and not len(made) & (len(made) - 1):  # so rarely that it costs little
                made[:] = [eid for eid in made if eid in self._elements]
            made.append(element.eid)

    def discard(self, element: Element) -> None:
        """Let nothing be made from an element that is gone."""
        self._made.pop(element.eid, None)

    def of(self, eid: int) -> list[int]:
        """The eids of the elements that were made from one, oldest first."""
        return self._there(eid)

    def received(self, agent: str, eid: int) -> list[int]:
        """The eids of those that another agent's element was sent as, or that were made from it there."""
        return self._there((agent, eid))

    def _there(self, source: int | Sent) -> list[int]:
        made = self._made.get(source)
        return sorted({eid for eid in made if eid in self._elements}) if made else []

    def _read(self, eids: list[int]) -> Iterator[None]:
        for eid in eids:
            if (element := self._elements.get(eid)) is not None:
                self.add(element)
            yield


def _sources(element: Element) -> Iterable[int | Sent]:
    origin = element.origin
    if origin is None:
        return ()
    if not origin.agent:
        return dict.fromkeys(origin.inputs)
    there = (*origin.sent_as, *origin.made_there)
    return dict.fromkeys((*origin.inputs, *((origin.agent, eid) for eid in there)))
