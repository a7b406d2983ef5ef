"""Running a step: its one call, or one for each element of a `foreach`, until it has ended (N17–N19, N21)."""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from narval.core.definitions.prototype import Input, Prototype
from narval.core.definitions.remote_calls import limit_of_remote
from narval.core.elements.element import Element
from narval.core.engines import commands
from narval.core.engines.decision import Inputs
from narval.core.errors import ElementError
from narval.core.kinds import KINDS
from narval.core.patterns.pattern import Condition
from narval.kinds.recipe.engine import changes
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.state import ForeachCalls
from narval.kinds.recipe.engine.steps.callee import Callee, callee_of
from narval.kinds.recipe.engine.steps.dependent import DependentSearch, depends, input_search
from narval.kinds.recipe.engine.steps.inputs import (
    InputSearch,
    add_argument,
    arguments_of,
    around,
    check_arguments,
    names_each,
    scope_of,
)
from narval.kinds.recipe.engine.steps.repeats import bound_of, is_satisfied
from narval.kinds.recipe.language.definition import Step

ANSWERED_BY_CODE = frozenset(name for name, kind in KINDS.items() if not kind.engine)
"""The kinds of targets that the executor answers; any other target is a nested run (§1.3.1)."""


def make_ready(decision: RecipeDecision, step: Step) -> None:
    """Make the first step of a plan ready."""
    decision.change(changes.StepReady(step.id))
    decision.to_run.append(step)


def run(decision: RecipeDecision, step: Step) -> None:
    """Find the step's target and inputs and make its calls, or fail or block the step.

    A step with `until` is done if an element already fits.
    """
    if step.until is not None and is_satisfied(decision, step):
        if decision.state.step(step.id).state == "ready":
            decision.change(changes.StepRunning(step.id))
        finish(decision, step)
        return
    callee = callee_of(decision, step)
    if callee.plain:
        call = decision.identifier()
        decision.change(changes.StepRunning(step.id, call))
        decision.ask(replace(callee.call, call=call))
        return
    prototype = callee.prototype
    try:  # a bad argument is refused before anything is decided
        arguments = check_arguments(decision, arguments_of(decision, step)) if step.arguments else ()
        if callee.failure is not None:
            fail(decision, step, callee.failure.kind, callee.failure.message)
        elif prototype is None:
            _call_run(decision, step, callee, arguments)
        elif step.foreach is None:
            _call_once(decision, step, callee, prototype, arguments)
        else:
            _call_for_each(decision, step, prototype, step.foreach, arguments, source=callee.source)
    except ElementError as error:
        fail(decision, step, "bad-argument", f"an argument cannot be given: {error}")


def fail(decision: RecipeDecision, step: Step, kind: str, message: str, *, input: str = "") -> None:
    """Fail a step that cannot be run, and the plan with it."""
    error = decision.add_error(kind, message, step, input=input)
    decision.change(changes.StepFailed(step.id, error))
    decision.fail(error)


# --- its calls ------------------------------------------------------------------------------------------


def _call_once(
    decision: RecipeDecision,
    step: Step,
    callee: Callee,
    prototype: Prototype,
    arguments: tuple[Element, ...],
) -> None:
    if not prototype.inputs:
        _call(decision, step, callee)
        return
    search = input_search(decision, step, prototype, arguments)
    assigned = search.assign()
    follows = step.id in decision.state.following
    if assigned.missing:
        if not follows:
            _missing(decision, step, search, assigned.missing)
        return
    inputs = search.commit_inputs(assigned)
    reserved = search.outdated_by(inputs)
    fed = decision.definition.restart != "no" and decision.any_from_elsewhere(search.used_up(inputs))
    _call(decision, step, callee, inputs, reserved=reserved, listed=prototype.lists, fed=fed)
    if callee.source and not follows:
        watch = decision.identifier()
        decision.change(changes.SelectionFollowed(step.id, watch))
        decision.command(search.standing_watch(watch, search.inputs))


