"""Running a step: its calls are made, one or one for each element, until it has ended (N17–N19, N21)."""

from __future__ import annotations

from itertools import islice
from typing import Any

from narval.definitions.prototype import Input, Prototype
from narval.definitions.recipe.definition import Step
from narval.engines import commands
from narval.engines.decision import Inputs
from narval.engines.events import Failure
from narval.engines.recipe.changes import (
    CallMade,
    CallsDropped,
    Each,
    StepDone,
    StepErred,
    StepFailed,
    StepHeldBack,
    StepReady,
    StepRunning,
)
from narval.engines.recipe.decision import RecipeDecision
from narval.engines.recipe.inputs import InputSearch, around, scope_of
from narval.errors import DefinitionError
from narval.memory.elements.element import Element
from narval.memory.patterns.pattern import Condition

WITH_PROTOTYPE = frozenset({"action", "transform"})
"""Targets that say what they take and give; any other is a definition, whose run is nested (§1.3.1)."""


def make_ready(decision: RecipeDecision, step: Step) -> None:
    """The first step of a plan is to run."""
    decision.change(StepReady(step.id))
    decision.to_run.append(step)


def run(decision: RecipeDecision, step: Step) -> None:
    """Find the step's target and inputs, and make its calls; or fail it (N17), or hold it back (N18)."""
    target = decision.view.definition(step.kind, step.target)
    prototype = prototype_of(step, target)
    if prototype is None:
        _call_run(decision, step)
    elif isinstance(prototype, Failure):
        fail(decision, step, prototype.kind, prototype.message)
    elif step.foreach is None:
        _call_once(decision, step, prototype, target)
    else:
        _call_for_each(decision, step, prototype, step.foreach)


def prototype_of(step: Step, target: Any) -> Prototype | Failure | None:
    """What the target takes and gives as the step tightens it, None for a run; or why the step cannot run."""
    if target is None:
        return Failure("unknown-target", f"there is no {step.kind} named {step.target}")
    if step.kind not in WITH_PROTOTYPE:
        return None
    try:
        return step.prototype(target.prototype)
    except DefinitionError as error:
        why = error.faults[0].message
        return Failure("misfit", f"{step.kind} {step.target} is not what the step expects: {why}")


def uses(decision: RecipeDecision, step: Step) -> bool:
    """Whether the step's calls use elements up: what they were given they are not given again (N18)."""
    prototype = prototype_of(step, decision.view.definition(step.kind, step.target))
    return isinstance(prototype, Prototype) and any(each.use or each.outdates for each in prototype.inputs)


def fail(decision: RecipeDecision, step: Step, kind: str, message: str, *, input: str = "") -> None:
    """The engine cannot run the step: the plan fails (N17, N26)."""
    error = decision.add_error(kind, message, step, input=input)
    decision.change(StepFailed(step.id, error))
    decision.fail(error)


# --- its calls ------------------------------------------------------------------------------------------


def _call_once(decision: RecipeDecision, step: Step, prototype: Prototype, target: Any) -> None:
    source = _is_source(target)
    if not prototype.inputs:
        _call(decision, step, source=source)
        return
    taking = InputSearch(decision, step, prototype)
    assigned = taking.assign()
    if assigned.missing:
        _missing(decision, step, taking, assigned.missing)
        return
    inputs = taking.settle(assigned)
    reserved = taking.outdated_by(inputs)
    _call(decision, step, inputs, reserved=reserved, listed=prototype.lists, source=source)


def _call_for_each(decision: RecipeDecision, step: Step, prototype: Prototype, selected: Condition) -> None:
    """One call for each selected element, given to the one input it fits; the others are shared (N19)."""
    taking = InputSearch(decision, step, prototype)
    found = _selected(decision, selected)
    slot, fault = _one_input(decision, taking, found)
    if fault:
        fail(decision, step, "foreach-misfit", fault)
        return
    if slot is None:
        slot = _likely_input(prototype, selected)
    if slot is not None:
        taking.restrict(slot, selected)
    eids = taking.may_take(slot, found) if slot is not None else ()
    if slot is None or (not eids and slot.optional):
        decision.change(StepRunning(step.id))
        finish(decision, step)
        return
    assigned = taking.assign(without=slot)
    missing = assigned.missing if eids else (slot.id, *assigned.missing)
    if missing:
        _missing(decision, step, taking, missing)
        return
    shared = taking.settle(assigned)
    each = Each(
        input=slot.id,
        use=slot.use,
        outdates=slot.outdates,
        shared=shared,
        listed=prototype.lists,
        reserved=taking.outdated_by(shared),
    )
    decision.change(StepRunning(step.id, each=each, later=eids))
    call_more(decision, step)


def _call_run(decision: RecipeDecision, step: Step) -> None:
    """A run of the target is nested in this plan, or one for each element; arguments are its context."""
    found: tuple[int, ...] = ()
    if step.foreach is not None:
        found = _selected(decision, step.foreach)
        if not found:
            why = f"nothing in memory fits foreach ({step.foreach.text})"
            fail(decision, step, "input-missing", why, input="foreach")
            return
    arguments = tuple(decision.add(Element(0, xml), step.id) for xml in step.arguments)
    if step.foreach is None:
        _call(decision, step, elements=arguments, nearby=_near_to_run(decision, step, arguments))
    else:
        decision.change(StepRunning(step.id, each=Each(arguments=arguments), later=found))
        call_more(decision, step)


