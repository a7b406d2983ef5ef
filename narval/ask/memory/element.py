"""The operation `element`: the details of one element (M23, M24)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of
from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.json_forms import moment, run_of
from narval.ask.lookup import command, no_element
from narval.ask.memory.provenance import Makers, Node, back, forward
from narval.ask.registry import operation
from narval.core.elements.element import Element
from narval.core.engines.engine import HeedsPeople
from narval.core.errors import RequestError, UnreadableError
from narval.core.memory.lineage import replaced_by
from narval.core.memory.memory import Memory
from narval.daemon.daemon import Daemon
from narval.system.time_slice import TimeSlice

HOLDERS = 50
"""The most runs that are named as holders of an element."""


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
    if 0 < eid < memory.next_eid:
        raise RequestError(
            f"element or run {eid} was forgotten: nothing is kept of it; `narval log` may tell of it"
        )
    raise RequestError(no_element(daemon, eid))


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
    None if none is set (N5).
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