def _call_for_each(
    decision: RecipeDecision,
    step: Step,
    prototype: Prototype,
    selected: Condition,
    arguments: tuple[Element, ...],
    *,
    source: bool,
) -> None:
    """Make a call for each selected element, which goes to the one input it fits; all calls share the other
    inputs.

    If arguments are made from the element, it may fit no input. Calls of sources run on, so the selection is
    followed from then on, even if it is empty at first.
    """
    search = input_search(decision, step, prototype, arguments)
    selected_eids = _selected(decision, selected)
    if selected_eids and names_each(decision, step) and not _fits_any(decision, search, selected_eids):
        _call_with_each(decision, step, prototype, search, selected_eids)
        return
    slot, fault = _one_input(decision, search, selected_eids)
    if fault:
        fail(decision, step, "foreach-misfit", fault)
        return
    if slot is None:
        slot = _likely_input(search.independent, selected)
    if slot is not None:
        search.restrict(slot, selected)
    eids = search.may_take(slot, selected_eids) if slot is not None else ()
    if slot is None or (not eids and slot.optional):
        decision.change(changes.StepRunning(step.id))
        finish(decision, step)
        return
    assigned = search.assign(without=slot)
    missing = assigned.missing if eids or source else (slot.id, *assigned.missing)
    if missing:
        _missing(decision, step, search, missing)
        return
    shared = search.commit_inputs(assigned)
    reserved = search.outdated_by(shared)
    foreach = ForeachCalls(slot.id, slot.use, slot.outdates, shared, prototype.lists, reserved=reserved)
    fed = decision.any_from_elsewhere(search.used_up(((slot.id, eids), *shared)))
    decision.change(changes.StepRunning(step.id, foreach=foreach, selected=eids, fed=fed))
    if source:
        watch = decision.identifier()
        decision.change(changes.SelectionFollowed(step.id, watch))
        decision.command(search.standing_watch(watch, (slot,)))
    call_more(decision, step)
    run = decision.state.step(step.id)
    if not source and not run.calls and not run.waiting:
        finish(decision, step)


def _call_with_each(
    decision: RecipeDecision, step: Step, prototype: Prototype, search: InputSearch, eids: tuple[int, ...]
) -> None:
    """Make a call for each element with the arguments made from it; the element itself goes to no input."""
    assigned = search.assign()
    if assigned.missing:
        _missing(decision, step, search, assigned.missing)
        return
    shared = search.commit_inputs(assigned)
    reserved = search.outdated_by(shared)
    foreach = ForeachCalls(shared=shared, listed=prototype.lists, reserved=reserved)
    fed = decision.any_from_elsewhere(search.used_up(shared))
    decision.change(changes.StepRunning(step.id, foreach=foreach, selected=eids, fed=fed))
    call_more(decision, step)
    run = decision.state.step(step.id)
    if not run.calls and not run.waiting:
        finish(decision, step)


def _call_run(
    decision: RecipeDecision, step: Step, callee: Callee, arguments_given: tuple[Element, ...]
) -> None:
    """Nest a run of the target in this plan, or one for each element; arguments are its context."""
    eids: tuple[int, ...] = ()
    if step.foreach is not None:
        eids = _selected(decision, step.foreach)
        if not eids:
            why = f"nothing in memory fits foreach ({step.foreach.text})"
            fail(decision, step, "input-missing", why, input="foreach")
            return
    inputs: Inputs = ()
    reserved: tuple[int, ...] = ()
    if step.own_inputs.inputs:
        search = input_search(decision, step, step.own_inputs)
        assigned = search.assign()
        if assigned.missing:
            _missing(decision, step, search, assigned.missing)
            return
        inputs = search.commit_inputs(assigned)
        reserved = search.outdated_by(inputs)
    arguments = tuple(add_argument(decision, step, argument) for argument in arguments_given)
    if step.foreach is None:
        nearby = _near_to_run(decision, step, arguments)
        _call(decision, step, callee, inputs, elements=arguments, nearby=nearby, reserved=reserved)
    else:
        foreach = ForeachCalls(shared=inputs, reserved=reserved, arguments=arguments)
        decision.change(changes.StepRunning(step.id, foreach=foreach, selected=eids))
        call_more(decision, step)


