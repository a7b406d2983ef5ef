"""Running a step: its inputs, its calls, and what came back (N15–N20)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from narval.definitions.prototype import Input, Prototype
from narval.definitions.recipe import Step, Transition
from narval.engines import commands
from narval.engines.assignment import Slot, assign
from narval.engines.events import Problem, Produced, Returned
from narval.engines.inputs import Surroundings
from narval.engines.outputs import judge
from narval.engines.plan.deciding import Deciding
from narval.engines.plan.state import (
    CallBack,
    CallMade,
    StepDone,
    StepErred,
    StepFailed,
    StepHeldBack,
    StepReady,
    StepRunning,
)
from narval.memory.change import MarkScope
from narval.memory.element import Element
from narval.memory.match import Bound

WITH_PROTOTYPE = frozenset({"action", "transform"})
"""Targets that say what they take and give; any other is a definition, whose run is nested (§1.3.1)."""


def make_ready(plan: Deciding, step: Step) -> None:
    """The first step of a plan is to run."""
    plan.record.change(StepReady(step.id))
    plan.to_run.append(step)


def run(plan: Deciding, step: Step) -> None:
    """Find the step's target and inputs, and make its calls; or fail it (N17), or hold it back (N18)."""
    target = plan.view.definition(step.kind, step.target)
    if target is None:
        fail(plan, step, "unknown-target", f"there is no {step.kind} named {step.target}")
        return
    if step.kind not in WITH_PROTOTYPE:
        _call_definition(plan, step)
        return
    prototype = step.prototype(target.prototype)
    if step.foreach is None:
        _call_once(plan, step, prototype)
    else:
        _call_for_each(plan, step, prototype)


def fail(plan: Deciding, step: Step, kind: str, message: str, **where: str) -> None:
    """The engine cannot run the step: the plan fails (N17, N26)."""
    error = plan.add_error(kind, message, step, **where)
    plan.record.change(StepFailed(step.id, error))
    plan.fail(kind, message, error)


# --- what a step takes ----------------------------------------------------------------------------------


