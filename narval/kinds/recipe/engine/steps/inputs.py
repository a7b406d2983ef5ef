"""The inputs of a step: which elements they take, and the effect on memory (N15–N18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from narval.core.definitions.prototype import Input, Prototype
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element, Origin, Tree
from narval.core.engines import commands
from narval.core.engines.assignment import Assignment, Slot, assign
from narval.core.engines.candidates import Bindings, CandidateSearch
from narval.core.engines.decision import Inputs
from narval.core.errors import ElementError
from narval.core.memory.labels import MadeOf
from narval.core.patterns.pattern import Bound, Condition
from narval.core.trust.reads import Bound as BoundElement
from narval.core.trust.reads import Source
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.language.arguments import NOW, fill, now_element, sources_of
from narval.kinds.recipe.language.definition import EACH, Step

_RESERVED = 1 << 40
"""The negative of this, plus the place of an input, stands for a reserved element."""


def scope_of(decision: RecipeDecision, step: Step, slot: str, use: bool) -> MarkScope | None:
    """The scope in which an input marks what it uses: all plans of the recipe, of any version."""
    return (decision.definition.full_name, step.id, slot) if use else None


def around(decision: RecipeDecision, step: Step, arguments: tuple[Element, ...] = ()) -> CandidateSearch:
    """The search for the step's inputs, by rank, nearest first."""
    return decision.surroundings(step.context, _near(decision, step), arguments)


def _near(decision: RecipeDecision, step: Step) -> tuple[tuple[int, ...], ...]:
    """The elements taken by the transition that led to the step, and the products of its in-steps."""
    via = decision.definition.transitions.get(decision.state.steps[step.id].via)
    if via is None:
        return ()
    took = decision.state.transition(via.id).took
    return (tuple(sorted(took)) if len(took) > 1 else took, decision.products_of_in_steps(via))


def names_each(decision: RecipeDecision, step: Step) -> frozenset[int]:
    """The positions of the arguments that are made for each call of a step from its element."""
    recipe = decision.definition
    if step.foreach is None or EACH in recipe.steps or EACH in recipe.names:
        return frozenset()
    return frozenset(at for at, names in step.values.items() if EACH in names)


def arguments_of(decision: RecipeDecision, step: Step, each: int | None = None) -> tuple[Element, ...]:
    """The arguments of a step with their values filled in, not yet in memory; their eids are negative.

    Arguments made from the element of a call are included if it is given as `each`. Raises ElementError if a
    result is not an element.
    """
    arguments: list[Element] = []
    zone, labels = decision.view.zone, decision.view.labels
    later = names_each(decision, step) if each is None else ()
    for at, xml in enumerate(step.arguments):
        if at in later:
            continue
        if at in step.values:
            bindings = _value_bindings(decision, step.values[at], each)
            if labels.pages or labels.coming:
                arguments.append(_traced(decision, step, xml, bindings, -1 - len(arguments)))
            else:
                origin = Origin(decision.state.eid, step.id, inputs=_made_of(decision, bindings))
                arguments.append(Element(-1 - len(arguments), fill(xml, bindings, zone), origin=origin))
        elif labels.pages or labels.coming:
            arguments.append(Argument(-1 - len(arguments), xml))
        else:
            arguments.append(Element(-1 - len(arguments), xml))
    return tuple(arguments)


class Argument(Element):
    """An argument in a memory with labels.

    `parts` has, by path, the parts of elements that its values come from. Text by the author has no source.
    """

    parts: Mapping[str, frozenset[Source]] = {}


def _made_of(decision: RecipeDecision, bindings: Bindings) -> tuple[int, ...]:
    """The elements of variables, except for the plan itself, which only decides that an argument is made."""
    eids = (each.eid for elements in bindings.values() for each in elements)
    return tuple(dict.fromkeys(eid for eid in eids if eid not in (0, decision.state.eid)))


def _traced(decision: RecipeDecision, step: Step, xml: bytes, bindings: Bindings, eid: int) -> Element:
    """An argument filled in, with the sources of its parts. Raises ElementError."""
    zone, run, labels = decision.view.zone, decision.state.eid, decision.view.labels
    filled = fill(xml, bindings, zone)
    made_of = _made_of(decision, bindings)
    elements = [each for elements in bindings.values() for each in elements]
    # a new element gets its labels, from its sources, only at the end of this turn
    before = [*made_of, *(eid for each in elements if each.origin for eid in each.origin.inputs)]
    if not labels.coming and not labels.of(before):
        return Element(eid, filled, origin=Origin(run, step.id, inputs=made_of))
    bound = {
        name: [
            BoundElement(each, frozenset([(each.eid, "")]) if each.eid not in (0, run) else frozenset())
            for each in elements
        ]
        for name, elements in bindings.items()
    }
    parts = sources_of(xml, bound, zone)
    made_of = tuple(dict.fromkeys(eid for sources in parts.values() for eid, _ in sorted(sources)))
    origin = Origin(run, step.id, inputs=made_of)
    return Argument(eid, filled, origin=origin, parts=parts)


