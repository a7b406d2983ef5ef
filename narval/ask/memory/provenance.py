"""The provenance of an element both ways: what it was made from, and what was made of it.

The way back follows the inputs that an origin names. The way forward has no index: it looks at what the runs
made that hold or used an element, and for a replaced one at the younger ones of its name.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice, takewhile
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of
from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.element_titles import title_in
from narval.core.elements.element import Element
from narval.core.elements.outdated_element import OUTDATED
from narval.core.errors import UnreadableError
from narval.system.time_slice import TimeSlice

DEEPEST = 6
"""The most steps that a provenance goes from its element."""
MOST_NODES = 200
"""The most elements of a provenance, each way."""
LOOK_FORWARD = 5000
"""The most elements and runs that are searched for what was made of one."""

Node = dict[str, Any]


class Makers:
    """The makers of elements, with details of those that are runs."""

    def __init__(self, agent: AgentState) -> None:
        self._agent = agent
        self._targets: dict[str, dict[str, str | None]] = {}
        """The targets of the parts of each version of a definition."""

    def node(self, eid: int, depth: int, begotten: Iterable[int], more: int) -> Node:
        """An element of a provenance, `depth` steps away, made from these shown ones and `more` others.

        A forgotten element has only its number.
        """
        element = self._agent.memory.element(eid)
        known = {"eid": eid, "depth": depth, "from": list(begotten), "more": more}
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
    time_slice, more = TimeSlice(), False
    depths, nodes = {element.eid: 0}, list[Node]()
    for eid in (order := [element.eid]):
        await time_slice.yield_if_due()
        found = agent.memory.element(eid)
        inputs = found.origin.inputs if found is not None and found.origin is not None else ()
        if depths[eid] < DEEPEST:
            for before in inputs:
                if before not in depths and len(depths) <= MOST_NODES:
                    depths[before] = depths[eid] + 1
                    order.append(before)
        linked = [before for before in inputs if before in depths]
        more = more or len(linked) < len(inputs)
        if eid != element.eid:
            nodes.append(makers.node(eid, depths[eid], linked, len(inputs) - len(linked)))
    return nodes, more


async def forward(agent: AgentState, makers: Makers, element: Element) -> tuple[list[Node], bool]:
    """The elements that were made of one, oldest first; and True if there may be more."""
    time_slice, left, more = TimeSlice(), LOOK_FORWARD, False
    depths, nodes = {element.eid: 0}, list[Node]()
    tracks = _Tracks(agent, element)
    left -= tracks.open(element.eid, left)
    for eid in tracks:
        await time_slice.yield_if_due()
        left -= 1
        if left <= 0:
            return nodes, True
        found = agent.memory.element(eid) if not agent.memory.is_run(eid) else None
        inputs = found.origin.inputs if found is not None and found.origin is not None else ()
        if depths.keys().isdisjoint(inputs):
            continue
        linked = [before for before in inputs if before in depths]
        depth = min(depths[before] for before in linked) + 1
        if len(nodes) == MOST_NODES:
            return nodes, True
        if depth > DEEPEST:
            more = True
            continue
        depths[eid] = depth
        nodes.append(makers.node(eid, depth, linked, len(inputs) - len(linked)))
        left -= tracks.open(eid, left)
    return nodes, more or left <= 0


class _Tracks:
    """The eids to look at for what was made of an element, oldest first, each once.

    When elements are found, the runs that hold or used them are followed too.
    """

    def __init__(self, agent: AgentState, element: Element) -> None:
        self._agent = agent
        self._runs: set[int] = set()
        self._serials = count()
        self._ahead: list[tuple[int, int, Iterator[int]]] = []
        if element.eid in agent.memory.outdated:  # mostly by a person, so maybe no run knows it
            younger = agent.memory.index.newest_named([element.name, OUTDATED])
            newest = islice(takewhile(lambda eid: eid > element.eid, younger), LOOK_FORWARD // 2)
            self._follow(iter(list(newest)[::-1]))

    def open(self, eid: int, most: int) -> int:
        """Follow the runs that hold or used an element, the youngest `most` of them; the number of all."""
        memory = self._agent.memory
        users = (run for _, run in memory.used_by(eid) if run)
        fresh = {*memory.contexts.holders(eid), *users} - self._runs
        runs = heapq.nlargest(max(most, 0), fresh)
        self._runs.update(runs)
        for run in runs:
            held = list(memory.contexts.of(run))
            self._follow(islice(held, bisect_right(held, eid), None))
        return len(fresh)

    def _follow(self, eids: Iterator[int]) -> None:
        first = next(eids, None)
        if first is not None:
            heapq.heappush(self._ahead, (first, next(self._serials), eids))

    def __iter__(self) -> Iterator[int]:
        last = 0
        while self._ahead:
            eid, _, eids = heapq.heappop(self._ahead)
            self._follow(eids)
            if eid > last:
                last = eid
                yield eid
