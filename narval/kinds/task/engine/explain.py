"""An instance as people see it: its element, what it waits for, its parts, and the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lxml import etree

from narval.core.engines.commands import Watch
from narval.core.engines.engine import Wait
from narval.core.engines.graph import clipped
from narval.core.engines.run_state import add_caller, finished
from narval.core.engines.story import Fact, Story
from narval.kinds.task.engine.state import GONE, InstanceState
from narval.kinds.task.language.definition import TaskDefinition, TaskState
from narval.kinds.task.language.texts_of import rule_text

LONGEST_RULE = 200
"""The most characters shown of a rule."""

_CALLS = {
    "take": "the next object of the queue",
    "code": "the code of the task",
    "script": "a statement of a script",
    "ended": "the case to record the end, and to compensate where it is ABORT",
    "routed": "the case to record where the object goes",
    "raise": "an event that its program raised",
    "launch": "a program that a script launched",
    "down": "the server to know that it has stopped",
    GONE: "what was given up to be gone",
}


def render(definition: TaskDefinition, state: InstanceState, context: Iterable[int]) -> bytes:
    """The `task` element: the state that others may see, and the object (K26, K61)."""
    root = etree.Element("task", name=definition.full_name, state=state.status)
    values: dict[str, Any] = {
        "at": state.exposed,
        "object": state.object,
        "case": state.case,
        "user": state.user,
        "role": state.role,
        "compensates": state.compensates,
        "program": "yes" if state.program else "",
    }
    for name, value in values.items():
        if value:
            root.set(name, str(value))
    if state.asks and state.stage == "busy":
        ways = definition.ways_from(state.place)
        root.set("ways", "" if state.frames else " ".join(ways.moves))
        root.set("ends", " ".join(ways.ends))
    add_caller(root, state, "parent_run")
    return finished(root, context)


def waiting_for(
    definition: TaskDefinition, state: InstanceState, watches: dict[str, Watch]
) -> Iterator[Wait]:
    """The things that an instance waits for: calls, its program, people, events, edges."""
    if state.over or state.status == "ready":
        return
    where = state.place or definition.name
    for call, purpose in state.calls.items():
        if purpose == "code" and (state.asks or definition.is_interactive):
            yield Wait(where, "person", f"{_asked(definition)} to do the work", calls=(call,))
        else:
            yield Wait(where, "call", _CALLS[purpose], calls=(call,))
    for frame in state.frames:
        if frame.wake:
            again = f"to do the action of {frame.event} again, after {frame.tries} of its attempts failed"
            yield Wait(where, "try", again)
    if state.outcome:
        return
    if state.program:
        yield Wait(where, "signal", "by its program what comes next", until=state.lease_until)
    task_state = definition.states.get(state.state)
    if state.stage == "busy" and not state.entering and task_state is not None:
        yield from _ways_on(task_state)


def _ways_on(task_state: TaskState) -> Iterator[Wait]:
    for rule in task_state.rules:
        yield Wait(task_state.name, "signal", clipped(rule_text(rule), LONGEST_RULE))
    if task_state.edges:
        edges = ", ".join(f"{event} to {target}" for event, target in task_state.edges.items())
        yield Wait(task_state.name, "signal", f"to move along an edge: {edges}")
    if not task_state.rules and not task_state.edges:
        yield Wait(task_state.name, "person", "to be finished by force: no edge or event leads on")


def _asked(definition: TaskDefinition) -> str:
    names = [*definition.users, *(f"role {role}" for role in definition.roles)]
    return ", ".join(names) or "somebody"


def parts(definition: TaskDefinition, state: InstanceState) -> dict[str, list[dict[str, Any]]]:
    """The states of the task, where it is, and the scripts under way."""
    states = [
        {
            "id": name,
            "state": "here" if state.state == name else "entering" if state.entering == name else "open",
            "exposed": task_state.exposed,
            "since": state.since if state.state == name else None,
            "edges": dict(task_state.edges),
            "rules": [rule_text(rule) for rule in task_state.rules],
        }
        for name, task_state in definition.states.items()
    ]
    scripts = [
        {
            "id": f"{frame.kind} {frame.state}",
            "state": "waits" if frame.waits else "runs",
            "event": frame.event,
        }
        for frame in state.frames
    ]
    return {"states": states, "scripts": scripts}


def explain(definition: TaskDefinition, state: InstanceState, identifier: str | None) -> str | None:
    """Explain where the instance is, or one of its states; None if there is nothing to say."""
    if identifier is None:
        return _reason(state)
    task_state = definition.states.get(identifier)
    if task_state is None:
        return None
    if state.entering == identifier:
        return f"its ASSERT code runs; until that has ended it is in state {state.state or '(none)'}"
    if state.state == identifier:
        how = f": {state.why}" if state.why else ""
        return f"it is in state {identifier} with object {state.object or '(none)'}{how}"
    ways = [name for name, other in definition.states.items() if identifier in other.edges.values()]
    led = f"edges lead to it from {', '.join(ways)}" if ways else "no edge leads to it"
    return f"it is in state {state.state or '(none)'}, not in {identifier}; {led}"


def _reason(state: InstanceState) -> str | None:
    last = (
        f"in state {state.state} with object {state.object or '(none)'}"
        if state.state
        else "without an object"
    )
    if not state.over:
        return f"it is {last}{f': {state.why}' if state.why else ''}"
    back = "; its object went back to the queue" if state.gives_back else ""
    return f"it ended {last}{back}{f': {state.why}' if state.why else ''}"


part_word = "state"

story: Story = {
    "LeaseOver": Fact("The lease is over: its program is taken for dead."),
    "ObjectTaken": Fact("It takes {object:element}[, of case {case:run}]."),
    "ObjectAdopted": Fact("{object:element} is its object now."),
    "StateEntered": Fact("It is entered with {object:element}[: {why}].", begins=True, part="state"),
    "StageReached": Fact("Stage {stage} is reached."),
    "ScriptRested": Fact("A call failed, {problem}; it is done again at {until:moment}."),
    "CodeOver": Fact("The code of the task has ended[, and gave {produced:element}]."),
    "GoalSet": Fact("It walks to state {goal}."),
    "ObjectReplaced": Fact("[{object:element} takes the place of {was:element}.]"),
    "OutputKept": Fact("Its script gave {produced:element}."),
    "RouteChosen": Fact("It is routed to {to}[, with {object:element}]."),
    "PiecesMade": Fact("It makes {eids:element} of its object."),
    "SignalKept": Fact("Signal {name} waits until its script has ended."),
    "ObjectDone": Fact("It is done with its object."),
    "EndingBegan": Fact("It ends: {outcome}[, {why}]."),
}
"""The changes of interest to people, in sentences."""
