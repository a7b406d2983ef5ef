"""Operations from outside: complete, go back, read and write attributes, and others (sections 2, 8, 11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narval.engines import signal_element
from narval.engines.events import Plain, Signalled
from narval.engines.process import backtracking, completion, environment, flow, node_effects, waits
from narval.engines.process.changes import ListenerSet, mask_of
from narval.engines.process.decision import OperationRefused, ProcessDecision
from narval.engines.process.tokens import NodeToken
from narval.errors import ElementError

Arguments = dict[str, Plain]
Value = dict[str, Plain]


def signalled(run: ProcessDecision, event: Signalled) -> None:
    """Do what is asked and answer, or refuse. Raises NodeFault where it led to a node that failed."""
    operation = _OPERATIONS.get(event.name)
    try:
        value = _hear(run, event) if operation is None else operation(run, event.arguments)
    except OperationRefused as refusal:
        run.refuse(event, refusal.kind, refusal.message)
        return
    run.answer(event, **value)


def _hear(run: ProcessDecision, event: Signalled) -> Value:
    """Any other signal becomes an element of the process' own, which `wait` nodes may wait for."""
    _executing(run)
    if not any(node.conditions for node in run.process.nodes.values()):
        known = ", ".join(_OPERATIONS)
        raise OperationRefused(
            "not-listening", f"no node waits for {event.name}, and it is no operation ({known})"
        )
    try:
        xml = signal_element.element(run.state.run, event)
    except ElementError as error:
        raise OperationRefused(error.kind, str(error)) from None
    refusal = run.view.schema_fault(xml)
    if refusal is not None:
        raise OperationRefused("invalid", refusal)
    eid = run.add(xml, call=event.signal)
    value: Value = {"eid": eid, "taken_by": None}
    for number in tuple(run.state.watches.values()):
        token = run.state.nodes[number]
        if waits.concerns(run, run.node(token), eid) and waits.satisfied(run, run.node(token), token):
            flow.complete(run, token)
            value["taken_by"] = token.node
            break
    return _with_state(run, value)


# --- tokens ---------------------------------------------------------------------------------------------


def _complete(run: ProcessDecision, said: Arguments) -> Value:
    _executing(run)
    token = _active(run, said)
    names = node_effects.names_of(said.get("arcs") or None)
    made = said.get("set")
    value: Value = {"token": token.id, "exits": len(flow.exits(run.node(token), names))}
    unknown = [name for name in names if name and name not in run.node(token).outs_by_name]
    if unknown:
        value["unknown_arcs"] = list(unknown)
    if isinstance(made, dict):
        value["set"] = node_effects.with_set(run, token, names, made)
        run.leaves_queue = True
    else:
        flow.complete(run, token, names)
        run.leaves_queue = bool(said.get("asynchronous"))
    return _with_state(run, value)


def _backtrack(run: ProcessDecision, said: Arguments) -> Value:
    _executing(run)
    result = backtracking.backtrack(run, _complete_one(run, said))
    return _with_state(run, {"token": result.id})


def _execute_token(run: ProcessDecision, said: Arguments) -> Value:
    """A listener had held a token back: its node is executed now."""
    _executing(run)
    token = _active(run, said)
    if token.guard != "AcceptToken" or token.call or token.watch:
        raise OperationRefused(
            "not-accepted", f"token {token.id} on {token.node} is not held back before its node"
        )
    flow.execute(run, run.node(token), token)
    return _with_state(run, {"token": token.id})


def _reevaluate(run: ProcessDecision, said: Arguments) -> Value:
    _executing(run)
    token = _token(run, said)
    if token.completed is not None:
        raise _is_complete(token)
    if token.guard not in ("DelayUntil", ""):
        raise OperationRefused("not-delayed", f"token {token.id} on {token.node} is not delayed")
    flow.reevaluate(run, token)
    return _with_state(run, {"token": token.id})


def _retry(run: ProcessDecision, said: Arguments) -> Value:
    _executing(run)
    number = said.get("token")
    token = run.state.arcs.get(number) if isinstance(number, int) else None
    if token is None:
        raise OperationRefused("no-token", f"process {run.state.run} has no arc token {number}")
    if token.id not in run.state.active_arcs:
        raise OperationRefused("not-waiting", f"arc token {token.id} does not wait at {token.to}")
    return _with_state(run, {"joined": flow.retry(run, token)})


def _execute_queued(run: ProcessDecision, said: Arguments) -> Value:
    _executing(run)
    return _with_state(run, {})


def _finalize(run: ProcessDecision, said: Arguments) -> Value:
    """A listener had held the end of the process up."""
    if run.state.state == "pending-completion":
        completion.finalize_complete(run)
    elif run.state.state == "pending-cancel":
        completion.finalize_cancel(run)
    else:
        raise OperationRefused(
            "not-pending", f"process {run.state.run} is {run.state.state}: its end is not held up"
        )
    return _with_state(run, {})


def _cancel(run: ProcessDecision, said: Arguments) -> Value:
    if run.state.state == "pending-cancel":
        raise OperationRefused("cancelled", f"process {run.state.run} is being canceled already")
    completion.cancel(run)
    return _with_state(run, {})


# --- attributes and listeners ---------------------------------------------------------------------------


def _environment(run: ProcessDecision, said: Arguments) -> Value:
    """Write attributes, None removing one; what they are then, those of the process below a token's."""
    values = said.get("set") or {}
    if not isinstance(values, dict):
        raise OperationRefused("bad-argument", "expected the attributes to set by name")
    set_name, index = said.get("of_set"), said.get("index")
    token = _token(run, said) if said.get("token") is not None or said.get("node") else None
    if set_name is not None:
        return _of_set(run, token, str(set_name), index, values)
    node_effects.write(run, values, token=token.id if token is not None else None)
    shown = environment.full(run.state, token) if token is not None else run.state.environment
    return {"environment": dict(shown)}


