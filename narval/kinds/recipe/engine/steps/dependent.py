"""Inputs that depend on others, by `$INPUT`, or on the element of a call of a `foreach`, by `$each` (N47).

They are assigned in order: first the independent inputs, then, from the remaining elements, those that use
what the earlier inputs got. In a `foreach`, inputs that depend on the element of a call are assigned when
that call is made.
"""

from __future__ import annotations

from collections.abc import Mapping

from narval.core.definitions.prototype import Input, Prototype
from narval.core.elements.element import Element
from narval.core.engines.assignment import Assignment, Slot, assign
from narval.core.engines.candidates import Bindings
from narval.core.engines.decision import Inputs
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.steps.inputs import InputSearch, around, names_each
from narval.kinds.recipe.language.definition import EACH, Step

Dependencies = Mapping[str, frozenset[str]]
"""The inputs that depend on others, with the names that they use."""


def input_search(
    decision: RecipeDecision, step: Step, prototype: Prototype, arguments: tuple[Element, ...] = ()
) -> InputSearch:
    """The search for the inputs of a step."""
    dependencies = _dependencies(decision, step, prototype)
    if dependencies:
        return DependentSearch(decision, step, prototype, arguments, dependencies)
    return InputSearch(decision, step, prototype, arguments)


def depends(decision: RecipeDecision, step: Step, prototype: Prototype) -> bool:
    """True if inputs depend on others, or on the element of a call."""
    return bool(prototype.input_variables or names_each(decision, step))


def _dependencies(decision: RecipeDecision, step: Step, prototype: Prototype) -> Dependencies:
    """The inputs that depend on others, or take an argument made for each call, with the names that they use.

    Ids of steps and names of conditions have precedence.
    """
    if not depends(decision, step, prototype):
        return {}
    recipe = decision.definition
    ids = {EACH, *(slot.id for slot in prototype.inputs)} - recipe.steps.keys() - recipe.names.keys()
    later = {Element(0, step.arguments[at]).name for at in names_each(decision, step)}
    used = {slot.id: slot.condition.variables & ids for slot in prototype.inputs}
    for slot in prototype.inputs:
        if slot.condition.names and slot.condition.names & later:
            used[slot.id] |= {EACH}
    return {id: names for id, names in used.items() if names}


class DependentSearch(InputSearch):
    """The search for inputs if some depend on others."""

    __slots__ = ("_depends", "_given")

    def __init__(
        self,
        decision: RecipeDecision,
        step: Step,
        prototype: Prototype,
        arguments: tuple[Element, ...],
        dependencies: Dependencies,
    ) -> None:
        super().__init__(decision, step, prototype, arguments)
        self._depends = dependencies
        self._given: dict[str, tuple[Element, ...]] = {}
        """The elements that `$each` and the ids of inputs stand for."""

    @property
    def independent(self) -> tuple[Input, ...]:
        """The inputs that depend on no other."""
        return tuple(slot for slot in self.inputs if slot.id not in self._depends)

    def assign(self, without: Input | None = None) -> Assignment:
        """The elements of each input, except of `without`, which takes one element for each call, and of
        inputs that depend on it.
        """
        later = self._later(without)
        return self._in_turn([slot for slot in self.inputs if slot.id not in later], {})

    def give(self, arguments: tuple[Element, ...]) -> None:
        """Set the arguments of the next call."""
        self._arguments = arguments

    def assign_for(self, slot: Input | None, eid: int, shared: Inputs) -> Assignment:
        """The elements of the inputs that depend on the element of a call; `slot` is the input that takes it,
        if any.
        """
        self._given[EACH] = self._elements((eid,))
        later = self._later(slot)
        inputs = dict(shared) if slot is None else dict(shared) | {slot.id: (eid,)}
        others = [other for other in self.inputs if other.id in later and other is not slot]
        rest = self._in_turn(others, inputs)
        return Assignment({id: eids for id, eids in rest.given.items() if id not in inputs}, rest.missing)

    def _later(self, slot: Input | None) -> frozenset[str]:
        """The inputs that are assigned for each call: the one for its element, and those that depend on
        it.
        """
        ids = {EACH} if slot is None else {EACH, slot.id}
        while more := {id for id, names in self._depends.items() if id not in ids and names & ids}:
            ids |= more
        return frozenset(ids)

    def _in_turn(self, slots: list[Input], before: dict[str, tuple[int, ...]]) -> Assignment:
        """The elements of some inputs, given those of others."""
        inputs = dict(before)
        self._given |= {id: self._elements(eids) for id, eids in inputs.items()}
        left = list(slots)
        while left:
            waiting = {slot.id for slot in left}
            now = [slot for slot in left if waiting.isdisjoint(self._depends.get(slot.id, ()))] or left
            taken = {eid for eids in inputs.values() for eid in eids}
            assigned = assign([self._slot(slot, taken) for slot in now])
            if assigned.missing:
                return assigned
            inputs |= assigned.given
            self._given |= {slot.id: self._elements(inputs.get(slot.id, ())) for slot in now}
            left = [slot for slot in left if slot not in now]
        return Assignment(inputs)

    def _slot(self, slot: Input, taken: set[int]) -> Slot:
        """An input with the elements that it may take, except those that other inputs have."""
        scope, again = (self.scope(slot), self._again(slot)) if slot.use else (None, ())
        search = around(self.decision, self.step, self._arguments)
        ranks = search.ranks(self._bound(slot), scope, again, slot.newest)
        return Slot(
            slot.id,
            lambda: ((eid for eid in rank if eid not in taken) for rank in ranks()),
            slot.optional,
            slot.list,
        )

    def _elements(self, eids: tuple[int, ...]) -> tuple[Element, ...]:
        """Elements by eid, including arguments."""
        elements = (
            self.decision.view.element(eid) if eid >= 0 else self._arguments[-1 - eid] for eid in eids
        )
        return tuple(element for element in elements if element is not None)

    def _stands_for(self, variables: frozenset[str]) -> Bindings:
        used = frozenset[str]().union(*self._depends.values())
        mine = {name: eids for name, eids in self._given.items() if name in used}
        return {**super()._stands_for(variables), **mine}
