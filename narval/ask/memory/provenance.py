"""The provenance of an element both ways: what it was made from, and what was made from it.

The way back follows the inputs that an origin names, the way forward the index of what was made from each
element (`narval.core.memory.descent`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from functools import partial
from itertools import chain
from math import inf
from typing import Any, TypeVar

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of
from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.element_titles import title_in
from narval.core.elements.element import Element
from narval.core.errors import UnreadableError
from narval.core.memory.descent import Descent
from narval.core.memory.lineage import made_from
from narval.core.memory.memory import Memory
from narval.system.time_slice import TimeSlice

DEEPEST = 6
"""The most steps that a provenance goes from its element."""
MOST_NODES = 200
"""The most elements of a provenance, each way."""
LOOKED_AT = 16
"""The number of elements between two checks of the time."""

Node = dict[str, Any]
Place = TypeVar("Place", bound=Hashable)
"""An element, by its eid, or by its agent and its eid."""


class Makers:
    """The makers of elements, with details of those that are runs."""

    def __init__(self, agent: AgentState) -> None:
        self._agent = agent
        self._targets: dict[str, dict[str, str | None]] = {}
        """The targets of the parts of each version of a definition."""

    def node(self, eid: int, depths: Mapping[int, int]) -> Node:
        """An element of a provenance; `depths` has the distance of each listed element, in steps.

        A forgotten element has only its number.
        """
        element, inputs = self._agent.memory.element(eid), made_from(self._agent.memory, eid)
        begotten = [before for before in inputs if before in depths]
        known = {"eid": eid, "depth": depths[eid], "from": begotten, "more": len(inputs) - len(begotten)}
        if element is None:
            nothing = {"name": None, "title": ""}
            return {**known, **nothing, "added": None, "origin": None, **self.maker(None)}
        origin = json_forms.origin(element.origin)
        if origin is not None:
            origin.pop("inputs", None)
        row = {
            "name": element.name,
            "title": title_in(element),
            "added": json_forms.moment(element.added),
            "origin": origin,
        }
        return {**known, **row, **self.maker(element)}

    def maker(self, element: Element | None) -> Node:
        """The definition and state of the run that made an element, and the target of its step; None if the
        run is forgotten or there is none.
        """
        run_of, state, target = self.maker_of(element)
        return {"run_of": run_of, "state": state, "target": target}

    def maker_of(self, element: Element | None) -> tuple[str | None, str | None, str | None]:
        """The same three as a tuple."""
        origin = element.origin if element is not None else None
        run = self._agent.runs.get(origin.run) if origin is not None else None
        if run is None or origin is None:
            return None, None, None
        if run.digest not in self._targets:
            self._targets[run.digest] = self._called_in(run)
        return run.name, run.status, self._targets[run.digest].get(origin.step)

    def _called_in(self, run: Run) -> dict[str, str | None]:
        try:
            definition = definition_of(self._agent, run)
        except UnreadableError:
            return {}
        parts = run.engine.parts(definition, run.engine.state_type.blank(run.eid, definition))
        return {row["id"]: row.get("target") for row in chain.from_iterable(parts.values())}


async def back(agent: AgentState, makers: Makers, element: Element) -> tuple[list[Node], bool]:
    """The elements that one was made from, nearest first; and True if there are more."""
    before = partial(made_from, agent.memory)
    depths, more = await reached(element.eid, before, DEEPEST, MOST_NODES)
    return [makers.node(eid, depths) for eid in depths if eid != element.eid], more


async def forward(agent: AgentState, makers: Makers, element: Element) -> tuple[list[Node], bool]:
    """The nearest elements that were made from one, oldest first; and True if there are more."""
    descent = await descent_of(agent.memory, TimeSlice())
    depths, more = await reached(element.eid, descent.of, DEEPEST, MOST_NODES)
    return [makers.node(eid, depths) for eid in sorted(depths) if eid != element.eid], more


async def descent_of(memory: Memory, time_slice: TimeSlice) -> Descent:
    """The index of what was made from each element of a memory, made now if it does not exist yet."""
    for _ in memory.descent.reading:
        await time_slice.yield_if_due()
    return memory.descent


async def reached(
    start: Place,
    neighbours: Callable[[Place], Iterable[Place]],
    deepest: float = inf,
    most: float = inf,
    ready: Callable[[Place], Awaitable[None]] | None = None,
) -> tuple[dict[Place, int], bool]:
    """The distance, in steps, of each element reached from one, nearest first, at most `most` besides itself;
    and True if there are more. `ready` is awaited for each before its neighbours are requested.
    """
    time_slice, depths, more = TimeSlice(), {start: 0}, False
    for number, place in enumerate(ahead := [start]):
        if not number % LOOKED_AT:
            await time_slice.yield_if_due()
        if ready is not None:
            await ready(place)
        for other in neighbours(place):
            if other in depths:
                continue
            if depths[place] >= deepest or len(depths) > most:
                more = True
                break
            depths[other] = depths[place] + 1
            ahead.append(other)
    return depths, more
