"""What came back from the call of a node: elements, attributes, and the arcs it leaves on."""

from __future__ import annotations

from collections.abc import Mapping

from narval.definitions.process.definition import Node
from narval.definitions.prototype import Prototype
from narval.engines import commands
from narval.engines.candidates import Bindings
from narval.engines.events import Failure, Plain, Produced, Returned
from narval.engines.outputs import Accepted, judge
from narval.engines.process import backtracking, conditions, flow, node_effects
from narval.engines.process.calls import WITH_PROTOTYPE
from narval.engines.process.changes import NodeCallBack, NodeTokenExecuted
from narval.engines.process.decision import NodeFault, ProcessDecision
from narval.engines.process.node_types import NESTED
from narval.engines.process.tokens import NodeToken

ERROR_ARC = "error"
"""Where a node leaves whose call failed, if it has such an arc."""


def returned(run: ProcessDecision, event: Returned) -> None:
    """A call came back: the node goes on, waits, or has failed. Raises NodeFault."""
    token = run.state.nodes[run.state.calls[event.call]]
    node = run.node(token)
    hook = event.call in run.state.hooks
    problem = event.problem
    if event.abandoned and problem is None:
        problem = Failure("abandoned", "the call was given up", final=True)
    if problem is not None and node.type == NESTED and problem.kind == "run-cancelled":
        _end_call(run, event.call)  # nothing flows back but that it is complete (section 9)
        return
    if problem is None:
        problem, eids = _kept(run, node, event)
    else:
        eids = event.eids
        if eids:
            run.record.command(commands.AddToContext(eids))
    _end_call(run, event.call, eids if problem is None else (), well=problem is None)
    if problem is not None:
        _failed(run, node, token, problem, event, hook)
    elif not hook:
        _goes_on(run, node, token, event.value)
    else:
        node_effects.take(run, token, event.value or {})
    if hook:
        backtracking.undo(run)


def produced(run: ProcessDecision, event: Produced) -> None:
    """An action that is a source has elements already: they enter memory, and the node goes on waiting."""
    token = run.state.nodes[run.state.calls[event.call]]
    node = run.node(token)
    prototype = _prototype(run, node)
    if prototype is None:
        return
    verdict = judge(prototype, event.elements, run.view, _bindings(run, prototype), complete=False)
    if verdict.fault:
        run.give_up(event.call)
        _failed(run, node, token, Failure("bad-output", verdict.fault), None, False)
        return
    for each in (*verdict.accepted, *verdict.errors):
        _keep(run, node, event.call, each)


def _goes_on(run: ProcessDecision, node: Node, token: NodeToken, value: Mapping[str, Plain] | None) -> None:
    if node.target is not None:
        flow.complete(run, token)
        return
    node_effects.take(run, token, value or {})
    run.happens(NodeTokenExecuted(token.id))


# --- elements and errors --------------------------------------------------------------------------------


def _kept(run: ProcessDecision, node: Node, event: Returned) -> tuple[Failure | None, tuple[int, ...]]:
    """What a call gave, as it stands in memory; or why it is not what was promised (N20)."""
    if node.target is not None and node.target[0] not in WITH_PROTOTYPE:
        if event.eids:
            run.record.command(commands.AddToContext(event.eids))
        return None, event.eids
    if node.target is None:
        return _added(run, node, event)
    prototype = _prototype(run, node)
    if prototype is None:
        return Failure("unknown-target", f"there is no {node.type} {node.text_of('target')} any more"), ()
    verdict = judge(prototype, event.elements, run.view, _bindings(run, prototype))
    if verdict.fault:
        return Failure("bad-output", verdict.fault), ()
    kept = (_keep(run, node, event.call, each) for each in verdict.accepted)
    eids = tuple(eid for eid in kept if eid is not None)
    errors = [_keep(run, node, event.call, each) for each in verdict.errors]
    if errors:
        return Failure("action-failed", f"node {node.id} gave error element {errors[0]}"), ()
    return None, eids


def _added(run: ProcessDecision, node: Node, event: Returned) -> tuple[Failure | None, tuple[int, ...]]:
    """The elements that code of the user's own gave; it promised nothing but what schemas say (N7)."""
    for raw in event.elements:
        refusal = run.view.schema_fault(raw.xml)
        if refusal is not None:
            return Failure("bad-output", f"an element of node {node.id} is refused: {refusal}"), ()
    return None, tuple(run.add(raw.xml, node.id, event.call) for raw in event.elements)


def _prototype(run: ProcessDecision, node: Node) -> Prototype | None:
    if node.target is None or node.target[0] not in WITH_PROTOTYPE:
        return None
    target = run.view.definition(*node.target)
    return target.prototype if target is not None else None


def _bindings(run: ProcessDecision, prototype: Prototype) -> Bindings:
    return conditions.bindings(run, prototype.output_variables)


def _keep(run: ProcessDecision, node: Node, call: str, output: Accepted) -> int | None:
    """Add an output, unless `unique` has seen its value before (N37)."""
    if output.key is not None:
        if run.view.unique_seen(*output.key):
            return None
        run.record.command(commands.RecordUnique(*output.key))
    return run.add(output.xml, node.id, call)


def _end_call(run: ProcessDecision, call: str, eids: tuple[int, ...] = (), *, well: bool = False) -> None:
    reserved = run.state.reserved.get(call)
    if reserved:
        run.record.command(commands.Outdate(reserved) if well else commands.Release(reserved))
    run.record.change(NodeCallBack(call, eids))


def _failed(
    run: ProcessDecision, node: Node, token: NodeToken, problem: Failure, event: Returned | None, hook: bool
) -> None:
    """The call did not do its work: an error element, and the arc for errors; else the process fails."""
    call = event.call if event is not None else ""
    error = run.add_error(
        problem.kind, problem.message, node, detail=problem.detail, call=call, token=token.id
    )
    if hook:
        return  # what was gone back from stays so
    if ERROR_ARC not in node.outs_by_name:
        raise NodeFault(problem.kind, f"node {node.id}: {problem.message}", node, error=error)
    flow.complete(run, token, (ERROR_ARC,))
