"""Descent: what was made from each element, according to the origins of elements.

It is empty until the first question about an element: then all origins are read once, and later additions and
removals are recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.core.elements.element import Element
from narval.core.memory.packed import ElementTable

Sent = tuple[str, int]
"""An element of another agent: the name of the agent, and the eid there."""


class Descent:
    """The elements made from each element, and those that came from each element of another agent.

    It is complete when `reading` has ended. Callers continue the reading, at once or step by step.
    """

    def __init__(self, elements: ElementTable) -> None:
        self._elements = elements
        self._made: dict[int | Sent, list[int]] = {}
        self._gone: dict[int | Sent, int] = {}
        """The number of entries of each list that have gone since it was last cleaned."""
        self._reading: Iterator[None] | None = None
        self.is_used = False
        """True after the first question: new elements are recorded from then on."""

    @property
    def reading(self) -> Iterator[None]:
        """The remaining work before it is complete, one element at a time."""
        if self._reading is None:
            self._reading, self.is_used = self._read(list(self._elements)), True
        return self._reading

    def add(self, element: Element) -> None:
        """Record what an element was made from."""
        for source in _sources(element):
            made = self._made.setdefault(source, [])
            made.append(element.eid)

    def discard(self, element: Element) -> None:
        """Remove an element that is gone, both as a source and as a product."""
        self._made.pop(element.eid, None)
        self._gone.pop(element.eid, None)
        for source in _sources(element):
            made = self._made.get(source)
            if made is None:
                continue
            gone = self._gone[source] = self._gone.get(source, 0) + 1
            if 2 * gone >= len(made):  # rare, so it costs little
                self._look_through(source, made)

    def _look_through(self, source: int | Sent, made: list[int]) -> None:
        """Remove from a list the elements that are gone, and the list if it is empty."""
        made[:] = [eid for eid in made if eid in self._elements]
        self._gone.pop(source, None)
        if not made:
            del self._made[source]

    def of(self, eid: int) -> list[int]:
        """The eids of the elements made from one, oldest first."""
        return self._there(eid)

    def received(self, agent: str, eid: int) -> list[int]:
        """The eids of the elements sent as another agent's element, or made from it there."""
        return self._there((agent, eid))

    def _there(self, source: int | Sent) -> list[int]:
        made = self._made.get(source)
        if made is None:
            return []
        if len(made) == 1:  # the usual case
            return made[:] if made[0] in self._elements else []
        return sorted({eid for eid in made if eid in self._elements})

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
