"""The return of a node's call: elements, the arcs it leaves on, and the effects that the user's code
requests, which are plain data and applied in order (sections 8 and 10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from narval.core.definitions.prototype import Prototype
from narval.core.elements.element import Element
from narval.core.engines import commands
from narval.core.engines.dates import retry_wait
from narval.core.engines.events import Failure, Plain, Produced, Returned
from narval.core.engines.outputs import judge
from narval.kinds.process.engine import calls, conditions
from narval.kinds.process.engine.changes import NodeCallBack, NodeTokenExecuted, NodeTokenRetried
from narval.kinds.process.engine.decision import NodeFault, OperationRefused, ProcessDecision, given_by
from narval.kinds.process.engine.state import NodeToken
from narval.kinds.process.engine.tokens import backtracking, flow
from narval.kinds.process.language.definition import NESTED, WITH_PROTOTYPE, Node

ERROR_ARC = "error"
"""The name of the arc by which a token leaves a node whose call failed, if there is one."""


def returned(decision: ProcessDecision, event: Returned) -> None:
    """Handle the return of a call: the node continues, waits, or has failed. Raises NodeFault."""
    token = decision.state.nodes[decision.state.calls[event.call]]
    node = decision.node(token)
    hook = event.call in decision.state.hooks
    problem = event.problem
    is_final = problem is not None and problem.final
    if event.abandoned and node.agent and not is_final:
        # its time limit has passed; calls given up otherwise are forgotten
        problem = _late(node)
    elif event.abandoned and problem is None:
        problem = Failure("abandoned", "the call was given up", final=True)
    if problem is not None and node.type == NESTED and problem.kind == "run-cancelled":
        _end_call(decision, event.call)  # only its completion flows back (section 9)
        return
    eids: tuple[int, ...] = ()
    if problem is None:
        problem, eids = _kept(decision, node, event)
    else:
        decision.add_to_context(event.eids)
    try:
        if problem is not None and not hook and _try_again(decision, node, token, problem, event.call):
            return
    except NodeFault:
        _end_call(decision, event.call)
        raise
    _end_call(decision, event.call, eids, well=problem is None)
    if problem is not None:
        _leave_failed(decision, node, token, problem, event.call, hook)
    elif node.target is not None:
        flow.complete(decision, token, (_outcome(decision, node, eids),))
    else:
        try:
            _apply_wishes(decision, token, event.value or {})
        except NodeFault as fault:
            fault.token = token.id if token.completed is None and not hook else None
            raise
        if not hook:
            decision.happens(NodeTokenExecuted(token.id))


def expired(decision: ProcessDecision, call: str) -> None:
    """Give up a call whose time limit has expired; at another agent, it returns as abandoned. Raises
    NodeFault.
    """
    token = decision.state.nodes[decision.state.calls[call]]
    node = decision.node(token)
    if node.agent:
        decision.command(commands.CancelCall(call))
    else:
        decision.give_up(call)
        _given_up(decision, node, token, _late(node))


def _late(node: Node) -> Failure:
    return Failure("timeout", f"{node.called} did not come back within {calls.limit_of(node):g} s")


def produced(decision: ProcessDecision, event: Produced) -> None:
    """Put the first elements of a source into memory; the node keeps waiting."""
    token = decision.state.nodes[decision.state.calls[event.call]]
    node = decision.node(token)
    prototype = _prototype(decision, node)
    if prototype is None:
        return
    bindings = partial(conditions.bindings, decision)
    verdict = judge(prototype, event.elements, decision.view, bindings, complete=False)
    if verdict.fault:
        decision.give_up(event.call)
        _given_up(decision, node, token, Failure("bad-output", verdict.fault))
        return
    for output in (*verdict.accepted, *verdict.errors):
        decision.keep(output, node.id, event.call, decision.given_to(event.call))


def _outcome(decision: ProcessDecision, node: Node, eids: tuple[int, ...]) -> str:
    """The name of the arcs to leave on: the outcome of the callee, if it has one and there are such arcs;
    else "", the default.
    """
    target = decision.view.definition(*node.target) if node.target is not None else None
    attribute = getattr(target, "outcome_attribute", "")
    elements = [decision.view.element(eid) for eid in eids] if attribute else []
    outcomes = (element.attributes.get(attribute, "") for element in elements if element is not None)
    return next((outcome for outcome in outcomes if outcome in node.outs_by_name), "")


# --- elements and errors --------------------------------------------------------------------------------


def _kept(decision: ProcessDecision, node: Node, event: Returned) -> tuple[Failure | None, tuple[int, ...]]:
    """The outputs of a call in memory, or the reason why they break its prototype."""
    if node.target is not None and node.target[0] not in WITH_PROTOTYPE:
        decision.add_to_context(event.eids)
        return None, event.eids
    if node.target is None:
        problem = _unknown_arc(node, event.value or {})
        return (problem, ()) if problem is not None else _added(decision, node, event)
    prototype = _prototype(decision, node)
    if prototype is None:
        return Failure("unknown-target", f"{node.type} {node.text_of('target')} is no longer there"), ()
    bindings = partial(conditions.bindings, decision)
    verdict = judge(prototype, event.elements, decision.view, bindings)
    if verdict.fault:
        return Failure("bad-output", verdict.fault), ()
    reserved, made_of = decision.state.reserved.get(event.call, ()), decision.given_to(event.call)
    keep = partial(decision.keep, part=node.id, call=event.call, inputs=made_of)
    outputs = [keep(output, reserved=reserved) for output in verdict.accepted]
    eids = tuple([eid for eid in outputs if eid is not None])
    errors = list(map(keep, verdict.errors))
    if errors:
        return Failure("action-failed", f"node {node.id} gave error element {errors[0]}"), ()
    return None, eids


def _added(decision: ProcessDecision, node: Node, event: Returned) -> tuple[Failure | None, tuple[int, ...]]:
    """The elements that the user's code gave, if its type and the schemas allow them; else the
    reason.
    """
    names = given_by(decision, node) if event.elements else None
    for raw in event.elements:
        if names is not None and (name := Element(0, raw.xml).name) not in names:
            promised = f"node {node.id} of type {node.type} gives {' or '.join(names) or 'nothing'}"
            return Failure("bad-output", f"{promised}, and gave {name:.80}"), ()
        refusal = decision.view.schema_fault(raw.xml)
        if refusal is not None:
            return Failure("bad-output", f"an element of node {node.id} is refused: {refusal}"), ()
    return None, tuple(decision.add(Element(0, raw.xml), node.id, event.call) for raw in event.elements)


def _prototype(decision: ProcessDecision, node: Node) -> Prototype | None:
    if node.target is None or node.target[0] not in WITH_PROTOTYPE:
        return None
    target = decision.view.definition(*node.target)
    return target.prototype if target is not None else None


def _end_call(decision: ProcessDecision, call: str, eids: tuple[int, ...] = (), well: bool = False) -> None:
    decision.drop_limit(call)
    decision.free(decision.state.reserved.get(call, ()), well=well)
    decision.change(NodeCallBack(call, eids))


def _given_up(decision: ProcessDecision, node: Node, token: NodeToken, problem: Failure) -> None:
    """Make a new call in place of one that was given up and may still return; or fail. Raises NodeFault."""
    if not _try_again(decision, node, token, problem):
        _leave_failed(decision, node, token, problem)


def _leave_failed(
    decision: ProcessDecision,
    node: Node,
    token: NodeToken,
    problem: Failure,
    call: str = "",
    hook: bool = False,
) -> None:
    """Add an error element, and let the token leave on the arc for errors or stay. Raises NodeFault."""
    error = decision.add_error(
        problem.kind, problem.message, node, detail=problem.detail, call=call, token=token.id
    )
    if hook:
        return  # a backtracked token stays backtracked
    if ERROR_ARC not in node.outs_by_name:
        fault = NodeFault(problem.kind, f"node {node.id}: {problem.message}", node, error=error)
        fault.token = token.id
        raise fault
    flow.complete(decision, token, (ERROR_ARC,))


def _try_again(
    decision: ProcessDecision, node: Node, token: NodeToken, problem: Failure, call: str = ""
) -> bool:
    """Retry the call of a node after a delay, if it has retries left: the same call, unless it was given up.
    Raises NodeFault.
    """
    retries = calls.seconds(node, "retries")
    if retries is None or token.tries >= retries or problem.final:
        return False
    pause = retry_wait(calls.seconds(node, "backoff"), token.tries + 1, decision.event.id)
    until, wake = decision.event.at + pause, decision.identifier()
    asked = decision.view.pending_call(call) if call else None
    reserved = decision.state.reserved.get(call, ())
    if call:
        decision.drop_limit(call)
        decision.change(NodeCallBack(call))
    decision.change(NodeTokenRetried(token.id, until, wake, asked, reserved))
    decision.command(commands.SetTimer(wake, until))
    return True


# --- effects of code -------------------------------------------------------------------------------------

Effect = Mapping[str, Any]


def _unknown_arc(node: Node, value: Mapping[str, Plain]) -> Failure | None:
    """The failure of code that completes its token on an arc that does not exist."""
    wishes = value.get("effects")
    for wish in wishes if isinstance(wishes, list | tuple) else ():
        if isinstance(wish, dict) and str(wish.get("do")).startswith("complete"):
            try:
                flow.names_of(node, wish.get("arcs"))
            except OperationRefused as refusal:
                return Failure(refusal.kind, refusal.message)
    return None


def _apply_wishes(decision: ProcessDecision, token: NodeToken, value: Mapping[str, Plain]) -> None:
    """Apply the effects that the code of a node requests, in order. Raises NodeFault."""
    wishes: Any = value.get("effects") or ()
    try:
        for wish in wishes if isinstance(wishes, list | tuple) else [wishes]:
            _DO[wish["do"]](decision, token, wish)
    except OperationRefused as refusal:
        raise NodeFault(refusal.kind, refusal.message, decision.node(token)) from None
    except (KeyError, TypeError, AttributeError) as error:
        message = f"node {token.node}: what it wants done cannot be read: {error!r}"
        raise NodeFault("bad-answer", message, decision.node(token)) from None


def _set(decision: ProcessDecision, token: NodeToken, wish: Effect) -> None:
    of, values = wish["of"], {str(wish["name"]): wish["value"]}
    if of in ("token", "process"):
        decision.write(values, token=token.id if of == "token" else None)
        return
    for number, index in token.sets.items():
        if decision.state.sets[number].name == wish["set"]:
            decision.write(values, token_set=number, index=index if of == "member" else None)
            return
    raise OperationRefused("no-set-member", f"token {token.id} is in no token set named {wish['set']}")


def _complete(decision: ProcessDecision, token: NodeToken, wish: Effect) -> None:
    decision.leave_queue(wish.get("asynchronous"))
    flow.complete(decision, token, flow.names_of(decision.node(token), wish.get("arcs")))


def _complete_with_set(decision: ProcessDecision, token: NodeToken, wish: Effect) -> None:
    decision.leave_queue(wish.get("asynchronous"))
    names = flow.names_of(decision.node(token), wish.get("arcs"))
    flow.complete_with_set(decision, token, names, wish)


def _backtrack(decision: ProcessDecision, token: NodeToken, wish: Effect) -> None:
    node_token = decision.state.nodes.get(wish["token"])
    if node_token is None:
        raise OperationRefused("no-token", f"there is no node token {wish['token']} in this process")
    backtracking.backtrack(decision, node_token)


_DO: dict[str, Callable[[ProcessDecision, NodeToken, Effect], None]] = {
    "set": _set,
    "complete": _complete,
    "complete-with-new-token-set": _complete_with_set,
    "backtrack": _backtrack,
}
