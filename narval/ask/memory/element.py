"""The operation `element`: the details of one element, its provenance both ways, and its story.

The way back, to what it was made from, follows the inputs that an origin names. The way forward follows the
index of what was made from each element (`narval.core.memory.packed`). The story adds which runs wait for
such an element.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from math import inf
from typing import Any, TypeVar

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.json_forms import moment, run_of
from narval.ask.lookup import command, nothing_at
from narval.ask.registry import operation
from narval.ask.runs.conditions import obstacle_of
from narval.ask.titles import title_in
from narval.core.elements.element import Element
from narval.core.elements.own_elements import OUTDATED, reason_in
from narval.core.engines.engine import HeedsPeople
from narval.core.errors import NotFoundError, RequestError, UnreadableError
from narval.core.memory.lineage import made_from, replaced_by
from narval.core.memory.memory import Memory
from narval.core.memory.packed import Descent
from narval.core.patterns.pattern import Bound
from narval.daemon.daemon import Daemon
from narval.system.long_work import TimeSlice

HOLDERS = 50
"""The most runs that are named as holders of an element."""

Node = dict[str, Any]


@operation("read")
async def element(daemon: Daemon, eid: int) -> dict[str, Any]:
    """One element in the form of `memory`, with its attributes, the youngest runs that hold it, the moment
    when it will be forgotten, its versions, and its provenance both ways.

    `back` are the elements that it was made from, nearest first, `on` those made from it, oldest first, each
    to depth 6 and at most the 200 nearest; `more` says in which direction there are more. Raises RequestError
    for a missing one.
    """
    agent, stored = daemon.agent, _there(daemon, eid)
    memory, makers = agent.memory, Makers(agent)
    behind, more_behind = await back(agent, makers, stored)
    ahead, more_ahead = await forward(agent, makers, stored)
    holders = list(memory.contexts.holders(eid))
    return {
        **json_forms.element(agent, stored),
        **makers.maker(stored),
        "attributes": {name: value for name, value in stored.attributes.items() if name != "eid"},
        "declared": memory.declared[eid].partition(":")[0] if eid in memory.declared else None,
        "held_by": [
            {"run": run, **run_of(agent, run)}
            for run in heapq.nlargest(HOLDERS, holders)
            if run in agent.runs
        ],
        "holders": len(holders),
        "forgotten": await _forgotten(agent, stored, holders),
        "before": list(_versions(memory, stored, behind)),
        "after": list(_versions(memory, stored, ahead)),
        "back": behind,
        "on": ahead,
        "more": {"back": more_behind, "on": more_ahead},
    }


def _there(daemon: Daemon, eid: int) -> Element:
    memory = daemon.agent.memory
    if memory.is_run(eid):
        raise RequestError(f"{eid} is a run; `{command(daemon, f'show {eid}')}` shows it")
    element = memory.element(eid)
    if element is not None:
        return element
    raise NotFoundError(nothing_at(daemon, eid))


def _versions(memory: Memory, element: Element, nodes: list[Node]) -> Iterator[int]:
    """The eids of its versions among the elements before or after it, in order: those of its name, each of
    which replaced the one before it.
    """
    versions = {element.eid}
    for node in nodes:
        if node["name"] != element.name:
            continue
        eid = node["eid"]
        if eid > element.eid:
            is_version = not versions.isdisjoint(replaced_by(memory, eid))
        else:
            is_version = any(eid in replaced_by(memory, version) for version in versions)
        if is_version:
            versions.add(eid)
            yield eid


async def _forgotten(agent: AgentState, element: Element, holders: list[int]) -> dict[str, Any] | None:
    """The moment when an element will be forgotten unless something uses it, and the run that it goes with;
    None if none is set.
    """
    memory, idle, time_slice = agent.memory, agent.clockwork.idle, TimeSlice()
    if element.eid in memory.declared or any(run in agent.runs.active for run in holders):
        return None
    latest: tuple[float, int] | None = None
    decays: dict[str, float | None] = {}
    for holder in holders:
        await time_slice.yield_if_due()
        at = _decay(agent, agent.runs.get(holder), decays)
        if at is None:
            latest = None
            break
        latest = max((at, holder), latest or (at, holder))
    unused = idle.earliest(element.eid, element.added) if idle is not None else None
    if unused is not None and (latest is None or unused < latest[0]):
        return {"at": moment(unused), "run": None}
    return {"at": moment(latest[0]), "run": latest[1]} if latest is not None else None


def _decay(agent: AgentState, run: Run | None, decays: dict[str, float | None]) -> float | None:
    """The moment when an ended run will be forgotten, on its own or with its caller; None if none is set.

    `decays` caches those of definitions, by digest.
    """
    moments = []
    for each in agent.runs.with_callers(run):
        if each.decays and each.digest not in decays:
            with suppress(UnreadableError):
                decays[each.digest] = definition_of(agent, each).decay
        if each.decays and each.ended is not None and (decay := decays.get(each.digest)) is not None:
            retention = agent.home.now.work_kept if isinstance(each.engine, HeedsPeople) else 0.0
            moments.append(each.ended + max(decay, retention))
    return min(moments, default=None)


# --- provenance ---------------------------------------------------------------------------------------------


DEEPEST = 6
"""The most steps that a provenance goes from its element."""
MOST_NODES = 200
"""The most elements of a provenance, each way."""
LOOKED_AT = 16
"""The number of elements between two checks of the time."""

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
        place = {"eid": eid, "depth": depths[eid], "from": begotten, "more": len(inputs) - len(begotten)}
        if element is None:
            nothing = {"name": None, "title": ""}
            return {**place, **nothing, "added": None, "origin": None, **self.maker(None)}
        origin = json_forms.origin(element.origin)
        if origin is not None:
            origin.pop("inputs", None)
        row = {
            "name": element.name,
            "title": title_in(element),
            "added": json_forms.moment(element.added),
            "origin": origin,
        }
        return {**place, **row, **self.maker(element)}

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


# --- the story ----------------------------------------------------------------------------------------------


TOLD = 50
"""The most elements and runs of each sort that are named."""


async def story_of(agent: AgentState, element: Element) -> dict[str, Any]:
    """The story of an element, with the first `TOLD` elements made from it and runs that wait for it."""
    eid, memory, time_slice = element.eid, agent.memory, TimeSlice()
    made, count, successor = list[dict[str, Any]](), 0, None
    descent = await descent_of(memory, time_slice)
    depths, _ = await reached(eid, descent.of)
    for made_eid in sorted(depths)[1:]:
        await time_slice.yield_if_due()
        younger, directly = memory.element(made_eid), depths[made_eid] == 1
        if younger is None:
            continue
        count += 1
        if len(made) < TOLD:
            made.append(_relative(agent, younger) | {"directly": directly})
        replaced = younger.origin.replaces if younger.origin is not None else ()
        if directly and (eid in replaced or younger.name == OUTDATED) and successor is None:
            successor = younger
    given_to, of_name = list[dict[str, Any]](), list[Run]()
    for run in list(agent.runs.active.values()):
        await time_slice.yield_if_due()
        if not run.active:
            continue
        given_to += (
            {"run": run.eid, "step": call.step, "target": call.name} | run_of(agent, run.eid)
            for call in run.calls.values()
            if eid in call.elements or any(eid in eids for _, eids in call.inputs)
        )
        if any(_is_of(bound, element.name) for watch in run.watches.values() for bound in watch.conditions):
            of_name.append(run)
    form = json_forms.element(agent, element)
    origin = element.origin.inputs if element.origin is not None else ()
    is_left = not (form["used_by"] or given_to or form["outdated"])
    waiting = [wait for run in _woken_by(agent, element) for wait in _waits_for(agent, run, element)]
    if is_left:
        waiting += [wait for run in of_name[:TOLD] if run.active for wait in _passes_by(agent, run, element)]
    return {
        "element": eid,
        "name": element.name,
        "title": title_in(element),
        "added": form["added"],
        "origin": form["origin"],
        "declared": memory.declared[eid].partition(":")[0] if eid in memory.declared else None,
        "labels": form["labels"],
        "decided_by": form["decided_by"],
        "hearsay": form["hearsay"],
        "made_from": [_named(agent, before) for before in origin],
        "used_by": [use | run_of(agent, use["run"]) for use in form["used_by"]],
        "given_to": given_to,
        "made_of_it": made,
        "made": count,
        "held_by": [{"run": run} | run_of(agent, run) for run in sorted(memory.contexts.holders(eid))],
        "outdated": form["outdated"],
        "withdrawn": form["withdrawn"],
        "doubtful": form["doubtful"],
        "sent_to": form["sent_to"],
        "outdated_by": _successor(agent, successor) if form["outdated"] and successor is not None else None,
        "waiting": waiting,
    }


def _relative(agent: AgentState, element: Element) -> dict[str, Any]:
    """An element that was made from another."""
    form = json_forms.element(agent, element)
    run = element.origin.run if element.origin is not None else 0
    row = {"eid": form["eid"], "name": form["name"], "title": title_in(element)}
    return {**row, "added": form["added"], "origin": form["origin"], **run_of(agent, run)}


def _named(agent: AgentState, eid: int) -> dict[str, Any]:
    element = agent.memory.element(eid)
    name, words = (element.name, title_in(element)) if element is not None else (None, "")
    return {"eid": eid, "name": name, "title": words}


def _successor(agent: AgentState, element: Element) -> dict[str, Any]:
    """The element that outdated another: its new version, or one that gives the reason."""
    reason = reason_in(element) if element.name == OUTDATED else ""
    return _relative(agent, element) | {"reason": reason or None}


def _woken_by(agent: AgentState, element: Element) -> list[Run]:
    """The runs that wait for such an element, whether they used this one or not, oldest first."""
    runs = {run for run, _ in agent.watches.index.wakes(agent.memory.tree(element))}
    return [agent.runs[run] for run in sorted(runs)[:TOLD]]


def _is_of(bound: Bound, name: str) -> bool:
    """True if a condition accepts elements of a name, among others."""
    return bound.names is not None and name in bound.names


def _passes_by(agent: AgentState, run: Run, element: Element) -> Iterator[dict[str, Any]]:
    """The conditions of a run on elements of this name that this one does not satisfy, and what it lacks."""
    for wait in run.engine.waiting_for(definition_of(agent, run), state_of(agent, run), run.watches):
        for bound, none in zip(wait.conditions, wait.absent or repeat(False), strict=False):
            mismatch = bound.explain(agent.memory.tree(element)) if _is_of(bound, element.name) else None
            if mismatch is not None and not none:
                lacking = f"{mismatch.predicate}, found {mismatch.value}"
                part = {"run": run.eid, "id": wait.id, "for": wait.what, "pattern": bound.text}
                yield part | {"not": lacking} | run_of(agent, run.eid)


def _waits_for(agent: AgentState, run: Run, element: Element) -> Iterator[dict[str, Any]]:
    """The conditions of a run that such an element satisfies, and why this one is not taken, if it is not."""
    memory, definition, state = agent.memory, definition_of(agent, run), state_of(agent, run)
    for wait in run.engine.waiting_for(definition, state, run.watches):
        absent = wait.absent or repeat(False)
        for bound, scope, none in zip(wait.conditions, wait.scopes, absent, strict=False):
            if bound.test(memory.tree(element)):
                is_asked = bound.asks_doubtful or element.eid not in memory.doubtful
                free = is_asked and memory.is_available(element.eid, scope)
                obstacle = "" if free else ": ".join(obstacle_of(memory, element.eid, scope))
                pattern = f"none fits {bound.text}" if none else bound.text
                part = {"run": run.eid, "id": wait.id, "for": wait.what, "pattern": pattern}
                yield part | {"not": obstacle or None} | run_of(agent, run.eid)
