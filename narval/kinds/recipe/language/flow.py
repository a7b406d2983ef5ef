"""The flow of recipes: the origins of each step's inputs, and the sources of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from lxml import etree

from narval.core.definitions.library import Library
from narval.core.definitions.prototype import EMPTY, Input, Prototype
from narval.core.definitions.reading.values import values_in
from narval.core.elements.element import Element, Tree, children, parse
from narval.core.errors import DefinitionError
from narval.core.patterns.key import Facts, Test
from narval.core.patterns.pattern import Condition
from narval.core.trust.flow import (
    CallFlow,
    Flow,
    GivenBy,
    InMemory,
    Origin,
    Taken,
    TheArgument,
    ThisRun,
    Value,
    Written,
)
from narval.core.trust.paths import TEXT, local_part
from narval.core.trust.places import may_be
from narval.core.trust.selection import Piece, pieces_of, selected_by, variable_of
from narval.kinds.recipe.language.arguments import FOREACH, NOW, REPEAT
from narval.kinds.recipe.language.definition import EACH, Recipe, Step, Transition


def flow(recipe: Recipe, library: Library) -> Flow:
    """The flow of elements through a recipe."""
    waits = [wait for way in recipe.transitions.values() for wait in way.conditions if not wait.absent]
    until = [step.until for step in recipe.steps.values() if step.until is not None]
    conditions = (wait.condition for wait in waits)
    holds = [origin for condition in (*conditions, *until) for origin in _found(recipe, condition)]
    steps = _Steps(recipe, library)
    return Flow(
        tuple(map(steps.call, recipe.steps.values())),
        tuple(dict.fromkeys(holds)),
        first=tuple(_first(recipe)),
        gives=tuple(GivenBy(step) for step in recipe.steps),
    )


def _found(recipe: Recipe, condition: Condition) -> list[Origin]:
    """The origins of the elements that a condition finds: the output of a step if it asks for nothing else,
    or memory.
    """
    steps = [step for pattern in condition.patterns if (step := variable_of(pattern.text)) in recipe.steps]
    if len(steps) == len(condition.patterns) == 1:
        return [GivenBy(steps[0], errors=True)]
    return [InMemory(condition)]


def _first(recipe: Recipe) -> Iterator[tuple[Condition, ...]]:
    """The conditions that a plan meets first: no date and no other condition is before them.

    Those of a transition are together; the `foreach` of a step is alone.
    """
    reached = [recipe.start.id]
    for id in reached:
        if (each := recipe.steps[id].foreach) is not None:
            yield (each,)
        for way in recipe.transitions.values():
            if id not in way.sources or way.times or way.appointments:
                continue
            waits = sorted((one for one in way.conditions if not one.absent), key=lambda one: not one.use)
            if waits:
                yield tuple(one.condition for one in waits)
            else:
                reached += (target for target in way.targets if target not in reached)


class _Steps:
    """The steps of one recipe, as calls."""

    def __init__(self, recipe: Recipe, library: Library) -> None:
        self._recipe, self._library = recipe, library
        self._prototypes = {step.id: self._prototype(step) for step in recipe.steps.values()}
        self._failing = {
            link.step.id for way in recipe.transitions.values() for link in way.ins if link.on_error
        }

    def call(self, step: Step) -> CallFlow:
        """The call of a step, with the origins of its inputs."""
        prototype = self._prototypes[step.id]
        arguments = tuple(_Writing(self, step, xml).written() for xml in step.arguments)
        inputs = {slot.id: tuple(self._taken(step, slot, prototype, arguments)) for slot in prototype.inputs}
        elements: list[Taken] = []
        if step.sending is None and (step.agent or not self._has_prototype(step)):
            elements += (Taken(TheArgument(at)) for at in range(len(arguments)))
            elements += (Taken(InMemory(step.foreach)),) if step.foreach is not None else ()
        return CallFlow(
            step.id,
            step.kind,
            step.target,
            step.line,
            step.agent,
            prototype,
            inputs,
            arguments,
            tuple(elements),
            sends=step.sending is not None,
            selects=step.sending.select if step.sending is not None else "",
            undo=step.undo,
            approve=step.approve,
        )

    def _has_prototype(self, step: Step) -> bool:
        return getattr(self._library.get(step.kind, step.target), "prototype", None) is not None

    def _prototype(self, step: Step) -> Prototype:
        """The inputs and outputs of a step, as it narrows them."""
        if step.agent or step.sending is not None:
            return step.own_inputs
        declared = getattr(self._library.get(step.kind, step.target), "prototype", None)
        if not isinstance(declared, Prototype):
            return EMPTY
        try:
            return step.prototype(declared)
        except DefinitionError:
            return declared  # the check reports it

    # --- inputs ---------------------------------------------------------------------------------------

    def _taken(
        self, step: Step, slot: Input, prototype: Prototype, arguments: tuple[Written, ...]
    ) -> Iterator[Taken]:
        """The places from which an input can take its elements."""
        fits = slot.condition
        if step.foreach is not None and may_be(step.foreach, fits):
            yield Taken(InMemory(Condition((*step.foreach.patterns, *fits.patterns))))
            if sum(may_be(step.foreach, one.condition) for one in prototype.inputs) == 1:
                return
        written = {at: each for at, each in enumerate(arguments) if may_be(fits, each.literal)}
        yield from (Taken(TheArgument(at)) for at in written)
        others = [one.condition for one in prototype.inputs if one is not slot]
        if step.context is None and any(
            _surely_fits(fits, each) and not any(may_be(other, each.literal) for other in others)
            for each in written.values()
        ):
            return
        yield from map(Taken, self._near(step, fits))
        yield Taken(InMemory(fits), fallback=True)

    def _near(self, step: Step, fits: Condition) -> list[Origin]:
        """The origins of the plan's elements that may fit: those that led to the step, else all."""
        before = {link.step.id: link.step for way in step.ins for link in way.ins}
        near = [*_awaited(step.ins, fits), *self._given(before.values(), fits)]
        if near:
            return near
        others = (other for other in self._recipe.steps.values() if other is not step)
        return [*_awaited(self._recipe.transitions.values(), fits), *self._given(others, fits)]

    def _given(self, steps: Iterable[Step], fits: Condition) -> Iterator[Origin]:
        """The outputs of steps that may fit."""
        for step in steps:
            prototype = self._prototypes[step.id]
            is_run = not self._has_prototype(step)
            if is_run or any(may_be(fits, output.condition) for output in prototype.outputs):
                yield GivenBy(step.id, step.id in self._failing, fits)

    # --- variables ------------------------------------------------------------------------------------

    def origins(self, step: Step, name: str) -> list[Origin]:
        """The origins of the elements that a variable stands for."""
        recipe = self._recipe
        if name in recipe.steps:
            return [GivenBy(name, name in self._failing)]
        if name in recipe.names:
            return [origin for id, at in recipe.names[name] for origin in self._named(id, at)]
        if name == "plan":
            return [ThisRun()]
        if name == EACH and step.foreach is not None:
            return [InMemory(step.foreach)]
        return [] if name == NOW else [ThisRun()]

    def _named(self, transition: str, at: int) -> Iterator[Origin]:
        """The origins of what a condition took, and of the replacements that a plan has followed."""
        way = self._recipe.transitions[transition]
        fits = way.conditions[at].condition
        yield InMemory(fits)
        if way.appointments:
            yield InMemory(None)


