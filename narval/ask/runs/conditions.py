"""Conditions as judged now: met or not, by which element, and what the nearest element lacks (N11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, combinations, islice, repeat
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask.json_forms import moment
from narval.ask.titles import title
from narval.core.elements.changes import MarkScope
from narval.core.engines.engine import Wait
from narval.core.memory.lineage import fits_since
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound, Condition

LOOKED_AT = 500
"""The most elements of the right name, newest first, that are searched for the nearest."""

MOST_TOGETHER = 10
"""The most conditions that are checked for competing for the same elements."""

_TOGETHER = frozenset(("condition", "time", "join"))
"""The waits whose conditions need a different element each."""


def judged(agent: AgentState, now: float, run: Run, wait: Wait) -> list[dict[str, Any]]:
    """The conditions of a wait, each by itself, and all together if each needs a different element."""
    lasting, absent = wait.lasting or repeat(None), wait.absent or repeat(False)
    conditions = [
        _absent(agent, run, bound) if none else _lasting(agent, now, run, bound, scope, seconds)
        for bound, scope, seconds, none in zip(wait.conditions, wait.scopes, lasting, absent, strict=False)
    ]
    if wait.what in _TOGETHER:
        _judge_together(agent, run, wait, conditions)
    for condition in conditions:
        condition["title"] = title(agent, condition["nearest"]) if condition["nearest"] else ""
    return conditions


def _judge_together(agent: AgentState, run: Run, wait: Wait, conditions: list[dict[str, Any]]) -> None:
    """Mark conditions that are met one by one but not all at once: they compete for the same elements.

    For each, at most as many elements are checked as there are conditions: that many leave one for each.
    """
    taking = [at for at, condition in enumerate(conditions) if not condition.get("absent")]
    if len(taking) > MOST_TOGETHER or not all(conditions[at]["met"] for at in taking):
        return
    fitting = {}
    for at in taking:
        eids = _satisfying(agent, run, wait.conditions[at], wait.scopes[at])
        fitting[at] = set(islice(dict.fromkeys(islice(eids, LOOKED_AT)), len(taking)))
    rivals = _rivals(fitting)
    candidates = set[int]().union(*(fitting[at] for at in rivals))
    elements = f"element {min(candidates)}" if len(candidates) == 1 else f"{len(candidates)} elements"
    lacking = len(rivals) - len(candidates)
    needed = "one more is needed" if lacking == 1 else f"{lacking} more are needed"
    for at in rivals:
        value = f"{elements}, which {len(rivals)} conditions want: {needed}"
        conditions[at] |= {"met": False, "failed": "an element of its own", "value": value}


def _rivals(fitting: Mapping[int, set[int]]) -> tuple[int, ...]:
    """The smallest set of conditions that lacks the most elements if each needs its own; empty if each can
    have one.
    """

    def lacking(some: tuple[int, ...]) -> int:
        return len(some) - len(set[int]().union(*(fitting[at] for at in some)))

    return max(
        chain.from_iterable(combinations(fitting, count) for count in range(len(fitting) + 1)), key=lacking
    )


def _condition(agent: AgentState, run: Run, bound: Bound, scope: MarkScope | None) -> dict[str, Any]:
    eid = next(_satisfying(agent, run, bound, scope), None)
    return _met(bound, eid) | (_nearest(agent.memory, run.eid, bound, scope) if eid is None else {})


def _absent(agent: AgentState, run: Run, bound: Bound) -> dict[str, Any]:
    """A condition that no element may satisfy: met, or unmet because an element satisfies it."""
    memory = agent.memory
    match = next(_satisfying(agent, run, bound, None), None)
    if match is None and memory.reserved_for(bound, None):
        match = next((eid for eid in memory.select(bound) if eid in memory.reserved), None)
    return _met(bound, match) | {"met": match is None, "absent": True}


def _met(bound: Bound, eid: int | None) -> dict[str, Any]:
    """The form of a condition, met by an element or, with None, unmet."""
    return {"pattern": bound.text, "met": eid is not None, "nearest": eid, "failed": None, "value": None}


def _lasting(
    agent: AgentState, now: float, run: Run, bound: Bound, scope: MarkScope | None, seconds: float | None
) -> dict[str, Any]:
    """A condition; one that must last with the moment since when it holds, and until when it must."""
    if seconds is None:
        return _condition(agent, run, bound, scope)
    memory = agent.memory
    matches = ((fits_since(memory, eid, bound, scope), eid) for eid in _satisfying(agent, run, bound, scope))
    since, eid = min(matches, default=(None, None))
    if since is None or eid is None:
        return {**_condition(agent, run, bound, scope), "lasting": seconds, "since": None, "until": None}
    until = since + seconds
    lasting = {"met": until <= now, "lasting": seconds, "since": moment(since), "until": moment(until)}
    return {**_met(bound, eid), **lasting}


def _satisfying(agent: AgentState, run: Run, bound: Bound, scope: MarkScope | None) -> Iterator[int]:
    """The elements that satisfy a condition: those that the run and its callers hold, then all others."""
    memory = agent.memory
    holder: Run | None = run
    while holder is not None:
        yield from memory.among(memory.contexts.of(holder.eid), bound, scope)
        holder = agent.runs.get(holder.caller.run) if holder.caller is not None else None
    yield from memory.matching(bound, scope)


def _nearest(memory: Memory, run: int, bound: Bound, scope: MarkScope | None) -> dict[str, Any]:
    """The element that satisfies most of the pattern, the newest among equals, and the predicate that fails.

    Those that the run holds are nearer than all others.
    """
    best: tuple[int, int, str, str] | None = None
    names = bound.names
    if names is not None and not names and all(elements for _, elements in bound.variables):
        names = Condition(bound.patterns).names  # none can satisfy it: find the nearest anyway
    eids = sorted(memory.named(names), reverse=True)
    own = [eid for eid in eids if memory.contexts.holds(run, eid)]
    most = bound.most_satisfied()
    for eid in islice(own or eids, LOOKED_AT):
        element = memory.element(eid)
        if element is None or (element.addressed and not own):
            continue
        tree = memory.tree(element)
        if best is not None and best[0] >= most and not bound.test(tree):
            continue  # none can be nearer
        mismatch = bound.explain(tree)
        if mismatch is None:
            obstacle = obstacle_of(memory, eid, scope)
            return {"nearest": eid, "failed": obstacle[0], "value": obstacle[1]}
        if best is None or mismatch.satisfied > best[0]:
            best = (mismatch.satisfied, eid, mismatch.predicate, mismatch.value)
    if best is None:
        return _nothing_of(bound)
    return {"nearest": best[1], "failed": best[2], "value": best[3]}


def _nothing_of(bound: Bound) -> dict[str, Any]:
    """The reason why no element is a candidate: none has the name, or a variable has no value."""
    names = Condition(bound.patterns).names
    named = f"an element named {' or '.join(sorted(names))}" if names else "an element"
    empty = [f"${name}" for name, elements in bound.variables if not elements]
    are = "is" if len(empty) == 1 else "are"
    why = f"none, because {' and '.join(empty)} {are} empty" if empty else "none in memory"
    return {"failed": named, "value": why}


def obstacle_of(memory: Memory, eid: int, scope: MarkScope | None) -> tuple[str, str]:
    """The condition that keeps a matching element from being taken, and the value found."""
    if eid in memory.withdrawn:
        return "one not withdrawn", f"it was withdrawn ({memory.withdrawn[eid]})"
    if eid in memory.doubtful:
        return "one not doubtful", "made from what was withdrawn; `narval confirm` makes it valid again"
    if eid in memory.outdated:
        return "not outdated", "replaced by a newer version"
    if eid in memory.reserved:
        return "not reserved", "a call under way is replacing it"
    if scope is None:
        return "one not used before", "used by it"
    run = memory.marks[scope].get(eid)
    by = " ".join(scope).removesuffix(" #")
    return "one not used before", f"used by {by}" + (f" in run {run}" if run else "")