def call_more(decision: RecipeDecision, step: Step) -> None:
    """Make as many of the pending calls as `max-parallel` allows.

    An element is taken when its call is made, so one that was taken elsewhere before its turn gets no call.
    """
    run = decision.state.step(step.id)
    if run.foreach is None or step.foreach is None:
        return
    foreach = run.foreach
    room = run.waiting if step.max_parallel is None else step.max_parallel - len(run.calls)
    bound = step.foreach.bind(decision.bindings(step.foreach.variables))
    scope = scope_of(decision, step, foreach.input, foreach.use)
    nearby = _near_to_run(decision, step, foreach.arguments) if not foreach.input else ()
    again = decision.state.taken_before(step.id, foreach.input)
    callee = callee_of(decision, step)
    search = _search_for_each(decision, step, callee)
    dropped = []
    for eid in islice(run.selected, run.reached, None):
        if room <= 0:
            break
        marked = None if eid in again else scope
        if not any(True for _ in decision.view.among((eid,), bound, marked)):
            dropped.append(eid)
            continue
        rest: Inputs | None = ()
        if search is not None and (rest := _inputs_for(decision, step, callee, search, foreach, eid)) is None:
            continue
        room -= 1
        if foreach.input or search is not None:
            taken = ((foreach.input, (eid,)),) if foreach.input else ()
            decision.use_input(scope, foreach.outdates, (eid,))
            reserved, inputs = (eid,) if foreach.outdates else (), (*foreach.shared, *taken)
            if search is not None and rest:
                reserved, inputs = (*reserved, *search.outdated_by(rest)), (*inputs, *rest)
            _call(decision, step, callee, inputs, reserved=reserved, given=eid, listed=foreach.listed)
        else:
            own = _arguments_for(decision, step, eid)
            if own is None:
                continue
            near = _near_to_run(decision, step, (*foreach.arguments, *own)) if own else nearby
            elements = (*foreach.arguments, *own, eid)
            _call(decision, step, callee, foreach.shared, elements=elements, nearby=near, given=eid)
    if dropped:
        decision.change(changes.CallsDropped(step.id, tuple(dropped)))


def _search_for_each(decision: RecipeDecision, step: Step, callee: Callee) -> DependentSearch | None:
    """The search for inputs that depend on the element of a call; None if there are none."""
    prototype = callee.prototype
    if prototype is None or not depends(decision, step, prototype):
        return None
    arguments = arguments_of(decision, step) if step.arguments else ()
    search = input_search(decision, step, prototype, arguments)
    return search if isinstance(search, DependentSearch) else None


def _inputs_for(
    decision: RecipeDecision,
    step: Step,
    callee: Callee,
    search: DependentSearch,
    foreach: ForeachCalls,
    eid: int,
) -> Inputs | None:
    """The inputs that depend on the element of a call.

    None if one is left empty: then an error takes the place of the call.
    """
    slot = next((slot for slot in search.inputs if slot.id == foreach.input), None)
    try:
        if names_each(decision, step):
            search.give(check_arguments(decision, arguments_of(decision, step, eid)))
        assigned = search.assign_for(slot, eid, foreach.shared)
    except ElementError as error:
        why = f"an argument cannot be given: {error}"
        _refuse(decision, step, eid, "bad-argument", why, source=callee.source)
        return None
    if not assigned.missing:
        return search.commit_inputs(assigned)
    lacking = [slot for slot in search.inputs if slot.id in assigned.missing]
    why, named = "; ".join(search.explain_missing(slot) for slot in lacking), " ".join(assigned.missing)
    _refuse(decision, step, eid, "input-missing", why, input=named, source=callee.source)
    return None


def _refuse(
    decision: RecipeDecision,
    step: Step,
    eid: int,
    kind: str,
    message: str,
    *,
    input: str = "",
    source: bool = False,
) -> None:
    """Record an error in place of the call for an element, which cannot be made; the others continue."""
    call, why = decision.identifier(), f"{message}; $each is element {eid}"
    error = decision.add_error(kind, why, step, call=call, inputs=(eid,), input=input)
    decision.change(changes.CallMade(step.id, call, (eid,), (), eid, source))
    decision.change(changes.CallReturned(call, errors=(error,)))


def _arguments_for(decision: RecipeDecision, step: Step, eid: int) -> tuple[int, ...] | None:
    """The arguments of a run that are made from the element of its call.

    None if one cannot be made: then an error takes the place of the call.
    """
    later = names_each(decision, step)
    try:
        arguments = check_arguments(decision, arguments_of(decision, step, eid)) if later else ()
    except ElementError as error:
        _refuse(decision, step, eid, "bad-argument", f"an argument cannot be given: {error}")
        return None
    return tuple(add_argument(decision, step, each) for at, each in enumerate(arguments) if at in later)


def _call(
    decision: RecipeDecision,
    step: Step,
    callee: Callee,
    inputs: Inputs = (),
    *,
    elements: tuple[int, ...] = (),
    nearby: tuple[tuple[int, ...], ...] = (),
    given: int | None = None,
    reserved: tuple[int, ...] = (),
    listed: tuple[str, ...] = (),
    fed: bool = False,
) -> None:
    """Make the call of the step, or the one for the element `given`, which has been taken."""
    source, call = callee.source, decision.identifier()
    taken = tuple([eid for _, eids in inputs for eid in eids]) + elements if inputs else elements
    at = decision.event.at if step.until is not None else 0.0
    again = (at or source) and decision.state.step(step.id).state == "running"
    if given is None and not again:
        decision.change(changes.StepRunning(step.id, call, taken, reserved, source, at=at, fed=fed))
    else:
        decision.change(changes.CallMade(step.id, call, taken, reserved, given, source, at))
    asked = replace(callee.call, call=call, inputs=inputs, listed=listed, elements=elements, nearby=nearby)
    if step.timeout is None and not step.agent:
        decision.ask(asked)
    else:
        ask(decision, step, asked)