class _Taking:
    """The search for the inputs of one step: the slots, and what goes with them."""

    def __init__(self, plan: Deciding, step: Step, prototype: Prototype) -> None:
        self.plan, self.step, self.prototype = plan, step, prototype
        self.arguments = tuple(Element(-1 - at, xml) for at, xml in enumerate(step.arguments))
        self.around = around(plan, step, self.arguments)
        self.bounds: dict[str, Bound] = {
            each.id: each.condition.bind(plan.bindings(each.condition.variables)) for each in prototype.inputs
        }
        self._added: dict[int, int] = {}

    def scope(self, slot: Input) -> MarkScope | None:
        return (self.plan.recipe.full_name, self.step.id, slot.id) if slot.use else None

    def slots(self, without: str = "", barred: frozenset[int] = frozenset()) -> list[Slot]:
        """The inputs to assign; `barred` elements are not theirs to take."""
        slots = []
        for each in self.prototype.inputs:
            if each.id != without:
                ranks = self.around.ranks(self.bounds[each.id], self.scope(each))
                if barred:
                    ranks = _barring(ranks, barred)
                slots.append(Slot(each.id, ranks, each.optional, each.list))
        return slots

    def settle(self, given: dict[str, tuple[int, ...]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Arguments that were assigned enter memory; used elements are marked and join the context (N3, N18)."""
        settled = []
        for each in self.prototype.inputs:
            eids = tuple(self._in_memory(eid) for eid in given.get(each.id, ()))
            if eids:
                settled.append((each.id, eids))
                self.use(each, eids)
        return tuple(settled)

    def use(self, slot: Input, eids: tuple[int, ...]) -> None:
        """Mark and reserve what the input asks to."""
        scope = self.scope(slot)
        if scope is not None:
            self.plan.record.command(commands.Mark(scope, eids))
        if slot.outdates:
            self.plan.record.command(commands.Reserve(eids))
        if scope is not None or slot.outdates:
            self.plan.record.command(commands.Hold(eids))

    def outdating(self, settled: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[int, ...]:
        """The elements that the call will replace."""
        replaced = {each.id for each in self.prototype.inputs if each.outdates}
        return tuple(eid for slot, eids in settled if slot in replaced for eid in eids)

    def missing(self, slots: tuple[str, ...]) -> None:
        """Mandatory inputs are empty: wait where only a reservation is in the way (N18), else fail (N17)."""
        plan, inputs = self.plan, {each.id: each for each in self.prototype.inputs}
        lacking = [inputs[slot] for slot in slots]
        if all(plan.view.reserved(self.bounds[each.id], self.scope(each)) for each in lacking):
            watch = plan.record.identifier()
            plan.record.change(StepHeldBack(self.step.id, watch))
            bounds = tuple(self.bounds[each.id] for each in self.prototype.inputs)
            scopes = tuple(self.scope(each) for each in self.prototype.inputs)
            plan.record.command(commands.Watch(watch, bounds, scopes))
            return
        wanted = "; ".join(f"{each.id} ({_wanted(each)})" for each in lacking)
        noun = "input" if len(lacking) == 1 else "inputs"
        fail(plan, self.step, "input-missing", f"nothing in memory fits {noun} {wanted}", input=" ".join(slots))

    def _in_memory(self, eid: int) -> int:
        if eid >= 0:
            return eid
        if eid not in self._added:
            self._added[eid] = self.plan.add(self.arguments[-1 - eid].xml, self.step.id)
        return self._added[eid]


def around(plan: Deciding, step: Step, arguments: tuple[Element, ...] = ()) -> Surroundings:
    """Where the step looks for its inputs: the ranks of N15."""
    via = plan.recipe.transitions.get(plan.state.step(step.id).via)
    return plan.surroundings(via, step.context, _near(plan, via), arguments)


def _near(plan: Deciding, via: Transition | None) -> tuple[tuple[int, ...], ...]:
    if via is None:
        return ()
    return (tuple(sorted(plan.state.transition(via.id).took)), plan.products_of_in_steps(via))


def _barring(
    ranks: Callable[[], Iterator[Iterable[int]]], barred: frozenset[int]
) -> Callable[[], Iterator[Iterable[int]]]:
    """The same ranks without what is barred."""

    def left() -> Iterator[Iterable[int]]:
        for rank in ranks():
            yield (eid for eid in rank if eid not in barred)

    return left


def _wanted(slot: Input) -> str:
    return " and ".join(pattern.text for pattern in slot.condition.patterns)


# --- calls ----------------------------------------------------------------------------------------------


def _call_once(plan: Deciding, step: Step, prototype: Prototype) -> None:
    taking = _Taking(plan, step, prototype)
    assigned = assign(taking.slots())
    if assigned.missing:
        taking.missing(assigned.missing)
        return
    inputs = taking.settle(assigned.given)
    plan.record.change(StepRunning(step.id))
    _call(plan, step, inputs, reserved=taking.outdating(inputs), listed=_lists(prototype))


def _call_for_each(plan: Deciding, step: Step, prototype: Prototype) -> None:
    """One call for each matching element, given to the one input it fits; the rest is shared (N19)."""
    taking = _Taking(plan, step, prototype)
    found = _matching(plan, step)
    slot, eids, fault = _the_one_input(plan, taking, found)
    if fault:
        fail(plan, step, "foreach-misfit", fault)
        return
    if slot is None or not eids:
        if all(each.optional for each in prototype.inputs) and not found:
            plan.record.change(StepRunning(step.id))
            _finish(plan, step)
            return
        lacking = slot if slot is not None else _foreach_input(step, prototype)
        taking.missing((lacking.id,))
        return
    assigned = assign(taking.slots(without=slot.id, barred=frozenset(found)))
    if assigned.missing:
        taking.missing(assigned.missing)
        return
    shared = taking.settle(assigned.given)
    taking.use(slot, eids)
    plan.record.change(StepRunning(step.id, slot.id, eids, shared, taking.outdating(shared)))
    _call_more(plan, step, prototype)


def _matching(plan: Deciding, step: Step) -> tuple[int, ...]:
    """The elements a `foreach` selects: all of memory that fits, oldest first (§1.3.2)."""
    if step.foreach is None:
        return ()
    bound = step.foreach.bind(plan.bindings(step.foreach.variables))
    return tuple(plan.view.matching(bound, None))


def _the_one_input(
    plan: Deciding, taking: _Taking, found: tuple[int, ...]
) -> tuple[Input | None, tuple[int, ...], str]:
    """The input that all these elements fit, those of them it has not used yet, or what is wrong."""
    chosen: Input | None = None
    for eid in found:
        element = plan.view.element(eid)
        if element is None:
            continue
        fitting = [each for each in taking.prototype.inputs if plan.view.fits(element, taking.bounds[each.id])]
        if len(fitting) != 1:
            names = ", ".join(each.id for each in fitting) or "none"
            return None, (), f"element {eid} ({element.name}) of foreach must fit exactly one input, it fits: {names}"
        if chosen is not None and chosen is not fitting[0]:
            return None, (), f"the elements of foreach fit different inputs: {chosen.id} and {fitting[0].id}"
        chosen = fitting[0]
    if chosen is None:
        return None, (), ""
    bound, scope = taking.bounds[chosen.id], taking.scope(chosen)
    return chosen, tuple(plan.view.among(found, bound, scope)), ""


def _foreach_input(step: Step, prototype: Prototype) -> Input:
    """The input that `foreach` most likely means, to name it when nothing was found."""
    names = step.foreach.names if step.foreach is not None else None
    for each in prototype.inputs:
        if names and each.condition.names and names & each.condition.names:
            return each
    return next((each for each in prototype.inputs if not each.optional), prototype.inputs[0])


def _call_definition(plan: Deciding, step: Step) -> None:
    """A run of the target is nested in this plan: what the step has at hand lies nearest to it (N15, N3)."""
    arguments = tuple(plan.add(xml, step.id) for xml in step.arguments)
    surroundings = around(plan, step)
    promoted = arguments + tuple(surroundings.promoted())
    if step.foreach is None:
        plan.record.change(StepRunning(step.id))
        _call(plan, step, elements=arguments, near=(promoted, *surroundings.near))
        return
    found = _matching(plan, step)
    if not found:
        wanted = " and ".join(pattern.text for pattern in step.foreach.patterns)
        fail(plan, step, "input-missing", f"nothing in memory fits foreach {wanted}", input="foreach")
        return
    plan.record.change(StepRunning(step.id, "foreach", found, (("", arguments),)))
    _call_more(plan, step, None)


def _call_more(plan: Deciding, step: Step, prototype: Prototype | None) -> None:
    """Make as many of the calls still to be made as `max-parallel` allows."""
    run = plan.state.step(step.id)
    room = len(run.later) if step.max_parallel is None else max(0, step.max_parallel - len(run.calls))
    for eid in run.later[:room]:
        if prototype is None:
            arguments = run.shared[0][1] if run.shared else ()
            surroundings = around(plan, step)
            near = (arguments + tuple(surroundings.promoted()), *surroundings.near)
            _call(plan, step, elements=(*arguments, eid), near=near, given=eid)
        else:
            each = next(one for one in prototype.inputs if one.id == run.each)
            reserved = (eid,) if each.outdates else ()
            inputs = (*run.shared, (run.each, (eid,)))
            _call(plan, step, inputs, reserved=reserved, given=eid, listed=_lists(prototype))


def _call(
    plan: Deciding,
    step: Step,
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = (),
    *,
    elements: tuple[int, ...] = (),
    near: tuple[tuple[int, ...], ...] = (),
    given: int | None = None,
    reserved: tuple[int, ...] = (),
    listed: tuple[str, ...] = (),
) -> None:
    call = plan.record.identifier()
    plan.record.change(CallMade(step.id, call, given, reserved))
    plan.record.command(
        commands.Call(
            call=call,
            kind=step.kind,
            name=step.target,
            step=step.id,
            inputs=inputs,
            listed=listed,
            elements=elements,
            near=near,
            timeout=step.timeout,
            on_restart=step.on_restart,
        )
    )


def _lists(prototype: Prototype) -> tuple[str, ...]:
    return tuple(each.id for each in prototype.inputs if each.list)


# --- what came back -------------------------------------------------------------------------------------


def produced(plan: Deciding, event: Produced) -> None:
    """A source has elements: they enter memory for everyone, and the step goes on (N36).

    They do not join the plan's context: a source may run for years, and its products are forgotten one by one.
    """
    step = plan.recipe.steps[plan.state.calls[event.call]]
    prototype = _prototype(plan, step)
    if prototype is None:
        return
    verdict = judge(prototype, event.elements, plan.view, complete=False)
    if verdict.fault:
        plan.record.command(commands.Abandon(event.call))
        error = plan.add_error("bad-output", verdict.fault, step, output=verdict.output)
        plan.record.change(CallBack(event.call, fault=error))
        _all_back(plan, step)
        return
    for xml in verdict.errors:
        plan.add(xml, step.id, event.call, held=False)
    for each in verdict.accepted:
        _keep(plan, step, event.call, each.xml, each.key, (), held=False)


def returned(plan: Deciding, event: Returned) -> None:
    """A call came back: check its outputs, and end the step with the last of its calls."""
    step = plan.recipe.steps[plan.state.calls[event.call]]
    call = plan.state.step(step.id).calls[event.call]
    inputs = tuple(eid for eid in (call.given,) if eid is not None) + call.reserved
    if event.abandoned or event.problem is not None:
        back = _errors_of(plan, step, event)
    elif step.kind in WITH_PROTOTYPE:
        back = _outputs_of(plan, step, event, inputs)
    else:
        plan.record.command(commands.Hold(event.eids))
        back = CallBack(event.call, event.eids)
    if call.reserved:
        well = not back.errors and back.fault is None
        plan.record.command(commands.Outdate(call.reserved) if well else commands.Release(call.reserved))
    plan.record.change(back)
    _all_back(plan, step)


def _errors_of(plan: Deciding, step: Step, event: Returned) -> CallBack:
    if event.eids:
        plan.record.command(commands.Hold(event.eids))
        return CallBack(event.call, errors=event.eids)
    problem = event.problem or Problem("abandoned", "the call was given up")
    error = plan.add_error(problem.kind, problem.message, step, problem.detail, call=event.call)
    return CallBack(event.call, errors=(error,))


def _outputs_of(plan: Deciding, step: Step, event: Returned, inputs: tuple[int, ...]) -> CallBack:
    prototype = _prototype(plan, step)
    if prototype is None:
        error = plan.add_error("unknown-target", f"there is no {step.kind} named {step.target} any more", step)
        return CallBack(event.call, fault=error)
    verdict = judge(prototype, event.elements, plan.view)
    if verdict.fault:
        error = plan.add_error("bad-output", verdict.fault, step, output=verdict.output, call=event.call)
        return CallBack(event.call, fault=error)
    kept = [_keep(plan, step, event.call, each.xml, each.key, inputs) for each in verdict.accepted]
    errors = [plan.add(xml, step.id, event.call, inputs) for xml in verdict.errors]
    return CallBack(event.call, tuple(eid for eid in kept if eid is not None), tuple(errors))


def _keep(
    plan: Deciding,
    step: Step,
    call: str,
    xml: bytes,
    key: tuple[str, str, str] | None,
    inputs: tuple[int, ...],
    *,
    held: bool = True,
) -> int | None:
    """Add an output, unless `unique` has seen its value before (N37)."""
    if key is not None:
        if plan.view.keyed(*key):
            return None
        plan.record.command(commands.Key(*key))
    return plan.add(xml, step.id, call, inputs, held=held)


def _prototype(plan: Deciding, step: Step) -> Prototype | None:
    target = plan.view.definition(step.kind, step.target)
    return step.prototype(target.prototype) if target is not None else None


def _all_back(plan: Deciding, step: Step) -> None:
    """Make the calls still to be made, or end the step when the last is back."""
    run = plan.state.step(step.id)
    if run.later and plan.state.state == "running" and run.fault is None:
        _call_more(plan, step, _prototype(plan, step) if step.kind in WITH_PROTOTYPE else None)
    elif not run.calls:
        _finish(plan, step)


def _finish(plan: Deciding, step: Step) -> None:
    """The step has ended: done, in error, or failed."""
    run = plan.state.step(step.id)
    well = run.fault is None and not run.errors
    if run.reserved:
        plan.record.command(commands.Outdate(run.reserved) if well else commands.Release(run.reserved))
    if run.fault is not None:
        plan.record.change(StepFailed(step.id, run.fault))
        plan.fail("bad-output", "", run.fault)
        return
    plan.record.change(StepDone(step.id) if well else StepErred(step.id))
    plan.to_judge.append(step)