def _value_bindings(decision: RecipeDecision, variables: frozenset[str], each: int | None) -> Bindings:
    """The elements that the variables of values stand for; steps and names of conditions have precedence."""
    bound, recipe = dict(decision.bindings(variables)), decision.definition
    free = variables - recipe.steps.keys() - recipe.names.keys()
    if NOW in free:
        bound[NOW] = (now_element(decision.event.at, decision.view.zone),)
    if EACH in free and each is not None and (element := decision.view.element(each)) is not None:
        bound[EACH] = (element,)
    return bound


def check_arguments(decision: RecipeDecision, arguments: tuple[Element, ...]) -> tuple[Element, ...]:
    """Return arguments of which none is refused by its schema. Raises ElementError."""
    for argument in arguments:
        if (fault := decision.view.schema_fault(argument.xml)) is not None:
            raise ElementError("invalid", f"{argument.name} is refused by its schema: {fault}")
    return arguments


def add_argument(decision: RecipeDecision, step: Step, argument: Element) -> int:
    """Add an argument to memory, and return its eid."""
    inputs = argument.origin.inputs if argument.origin is not None else ()
    eid = decision.add(Element(0, argument.xml), step.id, inputs=inputs)
    if type(argument) is Argument:
        decision.view.note_sources(eid, MadeOf(argument.parts, nothing_else=True))
    return eid