def _of_set(
    run: ProcessDecision, token: NodeToken | None, name: str, index: Plain, values: dict[str, Any]
) -> Value:
    """The attributes of a token set, or of a member: of the set a token is in, or the newest of the name."""
    among = token.sets if token is not None else run.state.sets
    found = [each for each in among if run.state.sets[each].name == name]
    if not found:
        raise OperationRefused("no-set-member", f"there is no token set named {name}")
    chosen = found[-1]
    place = index if isinstance(index, int) and not isinstance(index, bool) else None
    node_effects.write(run, values, token_set=chosen, index=place)
    if place is None:
        return {"environment": dict(run.state.sets[chosen].environment)}
    return {"environment": dict(environment.of_member(run.state, chosen, place))}


def _listen(run: ProcessDecision, said: Arguments) -> Value:
    name, mask = _listening(said)
    known = run.state.listeners.get(name, 0)
    run.record.change(ListenerSet(name, known | mask))
    run.listen()
    return {"listener": name, "mask": known | mask}


def _unlisten(run: ProcessDecision, said: Arguments) -> Value:
    name, mask = _listening(said)
    left = run.state.listeners.get(name, 0) & ~mask
    run.record.change(ListenerSet(name, left))
    run.listen()
    return {"listener": name, "mask": left}


def _listening(said: Arguments) -> tuple[str, int]:
    name, events = said.get("listener"), said.get("events") or []
    if not isinstance(name, str) or not name or not isinstance(events, list):
        raise OperationRefused("bad-argument", "expected the name of a listener, and a list of events")
    try:
        return name, mask_of(tuple(str(each) for each in events))
    except KeyError as error:
        raise OperationRefused("bad-argument", f"there is no event {error.args[0]}") from None


# --- which token is meant -------------------------------------------------------------------------------


def _executing(run: ProcessDecision) -> None:
    state = run.state
    if state.state in ("pending-cancel", "canceled"):
        raise OperationRefused("cancelled", f"process {state.run} is {state.state}")
    if state.state != "executing":
        raise OperationRefused("not-executing", f"process {state.run} is {state.state}, it is not executing")


def _with_state(run: ProcessDecision, value: Value) -> Value:
    if run.state.state == "executing" and not run.leaves_queue:
        flow.run_queue(run)
    value["state"] = run.state.state
    return value


def _token(run: ProcessDecision, said: Arguments) -> NodeToken:
    """The token of a number; or the only active one on a node."""
    number = said.get("token")
    if number is None:
        return _on_node(run, said)
    if isinstance(number, bool) or not isinstance(number, int):
        raise OperationRefused("bad-argument", f"expected the number of a token, got: {number!r:.80}")
    token = run.state.nodes.get(number)
    if token is None:
        what = "is an arc token" if number in run.state.arcs else "is none of its tokens"
        raise OperationRefused(
            "no-token", f"process {run.state.run} of {run.process.full_name}: {number} {what}"
        )
    node = said.get("node")
    if node and all(token.node != each.id for each in run.process.named(str(node))):
        raise OperationRefused("no-token", f"token {number} is on {token.node}, not on {node}")
    return token


def _on_node(run: ProcessDecision, said: Arguments) -> NodeToken:
    nodes = _nodes(run, said)
    active = [each for node in nodes for each in run.state.standing.get(node, ())]
    if len(active) > 1:
        listed = ", ".join(map(str, active[:10]))
        raise OperationRefused(
            "ambiguous", f"{len(active)} tokens are active on {said.get('node')}: {listed}; name one"
        )
    if active:
        return run.state.nodes[active[0]]
    newest = [run.state.newest[node] for node in nodes if node in run.state.newest]
    if not newest:
        raise OperationRefused("no-token", f"no token has come to {said.get('node')} yet")
    return run.state.nodes[max(newest)]


def _nodes(run: ProcessDecision, said: Arguments) -> list[str]:
    name = said.get("node")
    if not isinstance(name, str) or not name:
        raise OperationRefused("bad-argument", "expected a node or the number of a token")
    external = said.get("external")
    path = tuple(str(external).split(":")) if external else None
    found = [node.id for node in run.process.named(name, path)]
    if not found:
        raise OperationRefused("no-token", f"process {run.process.full_name} has no node {name}")
    return found


def _active(run: ProcessDecision, said: Arguments) -> NodeToken:
    token = _token(run, said)
    if token.completed is not None:
        raise _is_complete(token)
    return token


def _is_complete(token: NodeToken) -> OperationRefused:
    return OperationRefused("token-complete", f"token {token.id} on {token.node} is complete already")


def _complete_one(run: ProcessDecision, said: Arguments) -> NodeToken:
    """The token of a number; or the newest complete one on a node that was not gone back from."""
    if said.get("token") is not None:
        return _token(run, said)
    nodes = frozenset(_nodes(run, said))
    for token in reversed(run.state.nodes.values()):
        if token.node in nodes and token.completed is not None and not token.backtracked:
            return token
    raise OperationRefused(
        "not-complete", f"no token on {said['node']} is complete and could be gone back to"
    )


_OPERATIONS: dict[str, Callable[[ProcessDecision, Arguments], Value]] = {
    "complete": _complete,
    "backtrack": _backtrack,
    "execute": _execute_queued,
    "execute-token": _execute_token,
    "reevaluate": _reevaluate,
    "retry-arc-token": _retry,
    "finalize": _finalize,
    "cancel": _cancel,
    "environment": _environment,
    "listen": _listen,
    "unlisten": _unlisten,
}
