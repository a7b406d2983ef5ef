"""A case as people see it: its element (N2), what it waits for, its parts, and the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from lxml import etree

from narval.core.elements.own_elements import xml_safe
from narval.core.engines.commands import Watch
from narval.core.engines.engine import Wait
from narval.core.engines.graph import Graph, GraphEdge, GraphNode, TokenMark, Tone
from narval.core.engines.run_state import add_caller, finished
from narval.core.engines.story import Fact, Story
from narval.kinds.task.engine.case.state import UNDER_WAY, CaseState, Member, TrailStep, step_id, where
from narval.kinds.task.language.definition import TaskDefinition


def render(definition: TaskDefinition, state: CaseState, context: Iterable[int]) -> bytes:
    """The `task-case` element: the objects and where they are, and the steps that they have passed."""
    root = etree.Element("task-case", name=definition.full_name, state=state.status)
    add_caller(root, state, "parent_plan")
    for row in _objects(state):
        etree.SubElement(root, "object", _written(row))
    for row in _trail(state):
        etree.SubElement(root, "step", _written(row))
    return finished(root, context)


def _written(row: dict[str, Any]) -> dict[str, str]:
    values = {name: value for name, value in row.items() if value not in (None, "", 0, [])}
    return {
        name: xml_safe(" ".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in values.items()
    }


def parts(definition: TaskDefinition, state: CaseState) -> dict[str, list[dict[str, Any]]]:
    """The objects by identity, with where each is (K67), and the steps of the trail, oldest first."""
    return {"objects": list(_objects(state)), "trail": list(_trail(state))}


def _objects(state: CaseState) -> Iterator[dict[str, Any]]:
    for identity, member in state.members.items():
        yield {
            "id": str(identity),
            "state": member.state,
            "object": member.now,
            "type": member.type,
            "event": member.event,
            "since": member.since or None,
            "parent": member.parent,
            "ordinal": member.ordinal,
            "count": member.count,
            "why": member.why,
        }


def _trail(state: CaseState) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(state.trail):
        yield {
            "id": step_id(number),
            "state": step.state,
            "type": step.type,
            "object": step.object,
            "instance": step.instance,
            "result": step.result,
            "at": step.at,
            "outputs": list(step.outputs),
            "compensator": step.compensator,
            "why": step.why,
        }


# --- waits ------------------------------------------------------------------------------------------------


def waiting_for(definition: TaskDefinition, state: CaseState, watches: dict[str, Watch]) -> Iterator[Wait]:
    """The servers that have its objects, the held objects, and the compensator that runs or has failed."""
    if state.over:
        return
    if state.link is not None:
        step, id = state.trail[state.link], step_id(state.link)
        if step.state == "failed":
            yield Wait(id, "person", _failed(step), error=step.error)
        else:
            yield Wait(id, "call", f"{step.compensator}, which compensates {step.type}", calls=(step.call,))
    for identity, member in state.members.items():
        if member.state in UNDER_WAY:
            if member.state == "held":
                yield Wait(str(identity), "person", member.why, error=member.error)
            else:
                yield Wait(str(identity), "signal", _told(state, member))


def remedy(state: CaseState, error: int, option: str) -> str:
    """The commands, with an option, that remedy a held object or a failed compensator, found by its error
    element; "" for an error that blocks nothing.
    """
    retry = f"narval task retry {state.eid}"
    if state.status == "blocked" and state.link is not None and state.trail[state.link].error == error:
        rest = f"`narval cancel {state.eid}{option}` leaves the rest as it is"
        return f"`{retry}{option}` undoes it again, {rest}"
    members = state.members.values() if state.held else ()
    member = next((one for one in members if one.state == "held" and one.error == error), None)
    if member is None:
        return ""
    if state.held > 1:
        retry = f"{retry} --object {member.now}"
    if not member.type:
        return f"`{retry} --to TYPE{option}` says where it goes"
    mends = f"`narval add FILE --replace {member.now}{option}` mends it first"
    return f"`{retry}{option}` puts it to {member.type} again, {mends}"


def _failed(step: TrailStep) -> str:
    return f"{step.compensator}, which compensates {step.type}, failed: {step.why}"


def _told(state: CaseState, member: Member) -> str:
    """The end of the sentence: it waits to be told …"""
    match member.state:
        case "task" if member.composes:
            missing = ", ".join(_missing(state, member))
            return f"by {member.type} that all parts are there{f'; missing: {missing}' if missing else ''}"
        case "task" if member.call:
            return f"by the script of EXCEPTION of {member.type} where it goes: {member.why}"
        case "task":
            at = f"narval task where {member.now}"
            return f"by {member.type}, which has it in its queue or at work, where it goes: {at}"
        case "event":
            return f"by {member.type}, which has it with event {member.event}, where it goes"
        case "withdrawing":
            return f"by {member.type} that it is withdrawn"
        case "aborting":
            return "that all else is undone, for it was aborted"
        case "leaving":
            return f"by the script of ABORT of {member.type} whether it goes on"
    return f"by {member.type} where it goes"


MOST_MISSING = 10
"""The most missing parts that a text names."""


def _missing(state: CaseState, member: Member) -> Iterator[str]:
    """The parts that a waiting part still misses, and where they are."""
    named = 0
    for identity in state.members[member.parent].parts:
        other = state.members[identity]
        if other.state == "merged" or (other.composes and other.type == member.type):
            continue
        if named == MOST_MISSING:
            yield "…"
            return
        named += 1
        yield f"part {other.ordinal} ({where(other)})"


# --- why --------------------------------------------------------------------------------------------------


def explain(definition: TaskDefinition, state: CaseState, identifier: str | None) -> str | None:
    """Explain the state of the case, or of an object or step of it; None if there is nothing to say."""
    if identifier is None:
        return _reason(state)
    for number, step in enumerate(state.trail):
        if step_id(number) == identifier:
            return _step(step)
    member = state.members.get(int(identifier)) if identifier.isdigit() else None
    if member is None:
        return _type(definition, state, identifier)
    why = f": {member.why}" if member.why else ""
    match member.state:
        case "parts":
            return f"it goes on as {len(member.parts)} parts, {member.open} of which are under way"
        case "merged":
            return f"it is part of object {state.members[member.parent].now} again"
        case "committed":
            return f"{member.type} came to COMMIT with instance {member.instance}"
        case "held":
            return f"it cannot go on by itself{why} (error {member.error})"
        case "withdrawn" | "aborted":
            return f"it was {member.state} at {member.type}{why}"
    return f"it waits to be told {_told(state, member)}"


def _type(definition: TaskDefinition, state: CaseState, name: str) -> str | None:
    """The objects of a case at a type, and the steps that they made there."""
    here = [
        f"object {member.now}: {where(member)}" for member in state.members.values() if member.type == name
    ]
    passed = [
        f"{step_id(number)}: {step.state}" for number, step in enumerate(state.trail) if step.type == name
    ]
    lines = [*here, *passed]
    if not lines and name not in (definition.full_name, state.definition):
        return None
    return "; ".join(lines) or "no object has come to it yet"


def _step(step: TrailStep) -> str:
    passed = f"object {step.object} passed {step.type} with instance {step.instance}: {step.result}"
    match step.state:
        case "committed":
            return f"{passed}; that is committed, so it can no longer be undone"
        case "none":
            return f"{passed}; it has no compensator, so it is not undone"
        case "compensated":
            return f"{passed}; {step.compensator} has undone it"
        case "compensating":
            return f"{passed}; {step.compensator} undoes it"
        case "failed":
            return f"{passed}; {_failed(step)} (error {step.error})"
    return f"{passed}; {f'{step.compensator} can undo it' if step.compensator else 'it has no compensator'}"


def _reason(state: CaseState) -> str | None:
    match state.status:
        case "committed":
            count = sum(member.state == "committed" for member in state.members.values())
            return f"{count} of {len(state.members)} objects came to COMMIT, and none is under way"
        case "aborted":
            return f"it was aborted: {state.why}" if state.why else "no object of it came to COMMIT"
        case "cancelled":
            whom = f" by {state.cancelled_by}" if state.cancelled_by else ""
            left = sum(step.state in ("forwarded", "failed") for step in state.trail)
            undone = f"; {left} steps of it were not compensated" if left else ""
            return f"it was cancelled{whom}{undone}"
        case "blocked" if state.link is not None:
            return f"its chain of compensators is blocked: {_failed(state.trail[state.link])}"
        case "held":
            return f"{state.held} of its objects cannot go on by themselves"
    return None


part_word = "object"

story: Story = {
    "ObjectPut": Fact("{object:element} goes to {at_type}[ and cannot go on there: {why}]."),
    "ObjectMoved": Fact("{object:element} goes to {at_type}[, with event {event}]."),
    "ObjectLeft": Fact(
        "{at_type} is done with {was:element}: {result}[, {why}][; it gave {outputs:element}]."
    ),
    "ObjectDivided": Fact("{object:element} is divided into {parts:element}."),
    "ObjectMerged": Fact("{parts:element} are one again: {now:element}."),
    "ObjectHeld": Fact("{object:element} cannot go on at {at_type}: {kind}, {why}."),
    "ObjectEnded": Fact("The way of {object:element} is over: {end}[, {why}]."),
    "AbortAsked": Fact("All is to be undone[: {why}][, asked by {by}]."),
    "WithdrawalAsked": Fact("{object:element} is to be withdrawn."),
    "LinkBegan": Fact("Step {step} is being undone, with {now:element}."),
    "LinkDone": Fact("Step {step} is undone."),
    "LinkSkipped": Fact("Step {step} cannot be undone."),
    "ChainBlocked": Fact("Step {step} could not be undone: {why}."),
    "ChainResumed": Fact("Undoing goes on[, by {by}]."),
    "ChainGivenUp": Fact("Undoing is given up[, by {by}]."),
    "ChainEnded": Fact("All is undone that could be."),
}
"""The changes of interest to people, in sentences."""

MOST_MARKS = 5
"""The most objects drawn at one type; the others are counted."""


def graph(definition: TaskDefinition, state: CaseState) -> Graph:
    """The types that have had objects of the case, and the objects' paths."""
    here: dict[str, list[tuple[int, Member]]] = {}
    for identity, member in state.members.items():
        if member.state in UNDER_WAY:
            here.setdefault(member.type or where(member), []).append((identity, member))
    passed = [step.type for step in state.trail]
    last = [member.type for member in state.members.values() if _is_at(member)]
    names = dict.fromkeys([state.definition, *passed, *here, *last])
    nodes = [_node(state, name, here.get(name, [])) for name in names]
    return Graph(definition.full_name, (*nodes, *_edges(state)))


