"""The callee of a step: its target as narrowed by the step, and the common part of its calls."""

from __future__ import annotations

from typing import Any

import msgspec

from narval.core.definitions.action.definition import Action
from narval.core.definitions.prototype import Prototype
from narval.core.engines.commands import Call
from narval.core.engines.events import Failure
from narval.core.errors import DefinitionError
from narval.core.kinds import NESTS_CURRENT
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.language.definition import Step


class Callee(msgspec.Struct, frozen=True):
    """The target of a step, prepared once for each library.

    `prototype` is that of the target, as narrowed by the step; None if the target has none, or there is a
    `failure`: the reason why the step cannot run. Calls of a `source` run on and yield elements. `call` is
    the common part of all calls. A `plain` callee is called once, without inputs and without a time limit;
    one that `gives_nothing` has no outputs.
    """

    call: Call
    prototype: Prototype | None = None
    failure: Failure | None = None
    source: bool = False
    plain: bool = False
    gives_nothing: bool = False


def callee_of(decision: RecipeDecision, step: Step) -> Callee:
    """The callee of a step, in the version that counts for its plan."""
    library = decision.view.library
    callee: Callee | None = library.built.get(step)
    if callee is None:
        if step.agent:
            callee = library.built[step] = _callee(step, None)
        elif step.kind not in NESTS_CURRENT and (target := library.get(step.kind, step.target)) is not None:
            callee = library.built[step] = _callee(step, target)
        else:  # the answer depends on another library
            callee = _callee(step, decision.view.definition(step.kind, step.target))
    return callee


def _callee(step: Step, target: Any) -> Callee:
    is_action = type(target) is Action
    call = Call(
        "",
        step.kind,
        step.target,
        step.id,
        timeout=step.timeout,
        on_restart=step.on_restart,
        payload=step.sending.payload if step.sending is not None else None,
        agent=step.agent,
        approve=step.approve,
        undoable=is_action and bool(step.undo or target.undo),
    )
    if step.agent or step.sending:
        return Callee(call, step.own_inputs if step.sending else None)
    if target is None:
        unknown = Failure("unknown-target", f"there is no {step.kind} named {step.target}")
        return Callee(call, failure=unknown)
    declared = getattr(target, "prototype", None)
    try:
        prototype = None if declared is None else step.prototype(declared)
    except DefinitionError as error:
        why = error.faults[0].message
        misfit = Failure("misfit", f"{step.kind} {step.target} is not what the step expects: {why}")
        return Callee(call, failure=misfit)
    if prototype is None:
        return Callee(call)
    source = is_action and target.where == "source"
    once = not source and step.foreach is None and step.until is None
    plain = once and not prototype.inputs and not step.arguments and step.timeout is None
    return Callee(call, prototype, source=source, plain=plain, gives_nothing=not prototype.outputs)