def call_more(decision: RecipeDecision, step: Step) -> None:
    """Make as many of the calls still to be made as `max-parallel` allows (N19).

    An element is taken when its call is made, so one that was taken elsewhere before its turn gets no call.
    """
    run = decision.state.step(step.id)
    if run.each is None or step.foreach is None:
        return
    each, room = run.each, run.waiting if step.max_parallel is None else step.max_parallel - len(run.calls)
    bound = step.foreach.bind(decision.bindings(step.foreach.variables))
    scope = scope_of(decision, step, each.input, each.use)
    nearby = _near_to_run(decision, step, each.arguments) if not each.input else ()
    again = decision.state.taken_before(step.id, each.input)
    source = _is_source(decision.view.definition(step.kind, step.target))
    dropped = []
    for eid in islice(run.each_of, run.reached, None):
        if room <= 0:
            break
        marked = None if eid in again else scope
        if not any(True for _ in decision.view.among((eid,), bound, marked)):
            dropped.append(eid)
            continue
        room -= 1
        if each.input:
            decision.take_input(scope, each.outdates, (eid,))
            reserved, inputs = (eid,) if each.outdates else (), (*each.shared, (each.input, (eid,)))
            _call(decision, step, inputs, reserved=reserved, given=eid, listed=each.listed, source=source)
        else:
            _call(decision, step, elements=(*each.arguments, eid), nearby=nearby, given=eid)
    if dropped:
        decision.change(CallsDropped(step.id, tuple(dropped)))


def _call(
    decision: RecipeDecision,
    step: Step,
    inputs: Inputs = (),
    *,
    elements: tuple[int, ...] = (),
    nearby: tuple[tuple[int, ...], ...] = (),
    given: int | None = None,
    reserved: tuple[int, ...] = (),
    listed: tuple[str, ...] = (),
    source: bool = False,
) -> None:
    """A call goes out: the one of the step, or that for the element `given`, which has been taken."""
    call = decision.identifier()
    taken = tuple([eid for _, eids in inputs for eid in eids]) + elements if inputs else elements
    if given is None:
        decision.change(StepRunning(step.id, call, taken, reserved, source))
    else:
        decision.change(CallMade(step.id, call, taken, reserved, given, source))
    asked = commands.Call(
        call,
        step.kind,
        step.target,
        step.id,
        inputs,
        listed,
        elements,
        nearby,
        timeout=step.timeout,
        on_restart=step.on_restart,
    )
    ask(decision, step, asked)


def ask(decision: RecipeDecision, step: Step, asked: commands.Call) -> None:
    """Make a call, for the first time or again; the time limit of a run is a moment to wake up at (N29)."""
    decision.ask(asked)
    if step.timeout is not None and (limit := limit_of(step)) is not None:
        decision.command(commands.SetTimer(asked.call, decision.event.at + limit))


def _is_source(target: Any) -> bool:
    """Whether what is called goes on, and yields elements meanwhile (N36)."""
    return getattr(target, "where", "") == "source"


def limit_of(step: Step) -> float | None:
    """The time limit that the engine keeps: that of a run, for executors keep those of what they call."""
    return None if step.kind in WITH_PROTOTYPE else step.timeout


def finish(decision: RecipeDecision, step: Step) -> None:
    """All calls of the step are back: it is done, in error, or failed."""
    run = decision.state.step(step.id)
    well = run.fault is None and not run.errors
    if run.each is not None:
        decision.free(run.each.reserved, well=well)
    if run.fault is not None:
        decision.change(StepFailed(step.id, run.fault))
        decision.fail(run.fault)
    else:
        decision.change(StepDone(step.id) if well else StepErred(step.id))
        decision.to_judge.append(step)


# --- what it is called with -----------------------------------------------------------------------------


def _missing(decision: RecipeDecision, step: Step, taking: InputSearch, slots: tuple[str, ...]) -> None:
    """Mandatory inputs are empty: wait where only a reservation is in the way (N18), else fail (N17)."""
    lacking = tuple(each for each in taking.inputs if each.id in slots)
    if taking.only_reserved(lacking):
        watch = decision.identifier()
        decision.change(StepHeldBack(step.id, watch))
        decision.command(taking.watch(watch))
    else:
        why = "; ".join(taking.lack(each) for each in lacking)
        fail(decision, step, "input-missing", why, input=" ".join(each.id for each in lacking))


def _selected(decision: RecipeDecision, selected: Condition) -> tuple[int, ...]:
    """The elements that `foreach` selects: all of memory that fits, oldest first (§1.3.2)."""
    return tuple(decision.view.matching(selected.bind(decision.bindings(selected.variables)), None))


def _one_input(
    decision: RecipeDecision, taking: InputSearch, found: tuple[int, ...]
) -> tuple[Input | None, str]:
    """The input that all these elements fit, and no other; or what is wrong (§1.4.2)."""
    chosen: Input | None = None
    for eid in found:
        element = decision.view.element(eid)
        if element is None:
            continue
        fitting = taking.fitting(element)
        if len(fitting) != 1:
            names = ", ".join(each.id for each in fitting) or "none"
            what = f"element {eid} ({element.name}) of foreach"
            return None, f"{what} must fit exactly one input, it fits: {names}"
        if chosen is not None and chosen is not fitting[0]:
            return None, f"the elements of foreach fit different inputs: {chosen.id} and {fitting[0].id}"
        chosen = fitting[0]
    return chosen, ""


def _likely_input(prototype: Prototype, selected: Condition) -> Input | None:
    """The input that a `foreach` means which selects nothing: one that takes elements of such a name."""
    for each in prototype.inputs:
        if selected.names and each.condition.names and selected.names & each.condition.names:
            return each
    mandatory = (each for each in prototype.inputs if not each.optional)
    return next(mandatory, prototype.inputs[0] if prototype.inputs else None)


def _near_to_run(
    decision: RecipeDecision, step: Step, arguments: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """What lies nearest to the step: the run it calls looks there after its own context (N15)."""
    surroundings = around(decision, step)
    return (arguments + surroundings.promoted(), *surroundings.nearby)
