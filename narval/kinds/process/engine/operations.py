"""Operations from outside: complete, go back, read and write attributes, and others (sections 2, 8, 11)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from narval.core.engines.decision import element_of
from narval.core.engines.events import Plain, Signalled
from narval.core.errors import ElementError
from narval.kinds.process.engine import conditions
from narval.kinds.process.engine.changes import ListenerSet
from narval.kinds.process.engine.decision import (
    OperationRefused,
    ProcessDecision,
    cancel_process,
    finalize_cancel,
    finalize_complete,
)
from narval.kinds.process.engine.state import NodeToken
from narval.kinds.process.engine.tokens import backtracking, flow
from narval.kinds.process.engine.tokens.views import environment_of
from narval.kinds.process.language.code import mask_of

Arguments = dict[str, Plain]
Value = dict[str, Plain]


def signalled(decision: ProcessDecision, event: Signalled) -> None:
    """Perform an operation and answer, or refuse it. Raises NodeFault if it leads to a node that fails."""
    try:
        anytime = _ANYTIME.get(event.name)
        value = anytime(decision, event.arguments) if anytime else _while_executing(decision, event)
    except OperationRefused as refusal:
        decision.refuse(event, refusal.kind, refusal.message)
        return
    decision.answer(event, **value)


def _while_executing(decision: ProcessDecision, event: Signalled) -> Value:
    """Perform an operation that only an executing process allows, and run its queue."""
    state = decision.state
    if state.status in ("pending-cancel", "cancelled"):
        raise OperationRefused("cancelled", f"process {state.eid} is {state.status}")
    if state.status == "created":
        begins = "it begins when a daemon is running (narval run)"
        raise OperationRefused("not-executing", f"process {state.eid} has not begun yet: {begins}")
    if state.status != "executing":
        raise OperationRefused("not-executing", f"process {state.eid} is {state.status}, it is not executing")
    operation = _EXECUTING.get(event.name)
    value = _hear(decision, event) if operation is None else operation(decision, event.arguments)
    if state.status == "executing" and not decision.leaves_queue:
        flow.run_queue(decision)
    return {**value, "state": state.status}


def _hear(decision: ProcessDecision, event: Signalled) -> Value:
    """Turn any other signal into an element of the process, which `wait` nodes may wait for."""
    if not any(node.conditions for node in decision.definition.nodes.values()):
        operations = ", ".join([*_EXECUTING, *_ANYTIME])
        raise OperationRefused(
            "not-listening", f"no node waits for {event.name}, and it is no operation ({operations})"
        )
    try:
        xml = element_of(event, decision.state.eid)
    except ElementError as error:
        raise OperationRefused(error.kind, str(error)) from None
    refusal = decision.view.schema_fault(xml)
    if refusal is not None:
        raise OperationRefused("invalid", refusal)
    eid = decision.add_told(xml, event)
    value: Value = {"eid": eid, "taken_by": None}
    for number in tuple(decision.state.watches.values()):
        token = decision.state.nodes[number]
        node = decision.node(token)
        if conditions.concerns(decision, node, token, eid) and conditions.satisfied(decision, node, token):
            flow.complete(decision, token)
            value["taken_by"] = token.node
            break
    return value


# --- tokens ---------------------------------------------------------------------------------------------


def _complete(decision: ProcessDecision, arguments: Arguments) -> Value:
    """Complete a token on the named arcs; None means the default ones, an empty list none."""
    token = _active(decision, arguments)
    node = decision.node(token)
    names = flow.names_of(node, arguments.get("arcs"))
    made = arguments.get("set")
    value: Value = {"token": token.id, "exits": len(flow.exits(node, names))}
    if isinstance(made, dict):
        value["set"] = flow.complete_with_set(decision, token, names, made)
        decision.leave_queue(arguments.get("asynchronous", True))  # section 2: it never runs the queue itself
    else:
        flow.complete(decision, token, names)
        decision.leave_queue(arguments.get("asynchronous"))
    backtracking.take_ways_back(decision)
    return value


def _backtrack(decision: ProcessDecision, arguments: Arguments) -> Value:
    return {"token": backtracking.backtrack(decision, _complete_one(decision, arguments)).id}


def _execute_token(decision: ProcessDecision, arguments: Arguments) -> Value:
    """Execute the node of a token that a listener had held back."""
    token = _active(decision, arguments)
    if not token.held_back:
        raise OperationRefused(
            "not-accepted", f"token {token.id} on {token.node} is not held back before its node"
        )
    flow.execute(decision, decision.node(token), token)
    return {"token": token.id}


def _reevaluate(decision: ProcessDecision, arguments: Arguments) -> Value:
    token = _active(decision, arguments)
    if token.guard not in ("DelayUntil", ""):
        raise OperationRefused("not-delayed", f"token {token.id} on {token.node} is not delayed")
    flow.reevaluate(decision, token)
    return {"token": token.id}


def _rerun(decision: ProcessDecision, arguments: Arguments) -> Value:
    """Run the failed node of a token again (section 18)."""
    token = _active(decision, arguments)
    if token.id not in decision.state.failed and token.guard:
        why = f"token {token.id} on {token.node} has not failed: there is nothing to run again"
        raise OperationRefused("not-failed", why)
    if token.guard == "AcceptToken":
        flow.execute(decision, decision.node(token), token)
    else:
        flow.reevaluate(decision, token)
    return {"token": token.id}


def _retry(decision: ProcessDecision, arguments: Arguments) -> Value:
    number = arguments.get("token")
    token = decision.state.arcs.get(number) if isinstance(number, int) else None
    if token is None:
        raise OperationRefused("no-token", f"process {decision.state.eid} has no arc token {number}")
    if token.id not in decision.state.active_arcs:
        raise OperationRefused("not-waiting", f"arc token {token.id} does not wait at {token.to}")
    return {"joined": flow.retry(decision, token)}


def _finalize(decision: ProcessDecision, arguments: Arguments) -> Value:
    """End a process whose end a listener had delayed."""
    if decision.state.status == "pending-completion":
        finalize_complete(decision)
    elif decision.state.status == "pending-cancel":
        finalize_cancel(decision)
    else:
        raise OperationRefused(
            "not-pending", f"process {decision.state.eid} is {decision.state.status}: its end is not held up"
        )
    return {"state": decision.state.status}


def _cancel(decision: ProcessDecision, arguments: Arguments) -> Value:
    if decision.state.status == "pending-cancel":
        raise OperationRefused("cancelled", f"process {decision.state.eid} is being cancelled already")
    cancel_process(decision)
    return {"state": decision.state.status}


# --- attributes and listeners ---------------------------------------------------------------------------


def _environment(decision: ProcessDecision, arguments: Arguments) -> Value:
    """Write attributes; None removes one. Return all attributes, those of a token over those of its
    process.
    """
    values = arguments.get("set") or {}
    if not isinstance(values, dict):
        raise OperationRefused("bad-argument", "expected the attributes to set by name")
    set_name, index = arguments.get("of_set"), arguments.get("index")
    token = (
        _token(decision, arguments) if arguments.get("token") is not None or arguments.get("node") else None
    )
    if set_name is not None:
        return _of_set(decision, token, str(set_name), index, values)
    decision.write(values, token=token.id if token is not None else None)
    of_token = environment_of(decision.state, token) if token is not None else decision.state.environment
    return {"environment": dict(of_token)}


def _of_set(
    decision: ProcessDecision, token: NodeToken | None, name: str, index: Plain, values: dict[str, Any]
) -> Value:
    """Write and return the attributes of a token set or of a member. The set is the one that the token is in,
    else the newest of that name.
    """
    among = token.sets if token is not None else decision.state.sets
    numbers = [number for number in among if decision.state.sets[number].name == name]
    if not numbers:
        raise OperationRefused("no-set-member", f"there is no token set named {name}")
    chosen = numbers[-1]
    place = index if isinstance(index, int) and not isinstance(index, bool) else None
    decision.write(values, token_set=chosen, index=place)
    token_set = decision.state.sets[chosen]
    return {"environment": dict(token_set.environment if place is None else token_set.members.get(place, {}))}


def _listen(listens: bool, decision: ProcessDecision, arguments: Arguments) -> Value:
    """Subscribe a listener to events, or unsubscribe it; return the mask of its events."""
    name, events = arguments.get("listener"), arguments.get("events") or []
    if not isinstance(name, str) or not name or not isinstance(events, list):
        raise OperationRefused("bad-argument", "expected the name of a listener, and a list of events")
    try:
        mask = mask_of(map(str, events))
    except ValueError as error:
        raise OperationRefused("bad-argument", str(error)) from None
    present = decision.state.listeners.get(name, 0)
    mask = present | mask if listens else present & ~mask
    decision.change(ListenerSet(name, mask))
    decision.listen()
    return {"listener": name, "mask": mask}


# --- finding the token ----------------------------------------------------------------------------------


def _token(decision: ProcessDecision, arguments: Arguments) -> NodeToken:
    """The token with a number, or the only active one on a node, or else the newest there."""
    number = arguments.get("token")
    if number is None:
        return _on_node(decision, arguments)
    if isinstance(number, bool) or not isinstance(number, int):
        raise OperationRefused("bad-argument", f"expected the number of a token, got: {number!r:.80}")
    token = decision.state.nodes.get(number)
    if token is None:
        what = "is an arc token" if number in decision.state.arcs else "is not one of its tokens"
        raise OperationRefused(
            "no-token", f"process {decision.state.eid} of {decision.definition.full_name}: {number} {what}"
        )
    node = arguments.get("node")
    if node and all(token.node != other.id for other in decision.definition.named(str(node))):
        raise OperationRefused("no-token", f"token {number} is on {token.node}, not on {node}")
    return token


def _on_node(decision: ProcessDecision, arguments: Arguments) -> NodeToken:
    nodes = _nodes(decision, arguments)
    active = [number for node in nodes for number in decision.state.standing.get(node, ())]
    if len(active) > 1:
        listed = ", ".join(map(str, active[:10]))
        raise OperationRefused(
            "ambiguous", f"{len(active)} tokens are active on {arguments.get('node')}: {listed}; name one"
        )
    if active:
        return decision.state.nodes[active[0]]
    newest = [decision.state.newest[node] for node in nodes if node in decision.state.newest]
    if not newest:
        raise OperationRefused("no-token", f"no token has come to {arguments.get('node')} yet")
    return decision.state.nodes[max(newest)]


def _nodes(decision: ProcessDecision, arguments: Arguments) -> list[str]:
    name = arguments.get("node")
    if not isinstance(name, str) or not name:
        raise OperationRefused("bad-argument", "expected a node or the number of a token")
    external = arguments.get("external")
    path = tuple(str(external).split(":")) if external else None
    ids = [node.id for node in decision.definition.named(name, path)]
    if not ids:
        is_token = name.isdecimal() and int(name) in decision.state.nodes
        hint = "; that is the id of a token: name it as the token" if is_token else ""
        raise OperationRefused(
            "no-token", f"process {decision.definition.full_name} has no node {name}{hint}"
        )
    return ids


def _active(decision: ProcessDecision, arguments: Arguments) -> NodeToken:
    token = _token(decision, arguments)
    if token.completed is not None:
        raise OperationRefused("token-complete", f"token {token.id} on {token.node} is complete already")
    return token


def _complete_one(decision: ProcessDecision, arguments: Arguments) -> NodeToken:
    """The token with a number, or the newest complete one on a node that was not backtracked."""
    if arguments.get("token") is not None:
        return _token(decision, arguments)
    nodes = frozenset(_nodes(decision, arguments))
    for token in reversed(decision.state.nodes.values()):
        if token.node in nodes and token.completed is not None and not token.backtracked:
            return token
    raise OperationRefused(
        "not-complete", f"no token on {arguments['node']} is complete and could be gone back to"
    )


_EXECUTING: dict[str, Callable[[ProcessDecision, Arguments], Value]] = {
    "complete": _complete,
    "backtrack": _backtrack,
    "execute": lambda decision, arguments: {},
    "execute-token": _execute_token,
    "reevaluate": _reevaluate,
    "rerun": _rerun,
    "retry-arc-token": _retry,
}
"""The operations on an executing process. Its queue runs afterwards, and the answer gives its state."""

_ANYTIME: dict[str, Callable[[ProcessDecision, Arguments], Value]] = {
    "finalize": _finalize,
    "cancel": _cancel,
    "environment": _environment,
    "listen": partial(_listen, True),
    "unlisten": partial(_listen, False),
}
"""The other operations."""