def _awaited(ways: Iterable[Transition], fits: Condition) -> Iterator[Origin]:
    """The elements that some transitions wait for, and that may fit."""
    for way in ways:
        for wait in way.conditions:
            if not wait.absent and may_be(fits, wait.condition):
                yield InMemory(Condition((*fits.patterns, *wait.condition.patterns)))


def _surely_fits(fits: Condition, written: Written) -> bool:
    """True if it is proved that an argument matches a condition, whatever its values are filled in with."""
    if fits.variables:
        return False
    bound, tree = fits.bind(), Tree(Element(0, written.xml))
    if b"{" not in written.xml and not written.parts:
        return bound.test(tree)
    facts, attributes = Facts(tree), dict(written.literal.attributes)

    def is_sure(test: Test) -> bool:
        name = test.field.attribute
        if name is None:
            return False
        if attributes.get(name, "") != (tree.get(name) or ""):  # it is filled in
            return test.operator == "has" and test.positive
        return test.holds(facts)

    keys = (key for key in bound.alternatives() if key.exact and key.tag in (None, written.name))
    return any(all(map(is_sure, key.tests)) for key in keys)


class _Writing:
    """The reading of one argument: which of its parts have values, and their origins."""

    def __init__(self, steps: _Steps, step: Step, xml: bytes) -> None:
        self._steps, self._step, self._xml = steps, step, xml
        self._parts: dict[str, dict[Value, None]] = {}

    def written(self) -> Written:
        """The argument."""
        root = parse(self._xml)
        self._read(root, "", {})
        parts = {path: tuple(values) for path, values in self._parts.items()}
        return Written(Element(0, self._xml).name, self._xml, parts)

    def _read(self, node: etree._Element, path: str, within: Mapping[str, list[Value]]) -> None:
        for name, text in node.attrib.items():
            self._note(_join(path, f"@{local_part(name)}"), str(text), within)
        self._note(_join(path, TEXT), node.text or "", within)
        for child in children(node):
            self._note(_join(path, TEXT), child.tail or "", within)
            name, inner = _join(path, local_part(child.tag)), within
            repeat = REPEAT.fullmatch(child.get(FOREACH, ""))
            if repeat is not None:
                self._add(name, self._values(repeat[2], within, pieces_of))
                inner = {**within, repeat[1]: self._values(repeat[2], within, selected_by)}
                del child.attrib[FOREACH]
            self._read(child, name, inner)

    def _note(self, path: str, text: str, within: Mapping[str, list[Value]]) -> None:
        for braces in values_in(text):
            self._add(path, self._values(braces[1:-1], within, pieces_of))

    def _add(self, path: str, values: Iterable[Value]) -> None:
        self._parts.setdefault(path, {}).update(dict.fromkeys(values))

    def _values(
        self, text: str, within: Mapping[str, list[Value]], read: Callable[[str], frozenset[Piece]]
    ) -> list[Value]:
        """The pieces that an expression reads, or selects."""
        values: list[Value] = []
        for name, path in read(text.strip()):
            if name in within:
                values += (Value(of.origin, _join(of.path, path)) for of in within[name])
            else:
                values += (Value(origin, path) for origin in self._steps.origins(self._step, name))
        return values


def _join(path: str, inner: str) -> str:
    return "/".join(filter(None, (path, inner)))