class InputSearch:
    """The search for the inputs of one step, first among its arguments."""

    __slots__ = ("_arguments", "_outdating", "_selected", "decision", "inputs", "step")

    def __init__(
        self,
        decision: RecipeDecision,
        step: Step,
        prototype: Prototype,
        arguments: tuple[Element, ...] = (),
    ) -> None:
        self.decision, self.step = decision, step
        self.inputs, self._outdating = prototype.inputs, prototype.outdating
        self._arguments = arguments
        self._selected: tuple[str, Bound] | None = None
        """The input that takes the elements selected by `foreach`, and the condition of both."""

    def assign(self, without: Input | None = None) -> Assignment:
        """The element or elements of each input (N16)."""
        if self.step.context is None and not self._arguments and not self.decision.state.again:
            at_hand = self.from_predecessors(without)
            if at_hand is not None:
                return Assignment(at_hand)
        return self.by_rank(without)

    def from_predecessors(self, without: Input | None) -> dict[str, tuple[int, ...]] | None:
        """The nearest element of each input, if the transition took it or its in-steps produced it.

        None if a full search is needed: an input finds nothing there, takes a list, or competes with another.
        Most steps take what the step before them made.
        """
        near, among = _near(self.decision, self.step), self.decision.view.among
        inputs: dict[str, tuple[int, ...]] = {}
        for slot in self.inputs:
            if slot is without:
                continue
            if slot.list:
                return None
            bound, scope = self._bound(slot), self.scope(slot) if slot.use else None
            for eids in near:
                if eids and (eid := next(among(eids, bound, scope), None)) is not None:
                    break
            else:
                return None
            if (eid,) in inputs.values():
                return None
            inputs[slot.id] = (eid,)
        return inputs

    def by_rank(self, without: Input | None) -> Assignment:
        """The elements of each input out of all elements, by rank."""
        ranks, slots = around(self.decision, self.step, self._arguments).ranks, []
        for slot in self.inputs:
            if slot is not without:
                scope, again = (self.scope(slot), self._again(slot)) if slot.use else (None, ())
                places = ranks(self._bound(slot), scope, again, slot.newest)
                slots.append(Slot(slot.id, places, slot.optional, slot.list))
        return assign(slots)

    def commit_inputs(self, assigned: Assignment) -> Inputs:
        """Take the elements that were assigned; add the arguments among them to memory."""
        settled, inputs = [], assigned.given
        for slot in self.inputs:
            eids = inputs.get(slot.id)
            if not eids:
                continue
            if self._arguments:
                eids = tuple([eid if eid >= 0 else self._added(eid) for eid in eids])
            settled.append((slot.id, eids))
            if slot.use or slot.outdates:
                self.decision.use_input(self.scope(slot), slot.outdates, eids)
        return tuple(settled)

    def outdated_by(self, settled: Inputs) -> tuple[int, ...]:
        """The elements that the step will replace."""
        if not self._outdating:
            return ()
        return tuple([eid for slot, eids in settled if slot in self._outdating for eid in eids])

    def used_up(self, settled: Inputs) -> Iterable[int]:
        """The elements that the step is not given again."""
        ends = {slot.id for slot in self.inputs if slot.use or slot.outdates}
        return (eid for slot, eids in settled if slot in ends for eid in eids)

    def fitting(self, element: Element) -> list[Input]:
        """The independent inputs that an element fits, whether used or not."""
        return [slot for slot in self.independent if self.decision.view.fits(element, self._bound(slot))]

    @property
    def independent(self) -> tuple[Input, ...]:
        """The inputs that depend on no other."""
        return self.inputs

    def restrict(self, slot: Input, selected: Condition) -> None:
        """Restrict an input to the elements that `foreach` selects."""
        condition = Condition((*selected.patterns, *slot.condition.patterns))
        self._selected = slot.id, condition.bind(self.decision.bindings(condition.variables))

    def may_take(self, slot: Input, eids: tuple[int, ...]) -> tuple[int, ...]:
        """The elements of `eids` that an input has not used and that are not reserved or replaced."""
        again = frozenset(self._again(slot))
        bound, scope, view = self._bound(slot), self.scope(slot), self.decision.view
        scopes = ((eid, None if eid in again else scope) for eid in eids)
        return tuple(eid for eid, marks in scopes if any(True for _ in view.among((eid,), bound, marks)))

    def scope(self, slot: Input) -> MarkScope | None:
        """The scope in which the input marks what it uses."""
        return scope_of(self.decision, self.step, slot.id, slot.use)

    # --- what is missing ------------------------------------------------------------------------------

    def only_reserved(self, lacking: tuple[Input, ...]) -> bool:
        """True if these inputs, and those that compete with them, would each have an element if calls under
        way had reserved none.
        """
        if any(slot not in self.independent for slot in lacking):
            return all(self._is_reserved(slot) for slot in lacking)
        by_call = self._selected[0] if self._selected is not None else ""  # it has no rivals
        if any(slot.id == by_call and not self._is_reserved(slot) for slot in lacking):
            return False
        rivals = [slot for slot in self.independent if not slot.optional and slot.id != by_call]
        return not assign([self._as_if_free(slot) for slot in rivals]).missing

    def _is_reserved(self, slot: Input) -> bool:
        return self.decision.view.reserved(self._bound(slot), self.scope(slot))

    def _as_if_free(self, slot: Input) -> Slot:
        """An input with the elements that it may take, and one more if a call has reserved what fits."""
        ranks = around(self.decision, self.step, self._arguments).ranks
        free = ranks(self._bound(slot), self.scope(slot), self._again(slot), slot.newest)
        reserved = (self.inputs.index(slot) - _RESERVED,) if self._is_reserved(slot) else ()
        return Slot(slot.id, lambda: chain(free(), (reserved,)))

    def watch(self, watch: str, until: tuple[Bound, ...] = ()) -> commands.Watch:
        """The watch of a blocked step, which may continue if an element fits a mandatory input, or the
        pattern `until`.
        """
        mandatory = [slot for slot in self.inputs if not slot.optional]
        bounds = (*until, *(self._bound(slot) for slot in mandatory))
        scopes = (*(None for _ in until), *map(self.scope, mandatory))
        return commands.Watch(watch, bounds, scopes, or_outdated=True, unless_reserved=True)

    def standing_watch(self, watch: str, slots: tuple[Input, ...]) -> commands.Watch:
        """The watch of sources, for new elements that they could be given and for replaced ones."""
        bounds, scopes = tuple(map(self._bound, slots)), tuple(map(self.scope, slots))
        return commands.Watch(watch, bounds, scopes, or_outdated=True, standing=True)

    def explain_missing(self, slot: Input) -> str:
        """The reason why an input has no element, for people."""
        bound, scope, view = self._bound(slot), self.scope(slot), self.decision.view
        if any(True for _ in view.matching(bound, scope)):
            return f"input {slot.id} is left without an element: what fits {bound.text} goes to other inputs"
        if scope is not None and any(True for _ in view.matching(bound, None)):
            return f"input {slot.id} has used every element that fits {bound.text}"
        missing = f"nothing in memory fits input {slot.id} ({bound.text})"
        for argument in self._arguments:
            if argument.name in (slot.condition.names or ()) and (mismatch := bound.explain(Tree(argument))):
                differs = f"expected {mismatch.predicate}, found {mismatch.value}"
                return f"{missing}, nor does the argument {argument.name}: {differs}"
        return missing

    def _again(self, slot: Input) -> tuple[int, ...]:
        """The marked elements that the input may take: the earlier run that this one retries used them."""
        return self.decision.state.taken_before(self.step.id, slot.id)

    def _bound(self, slot: Input) -> Bound:
        """The condition of an input, its variables resolved."""
        if self._selected is not None and self._selected[0] == slot.id:
            return self._selected[1]
        if slot.bound is not None:
            return slot.bound
        return slot.condition.bind(self._stands_for(slot.condition.variables))

    def _stands_for(self, variables: frozenset[str]) -> Bindings:
        """The elements that variables stand for."""
        return self.decision.bindings(variables)

    def _added(self, eid: int) -> int:
        return add_argument(self.decision, self.step, self._arguments[-1 - eid])
