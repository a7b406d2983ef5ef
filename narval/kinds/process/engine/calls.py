"""Nodes that call something: an action, a transform, a run, a script, or the user's class for their type."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from narval.core.definitions.action.definition import Action
from narval.core.definitions.prototype import Input, Prototype
from narval.core.definitions.remote_calls import limit_of_remote
from narval.core.elements.changes import MarkScope
from narval.core.engines import commands
from narval.core.engines.assignment import Slot, assign
from narval.core.engines.decision import Inputs
from narval.core.engines.events import Plain
from narval.kinds.process.engine import conditions
from narval.kinds.process.engine.changes import CodeQueued, NodeCallMade
from narval.kinds.process.engine.decision import NodeFault, ProcessDecision, hooks
from narval.kinds.process.engine.state import NodeToken
from narval.kinds.process.engine.tokens.rubric import evaluated
from narval.kinds.process.engine.tokens.views import environment_of, produced_before
from narval.kinds.process.language.definition import NESTED, SCRIPT, WITH_PROTOTYPE, Node


def calls(decision: ProcessDecision, node: Node) -> bool:
    """True if a node of this type calls something when it is executed."""
    if node.type == SCRIPT:
        return bool(node.text_of("execute"))
    return node.target is not None or "execute" in hooks(decision, node)


def call(decision: ProcessDecision, node: Node, token: NodeToken) -> bool:
    """Make the call, or queue it; return whether the node is executed only later. Raises NodeFault.

    A process runs its code one call at a time, so that code sees the effects of earlier code, as does a
    nested process when it begins. A node that runs code counts as executed when its call returns.
    """
    is_code = node.target is None
    if (is_code or node.type == NESTED) and (
        decision.state.code or decision.state.code_line.first is not None
    ):
        decision.change(CodeQueued(token.id))
        return True
    return make(decision, node, token)


def make(decision: ProcessDecision, node: Node, token: NodeToken) -> bool:
    """Make the call; return whether the node counts as executed only when it returns, as with code. Raises
    NodeFault.
    """
    if token.next_try is not None:
        return _make_again(decision, node, token, token.next_try)
    if node.target is None:
        call_code(decision, node, token, "execute")
        return True
    kind, name = node.target
    if node.agent:
        _call_remote(decision, node, token, kind, name)
        return False
    target = decision.view.definition(kind, name) if name else None
    if target is None:
        raise NodeFault(
            "unknown-target", f"node {node.id}: there is no {kind} named {name or '(none)'}", node
        )
    if kind in WITH_PROTOTYPE:
        _call_with_inputs(decision, node, token, kind, target)
    else:
        _call_run(decision, node, token, kind, target)
    return False


def has_hook(decision: ProcessDecision, node: Node, hook: str) -> bool:
    """True if there is code for a hook: a script of that name, or a method of the class for its type."""
    return bool(node.text_of(hook)) if node.type == SCRIPT else hook in hooks(decision, node)


def call_code(decision: ProcessDecision, node: Node, token: NodeToken, hook: str) -> None:
    """Call the script of a node, or the class for its type. Raises NodeFault."""
    timeout, values = seconds(node, "timeout"), evaluated(decision, node, token)
    made = NodeCallMade(token.id, decision.identifier(), hook != "execute", code=True)
    payload: dict[str, Plain] = {"hook": hook, "token": token.id}
    if values:
        payload["evaluated"] = values
    _send(decision, made, "node", node.type, node, timeout=timeout, payload=payload)


def _send(
    decision: ProcessDecision, made: NodeCallMade, kind: str, name: str, node: Node, *inputs: Any, **more: Any
) -> None:
    token = decision.state.nodes[made.token]
    more["attempt"] = 1 if made.hook else token.tries + 1
    decision.change(made)
    decision.command(commands.Call(made.call, kind, name, node.id, *inputs, **more))


def _make_again(decision: ProcessDecision, node: Node, token: NodeToken, before: commands.Call) -> bool:
    """Retry a failed call with the same id and elements, as its effects outside may exist already. Return
    whether it runs code. Raises NodeFault.
    """
    limit = limit_of(node)
    is_code, reserved = node.target is None, decision.state.reserved.get(before.call, ())
    decision.change(NodeCallMade(token.id, before.call, reserved=reserved, code=is_code))
    decision.command(replace(before, attempt=token.tries + 1, always="", begun=False))
    if limit is not None:
        decision.command(commands.SetTimer(before.call, decision.event.at + limit))
    return is_code


def _call_run(decision: ProcessDecision, node: Node, token: NodeToken, kind: str, target: Any) -> None:
    """Call a run nested in this one; a process begins with the attributes of the token (section 9)."""
    nearby, limit = conditions.around(decision, token).nearby, limit_of(node)
    arguments: dict[str, Plain] | None = None
    if kind == "process":
        arguments = {"environment": environment_of(decision.state, token), "token": token.id}
    more = {
        "elements": _answered_before(decision, node, token, target),
        "nearby": nearby,
        "payload": arguments,
    }
    made = NodeCallMade(token.id, decision.identifier())
    _send(decision, made, kind, target.full_name, node, **more)
    if limit is not None:
        decision.command(commands.SetTimer(made.call, decision.event.at + limit))


def _answered_before(decision: ProcessDecision, node: Node, token: NodeToken, target: Any) -> tuple[int, ...]:
    """The answer that people gave at a node which the process has gone back to or past: it is shown to those
    who are asked again. What was answered for another member of a token set is about something else.
    """
    if not getattr(target, "outcome_attribute", ""):
        return ()
    state = decision.state

    def places(one: NodeToken) -> list[tuple[str, int]]:
        return [(state.sets[number].name, index) for number, index in one.sets.items()]

    here = (one for one in reversed(state.nodes.values()) if one.node == node.id and one.produced)
    earlier = next((one for one in here if places(one) == places(token)), None)
    return earlier.produced if earlier is not None and earlier.backtracked else ()


def _call_remote(decision: ProcessDecision, node: Node, token: NodeToken, kind: str, name: str) -> None:
    """Call a definition of another agent. It is sent the elements that were produced nearest to the token; a
    process is also sent the attributes of the token. The time limit is a timer under the id of the call.
    """
    limit = limit_of_remote(seconds(node, "timeout"))
    nearest = next(iter(produced_before(decision.state, token)), ())
    payload: dict[str, Plain] | None = None
    if kind == "process":
        payload = {"environment": environment_of(decision.state, token)}
    made = NodeCallMade(token.id, decision.identifier())
    _send(decision, made, kind, name, node, elements=nearest, payload=payload, agent=node.agent)
    decision.command(commands.SetTimer(made.call, decision.event.at + limit))


def _call_with_inputs(
    decision: ProcessDecision, node: Node, token: NodeToken, kind: str, target: Any
) -> None:
    prototype: Prototype = target.prototype
    timeout = seconds(node, "timeout")  # before anything is reserved, as it may raise
    inputs, reserved = _find_inputs(decision, node, token, prototype)
    made = NodeCallMade(token.id, decision.identifier(), reserved=reserved)
    undoable = kind == Action.kind and target.undo != ""
    more = {"timeout": timeout, "approve": node.text_of("approve"), "undoable": undoable}
    _send(decision, made, kind, target.full_name, node, inputs, prototype.lists, **more)


def _find_inputs(
    decision: ProcessDecision, node: Node, token: NodeToken, prototype: Prototype
) -> tuple[Inputs, tuple[int, ...]]:
    """The elements of each input, and the reserved ones among them. Raises NodeFault."""
    if not prototype.inputs:
        return (), ()
    places = conditions.around(decision, token)
    slots = []
    for slot in prototype.inputs:
        bound = slot.condition.bind(conditions.bindings(decision, slot.condition.variables))
        ranks = places.ranks(bound, _scope(decision, node, slot), newest=slot.newest)
        slots.append(Slot(slot.id, ranks, slot.optional, slot.list))
    assigned = assign(slots)
    if assigned.missing:
        missing = ", ".join(
            f"{slot.id} ({slot.condition.text})" for slot in prototype.inputs if slot.id in assigned.missing
        )
        raise NodeFault("input-missing", f"node {node.id}: nothing in memory fits {missing}", node)
    settled: list[tuple[str, tuple[int, ...]]] = []
    reserved: list[int] = []
    for slot in prototype.inputs:
        eids = assigned.given.get(slot.id, ())
        if not eids:
            continue
        settled.append((slot.id, eids))
        decision.use_input(_scope(decision, node, slot), slot.outdates, eids)
        if slot.outdates:
            reserved.extend(eids)
    return tuple(settled), tuple(reserved)


def _scope(decision: ProcessDecision, node: Node, slot: Input) -> MarkScope | None:
    return (decision.definition.full_name, node.id, slot.id) if slot.use else None


def limit_of(node: Node) -> float | None:
    """The time limit of the call of a node that the engine keeps: that of a run. Raises NodeFault."""
    if node.agent:
        return limit_of_remote(seconds(node, "timeout"))
    return seconds(node, "timeout") if node.calls_run else None


def seconds(node: Node, key: str) -> float | None:
    """The number in a custom element of a node; None if the node lacks it. Raises NodeFault."""
    text = node.text_of(key)
    try:
        return float(text) if text else None
    except ValueError:
        raise NodeFault(
            "bad-property", f"node {node.id}: {key}: expected a number, got: {text}", node
        ) from None
