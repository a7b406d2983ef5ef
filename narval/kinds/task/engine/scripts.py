"""Scripts (KA27): a small machine that stops where a statement waits and resumes from there; and the
functions of its statements: what each does to objects, and the calls that it makes.

A position is the place of a statement in its script, then alternately the branch of a choice and the place in
that branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lxml import etree

from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element
from narval.core.engines import commands
from narval.core.engines.events import Failure, Plain, Returned
from narval.core.engines.outputs import judge
from narval.core.engines.view import View
from narval.core.errors import ElementError
from narval.kinds.task.engine import changes
from narval.kinds.task.engine.changes import ScriptAt
from narval.kinds.task.engine.decision import InstanceDecision
from narval.kinds.task.engine.state import ScriptFrame
from narval.kinds.task.engine.values import ScriptFault, Values
from narval.kinds.task.language.calls import command_of
from narval.kinds.task.language.definition import (
    MOST_COPIES,
    Choice,
    Operand,
    Perform,
    Script,
    ScriptPath,
    Statement,
    is_object,
    name_of,
)

Position = tuple[int, ...]

Move = Callable[[InstanceDecision, str], None]
"""A function that moves along an edge to a state. Raises ScriptFault."""


def run(decision: InstanceDecision, move: Move) -> bool:
    """Run the script under way until it waits; True if it has ended. Raises ScriptFault."""
    frame = decision.state.frames[-1]
    script, position = decision.script(frame), frame.position
    values = Values(decision.view, frame, decision.state.object or frame.carried)
    while True:
        statement = _at(script, position)
        if statement is None:
            if len(position) == 1:
                return True
            position = _after(position[:-2])
        elif isinstance(statement, Choice):
            position = (*position, 0 if values.holds(statement.test) else 1, 0)
        else:
            position = _after(position)
            if _perform(decision, frame, statement, values, position, move):
                return False


def _at(script: Script, position: Position) -> Statement | None:
    block = script
    for place, branch in zip(position[:-1:2], position[1::2], strict=True):
        choice = block[place]
        assert isinstance(choice, Choice), choice
        block = choice.otherwise if branch else choice.then
    return block[position[-1]] if position[-1] < len(block) else None


def _after(position: Position) -> Position:
    return (*position[:-1], position[-1] + 1)


def _perform(
    decision: InstanceDecision,
    frame: ScriptFrame,
    statement: Perform,
    values: Values,
    position: Position,
    move: Move,
) -> bool:
    """Execute a statement; True if the script waits after it. Raises ScriptFault."""
    match statement.name:
        case "assert":
            decision.change(ScriptAt(position))
            move(decision, name_of(first(statement)))
            return True
        case "route":
            route(decision, frame, statement, values)
        case "split" | "copy":
            divide(decision, statement, values)
        case "set":
            decision.change(ScriptAt(position))
            alter(decision, statement, values)
            return True
        case "launch":
            run_program(decision, frame, statement, "launch")
        case "exec":
            _wait(decision, position, run_program(decision, frame, statement, "script"))
            return True
        case "raise" if (target := edge_of(decision, statement)) is not None:
            decision.change(ScriptAt(position))
            move(decision, target)
            return True
        case "raise":
            _wait(decision, position, raise_it(decision, statement, values))
            return True
        case _:
            _wait(decision, position, *call_action(decision, frame, statement, values))
            return True
    return False


def _wait(decision: InstanceDecision, position: Position, call: str, reserved: tuple[int, ...] = ()) -> None:
    decision.change(ScriptAt(position, call, reserved))


# --- functions ----------------------------------------------------------------------------------------

WITH_PROTOTYPE = ("action", "transform")
"""The kinds of targets with a prototype; for other kinds a run answers."""


def first(statement: Perform) -> Operand:
    """The first argument of a statement. Raises ScriptFault if there is none."""
    if not statement.arguments:
        raise ScriptFault("bad-argument", f"line {statement.line}: {statement.name} wants an argument")
    return statement.arguments[0]


# --- objects --------------------------------------------------------------------------------------------


def route(decision: InstanceDecision, frame: ScriptFrame, statement: Perform, values: Values) -> None:
    """Route the object that the action's event carried, else the work object. A second argument selects one
    part of it, or with "*" every part. Raises ScriptFault.
    """
    target, state, arguments = decision.task(name_of(first(statement))), decision.state, statement.arguments
    eid = frame.carried if frame.kind == "action" and frame.carried != state.object else 0
    values.tree(eid or state.object)
    parts = [0]
    if len(arguments) > 1:
        text, count = values.text(arguments[1]), 0 if eid else len(state.pieces)
        parts = [*range(1, count + 1)] if text == "*" else [int(text) if text.isdecimal() else 0]
        if not parts or not 1 <= parts[0] <= count:
            raise ScriptFault("no-part", f"the object has {count} parts, and none that is {text!r:.80}")
    for part in parts:
        decision.change(changes.RouteChosen(target.full_name, eid, part))


def divide(decision: InstanceDecision, statement: Perform, values: Values) -> None:
    """Split the object into what an XPath selects in it, or copy it. Raises ScriptFault."""
    operand, eid = first(statement), decision.state.object
    root, text = values.tree(eid), values.text(operand)
    pieces: list[bytes] = []
    try:
        if statement.name == "split":
            selected = root.xpath(text)
            nodes = selected if isinstance(selected, list) else []
            pieces = [canonical(node) for node in nodes if hasattr(node, "tag")]
        else:
            count = int(text) if text.isdecimal() else 0
            if not 1 <= count <= MOST_COPIES:
                raise ScriptFault(
                    "bad-argument", f"copy: expected 1 to {MOST_COPIES} copies, got {text!r:.80}"
                )
            pieces = [canonical(root)] * count
    except (ElementError, etree.LxmlError) as error:
        raise ScriptFault("bad-argument", f"{statement.name}: {error}") from None
    if not pieces:
        raise ScriptFault("no-part", f"split: {text} selects no element of the object")
    decision.change(changes.PiecesMade(_made_of(decision, eid, pieces)))


def alter(decision: InstanceDecision, statement: Perform, values: Values) -> None:
    """Make a new version of the object, or of the one that an event brought, with another value at a path.
    Raises ScriptFault.
    """
    path = first(statement)
    assert isinstance(path, ScriptPath), statement
    was, xml = values.altered(path, values.text(statement.arguments[1]))
    element = decision.view.element(was)
    if was in decision.state.reserved:
        raise ScriptFault("busy", f"the TASK CODE is about to replace object {was}; it sets what it gives")
    if element is None or element.xml == xml:
        return
    eid = decision.add(Element(0, xml), decision.part, inputs=(was,), replaces=(was,))
    decision.command(commands.Outdate((was,)))
    decision.change(changes.ObjectReplaced(was, eid))


def copies(decision: InstanceDecision, eid: int, count: int) -> tuple[int, ...]:
    """Make copies of an object. Raises ScriptFault if it is gone."""
    element = decision.view.element(eid)
    if element is None:
        raise ScriptFault("no-object", f"object {eid} is gone")
    return _made_of(decision, eid, [element.xml] * count)


def _made_of(decision: InstanceDecision, eid: int, documents: list[bytes]) -> tuple[int, ...]:
    return tuple([decision.add(Element(0, xml), decision.part, inputs=(eid,)) for xml in documents])


# --- calls ----------------------------------------------------------------------------------------------


def edge_of(decision: InstanceDecision, statement: Perform) -> str | None:
    """The state to which a raised event leads along an edge (K51); None for any other event."""
    here = decision.definition.states.get(decision.state.place)
    if here is None or len(statement.arguments) != 1:
        return None
    return here.edges.get(name_of(first(statement)))


def raise_it(decision: InstanceDecision, statement: Perform, values: Values) -> str:
    """Raise an event at another type, or a global one. The bare argument `object` hands the object over
    (K39). Raises ScriptFault.
    """
    words = statement.arguments
    target = decision.task(name_of(first(statement)))
    event = name_of(words[1]) if len(words) > 1 else target.rule.event if target.rule is not None else ""
    if not event:
        raise ScriptFault("no-edge", f"state {decision.state.place} has no edge {name_of(words[0])}")
    parameters: list[Plain] = [values.text(operand) for operand in words[2:] if not is_object(operand)]
    carries = any(is_object(operand) for operand in words[2:])
    if carries:
        values.tree(decision.state.object)
    return raise_event(decision, target.full_name, event, parameters, carries=carries, purpose="script")


def raise_event(
    decision: InstanceDecision,
    target: str,
    event: str,
    parameters: list[Plain],
    *,
    carries: bool = False,
    purpose: str,
    answers: str = "",
    **more: Plain,
) -> str:
    """Raise an event at a type's server; return the id of the call. An object sent along is given
    away (K59).
    """
    state = decision.state
    eid, case = (state.object, state.case) if carries else (0, 0)
    arguments: dict[str, Plain] = {"event": event, "parameters": parameters, "object": eid, "case": case}
    arguments |= {"raiser": state.eid, "mode": "", "users": [], "roles": [], **more}
    along = (eid,) if eid else ()
    call = decision.tell("raise", arguments, along, name=target, purpose=purpose, answers=answers)
    if eid:
        _replace(decision, eid, 0)
        tell_moved(decision, case, eid, target, event)
    return call


def run_program(decision: InstanceDecision, frame: ScriptFrame, statement: Perform, purpose: str) -> str:
    """Run a program with the object on its standard input; return the id of the call. Raises ScriptFault."""
    words, eid = command_of(name_of(first(statement))), decision.state.object or frame.carried
    call = decision.identifier()
    decision.change(changes.CallAsked(call, purpose))
    decision.call_program(call, words, environment(decision.view, frame.parameters, eid), eid)
    return call


def call_action(
    decision: InstanceDecision, frame: ScriptFrame, statement: Perform, values: Values
) -> tuple[str, tuple[int, ...]]:
    """Call an action; its inputs are sought in the arguments, then in the objects. Raises ScriptFault.

    Returns the id of the call, and the elements that it reserves.
    """
    kind = next((kind for kind in WITH_PROTOTYPE if decision.view.definition(kind, statement.name)), "")
    if not kind:
        raise ScriptFault("unknown-target", f"there is no action named {statement.name}")
    texts = [values.text(operand) for operand in statement.arguments]
    arguments = tuple([_argument(decision, at, text) for at, text in enumerate(texts, 1)])
    objects = tuple(eid for eid in (frame.carried, decision.state.object) if eid)
    call = decision.identifier()
    reserved = decision.call_action(call, kind, statement.name, (arguments, objects))
    decision.change(changes.CallAsked(call, "script"))
    return call, reserved


def _argument(decision: InstanceDecision, at: int, text: str) -> int:
    node = etree.Element("argument", n=str(at))
    node.text = text
    return decision.add(Element(0, canonical(node)), decision.part)


def environment(view: View, parameters: Mapping[str, str], eid: int) -> dict[str, str]:
    """The environment of a program: attributes of the object, and parameters of the event."""
    element = view.element(eid) if eid else None
    attributes = element.attributes if element is not None else {}
    values = {f"OBJECT_{name}": text for name, text in attributes.items() if name.isidentifier()}
    return values | {f"TASK_{name}": text for name, text in parameters.items()}


def take_back(decision: InstanceDecision, event: Returned) -> None:
    """Take back the object that a refused event should have carried. It goes to the queue if the instance has
    finished with it or has another.
    """
    asked = decision.view.pending_call(event.call)
    payload: Any = (asked.payload if asked is not None else None) or {}
    said, state = payload.get("arguments") or {}, decision.state
    if event.problem is None or payload.get("signal") != "raise" or not said["object"]:
        return
    eid, case = said["object"], said["case"]
    if state.object or state.outcome or state.stage in ("", "told"):
        decision.tell("put", {"object": eid, "case": case, "front": True}, (eid,))
    else:
        _replace(decision, 0, eid)
    tell_moved(decision, case, eid)


def _replace(decision: InstanceDecision, was: int, now: int) -> None:
    """Give the object away or take it back; tell the server, as events may depend on the object."""
    decision.change(changes.ObjectReplaced(was, now))
    if decision.has_rules(decision.state.state):
        decision.tell_state()


def tell_moved(decision: InstanceDecision, case: int, eid: int, target: str = "", event: str = "") -> None:
    """Tell a case that an event carries its object to a type, or, without one, that the object is here."""
    if case:
        to = target or decision.definition.full_name
        arguments: dict[str, Plain] = {"object": eid, "type": to, "event": event}
        decision.tell("moved", {"instance": decision.state.eid, **arguments}, (eid,), run=case)


# --- returns --------------------------------------------------------------------------------------------


def keep(
    decision: InstanceDecision, event: Returned, target: tuple[str, str], reserved: tuple[int, ...]
) -> tuple[int, ...]:
    """Keep the results of a successful call; return those that are not versions of an object. Raises
    ScriptFault.
    """
    problem, eids = problem_of(event), event.eids
    decision.add_to_context(eids)
    if problem is None and target[0] in WITH_PROTOTYPE:
        problem, eids = _judged(decision, event, target, reserved)
    decision.free(reserved, well=problem is None)
    if problem is not None:
        raise ScriptFault(problem.kind, problem.message, final=problem.final)
    return follow(decision, eids)


def _judged(
    decision: InstanceDecision, event: Returned, target: tuple[str, str], reserved: tuple[int, ...]
) -> tuple[Failure | None, tuple[int, ...]]:
    definition = decision.view.definition(*target)
    if definition is None:
        return Failure("unknown-target", f"{target[1]} is no longer there"), ()
    verdict = judge(definition.prototype, event.elements, decision.view)
    if verdict.fault:
        return Failure("bad-output", verdict.fault), ()
    made_of = decision.made_of()
    replaces = reserved if not verdict.errors else ()
    outputs = (*verdict.accepted, *verdict.errors)
    kept_eids = (
        decision.keep(output, decision.part, event.call, made_of, reserved=replaces) for output in outputs
    )
    eids = tuple([eid for eid in kept_eids if eid is not None])
    return Failure(
        "action-failed", f"{target[1]} gave error element {eids[-1]}"
    ) if verdict.errors else None, eids


def follow(decision: InstanceDecision, eids: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Follow objects to their current versions; return the other elements of `eids`. Raises ScriptFault."""
    carried = [frame.carried for frame in decision.state.frames]
    objects = tuple(eid for eid in (decision.state.object, *carried) if eid)
    for eid in objects:
        now = decision.view.current(eid)
        if now is None:
            raise ScriptFault("no-object", f"the object {eid} was replaced by nothing")
        if now != eid:
            decision.change(changes.ObjectReplaced(eid, now))
            eids = tuple(other for other in eids if other != now)
    return eids


def problem_of(event: Returned) -> Failure | None:
    """The failure of a call, if any; a program fails with a status other than 0."""
    if event.problem is not None:
        return event.problem
    if event.abandoned:
        return Failure("abandoned", "the call was given up", final=True)
    value = event.value or {}
    status = "its time limit" if value.get("timeout") else value.get("signal") or value.get("status") or 0
    if status == 0:
        return None
    return Failure("status", f"the program ended with {status}", str(value.get("output") or ""))
