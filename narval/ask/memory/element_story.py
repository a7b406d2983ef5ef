"""The story of an element: what it was made from, what it led to, and which runs wait for such an element."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.element_titles import title_in
from narval.ask.json_forms import run_of
from narval.ask.memory.element import descent_of, reached
from narval.ask.runs.conditions import obstacle_of
from narval.core.elements.element import Element
from narval.core.elements.own_elements import OUTDATED, reason_in
from narval.core.patterns.pattern import Bound
from narval.system.time_slice import TimeSlice

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