def _node(state: CaseState, name: str, here: list[tuple[int, Member]]) -> GraphNode:
    steps = [step for step in state.trail if step.type == name]
    undone = [step.state for step in steps if step.state in ("compensated", "none", "failed", "compensating")]
    word = ("not undone" if undone[-1] == "none" else undone[-1]) if undone else "passed"
    marks = tuple(TokenMark(f"object {member.now}", member.state) for _, member in here[-MOST_MARKS:])
    tone: Tone = "failed" if word == "failed" else "cancelled" if undone else "done"
    if here:
        word, tone = "here", "failed" if any(member.state == "held" for _, member in here) else "active"
    times = f"passed {len(steps)} times" if len(steps) > 1 else ""
    return GraphNode(
        name,
        (name,),
        word,
        "tokens",
        marks,
        len(here) - len(marks),
        kind="type",
        tone=tone,
        target=name,
        badge=times,
    )


def _is_at(member: Member) -> bool:
    """True if an object is with a type, or was when its path ended."""
    return bool(member.type) and member.state not in ("new", "parts")


def _edges(state: CaseState) -> Iterator[GraphEdge]:
    """The paths from type to type: of an object between its steps, and of parts from where they were made."""
    ways: dict[tuple[str, str], dict[int, str]] = {}
    for identity, member in state.members.items():
        passed = [state.trail[number].type for number in member.steps]
        stops = [*_origin(state, identity), *passed, *([member.type] if _is_at(member) else [])]
        label = f"part {member.ordinal}" if member.count else ""
        for way in pairwise(stops):
            ways.setdefault(way, {})[identity] = label
    for (start, end), labels in ways.items():
        label = f"{len(labels)} objects" if len(labels) > 1 else next(iter(labels.values()))
        yield GraphEdge(start, end, "taken", label or None)


def _origin(state: CaseState, identity: int) -> list[str]:
    """The type at which a part was made; empty for any other object."""
    member = state.members[identity]
    whole = state.members.get(member.parent)
    if whole is None or not whole.steps:
        return []
    made = [number for number in whole.steps if not member.steps or number < member.steps[0]]
    return [state.trail[made[-1]].type] if made else []