def ask(decision: RecipeDecision, step: Step, asked: commands.Call) -> None:
    """Make a call, for the first time or again; the time limit of a run is a timer."""
    decision.ask(asked)
    if (limit := limit_of(step)) is not None:
        decision.command(commands.SetTimer(asked.call, decision.event.at + limit))


def limit_of(step: Step) -> float | None:
    """The time limit that the engine enforces: that of a run. Executors enforce those of other calls."""
    if step.agent:
        return limit_of_remote(step.timeout)
    return None if step.kind in ANSWERED_BY_CODE else step.timeout


def finish(decision: RecipeDecision, step: Step) -> None:
    """End a step whose calls have all returned: it is done, in error, or failed."""
    run = decision.state.step(step.id)
    if step.id in decision.state.following:
        decision.command(commands.Unwatch(run.watch))
    well = run.fault is None and not run.errors
    if run.foreach is not None:
        decision.free(run.foreach.reserved, well=well)
    if run.fault is not None:
        decision.change(changes.StepFailed(step.id, run.fault))
        decision.fail(run.fault)
    else:
        decision.change(changes.StepDone(step.id) if well else changes.StepErred(step.id))
        decision.to_follow.append(step)


# --- the inputs of its calls ----------------------------------------------------------------------------


def _missing(decision: RecipeDecision, step: Step, search: InputSearch, slots: tuple[str, ...]) -> None:
    """Block the step if only reservations keep its mandatory inputs empty, else fail it."""
    lacking = tuple(slot for slot in search.inputs if slot.id in slots)
    if search.only_reserved(lacking):
        watch = decision.identifier()
        decision.change(changes.StepBlocked(step.id, watch))
        decision.command(search.watch(watch, () if step.until is None else (bound_of(decision, step),)))
    else:
        why = "; ".join(search.explain_missing(slot) for slot in lacking)
        fail(decision, step, "input-missing", why, input=" ".join(slot.id for slot in lacking))


def _selected(decision: RecipeDecision, selected: Condition) -> tuple[int, ...]:
    """The elements that `foreach` selects: all that fit in memory, oldest first (§1.3.2)."""
    return tuple(decision.view.matching(selected.bind(decision.bindings(selected.variables)), None))


def _one_input(
    decision: RecipeDecision, search: InputSearch, eids: tuple[int, ...]
) -> tuple[Input | None, str]:
    """The only input that all these elements fit; or the fault (§1.4.2)."""
    chosen: Input | None = None
    for eid in eids:
        element = decision.view.element(eid)
        if element is None:
            continue
        fitting = search.fitting(element)
        if len(fitting) != 1:
            names = ", ".join(slot.id for slot in fitting) or "none"
            what = f"element {eid} ({element.name}) of foreach"
            return None, f"{what} must fit exactly one input, it fits: {names}"
        if chosen is not None and chosen is not fitting[0]:
            return None, f"the elements of foreach fit different inputs: {chosen.id} and {fitting[0].id}"
        chosen = fitting[0]
    return chosen, ""


def _fits_any(decision: RecipeDecision, search: InputSearch, eids: tuple[int, ...]) -> bool:
    """True if one of these elements fits an input."""
    elements = (decision.view.element(eid) for eid in eids)
    return any(element is not None and search.fitting(element) for element in elements)


def _likely_input(inputs: tuple[Input, ...], selected: Condition) -> Input | None:
    """The likely input of a `foreach` that selects nothing: one that has its pattern, or else takes elements
    of a selected name.
    """
    texts = {pattern.text for pattern in selected.patterns}
    for slot in inputs:
        if not texts.isdisjoint(pattern.text for pattern in slot.condition.patterns):
            return slot
    for slot in inputs:
        if selected.names and slot.condition.names and selected.names & slot.condition.names:
            return slot
    return next((slot for slot in inputs if not slot.optional), inputs[0] if inputs else None)


def _near_to_run(
    decision: RecipeDecision, step: Step, arguments: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """The elements nearest to the step.

    The run that it calls searches them after its own context; a run of another agent sees none of them.
    """
    if step.agent:
        return ()
    surroundings = around(decision, step)
    return (arguments + surroundings.promoted(), *surroundings.nearby)
