"""Faults of recipes that no table can express: the graph, how steps fit their targets, and names of
conditions (N13).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition
from narval.core.definitions.prototype import Input, Prototype
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.walks import cycles, reached
from narval.core.definitions.reading.xml import Entry, Place, Reading
from narval.core.definitions.suggestions import closest, nearest
from narval.core.errors import DefinitionError, Fault
from narval.core.patterns.pattern import Bound, Condition
from narval.kinds.recipe.language.arguments import Slip
from narval.kinds.recipe.language.definition import EACH, Step, Transition, named

# --- the graph --------------------------------------------------------------------------------------------


class Edge(NamedTuple):
    """A transition by ids: the steps that must be done, and those that start, each with its place."""

    id: str
    ins: tuple[str, ...]
    outs: tuple[tuple[str, Place], ...]


def check_graph(recipe: Entry, start: Step | None, steps: Mapping[str, Step]) -> Iterator[tuple[Place, str]]:
    """The cycles, and the steps that cannot be reached from the start, each with its place and a message."""
    written = {entry.get("id"): entry.place("id") for entry in recipe.of("step")}
    places = {id: written[id] for id in steps}
    edges = [_edge(entry, steps) for entry in recipe.of("transition")]
    yield from _cycles(places, edges)
    if start is not None:
        yield from _unreachable(start.id, places, edges)


def _edge(entry: Entry, steps: Mapping[str, Step]) -> Edge:
    """A transition for the checks of the graph: a misspelt id counts as the intended one."""
    ins = [_meant(link.get("idref"), steps) for link in entry.of("in")]
    outs = [(_meant(link.get("idref"), steps), link.place("idref")) for link in entry.of("out")]
    return Edge(
        entry.get("id", ""),
        tuple(step for step in ins if step is not None),
        tuple((step, place) for step, place in outs if step is not None),
    )


def _meant(id: str | None, steps: Mapping[str, Step]) -> str | None:
    return id if id is None or id in steps else nearest(id, steps)


def _unreachable(start: str, steps: Mapping[str, Place], edges: list[Edge]) -> Iterator[tuple[Place, str]]:
    reachable = reached([start], ((edge.ins, [step for step, _ in edge.outs]) for edge in edges))
    into = {step: edge for edge in reversed(edges) for step, _ in edge.outs}
    for step, place in steps.items():
        if step in reachable:
            continue
        why = "no transition leads to it"
        if step in into:
            missing = next(source for source in into[step].ins if source not in reachable)
            why = f"transition {into[step].id!r} needs {missing!r}, which cannot be reached either"
        never = f"step {step!r} cannot be reached from the start step {start!r}"
        yield place, f"{never}: {why}; link or remove it"


def _cycles(steps: Mapping[str, Place], edges: list[Edge]) -> Iterator[tuple[Place, str]]:
    """Each link that closes a cycle."""
    after: dict[str, list[tuple[str, Place]]] = {step: [] for step in steps}
    for edge in edges:
        for step in edge.ins:
            after.setdefault(step, []).extend(edge.outs)
    reported: dict[Place, list[str]] = {}
    for circle, place in cycles(after):
        reported.setdefault(place, circle)
    for place, circle in reported.items():
        way = " → ".join([*circle, circle[0]])
        message = f"a step runs once in a plan, but this leads back to {circle[0]!r} ({way})"
        yield place, f'{message}; loop with until, restart="yes", a new start-plan, or a process definition'


# --- steps and their targets ------------------------------------------------------------------------------


class Dependency(NamedTuple):
    """An input whose pattern uses another's elements, with the place of the use."""

    input: str
    uses: str
    place: Place


def check_step(
    step: Step,
    target: Definition,
    dependencies: Iterable[Dependency],
    prompts: Mapping[str, tuple[Slip, ...]],
    foreach: Place,
    until: Place,
    path: str,
) -> list[Fault]:
    """The faults of a step that does not fit its target: forbidden overrides, a `foreach` without input, a
    source called again, inputs that use an unknown input, prompts that cannot be asked.
    """
    prototype: Prototype | None = getattr(target, "prototype", None)
    if prototype is None:
        message = f"a {target.kind} has no inputs and outputs that a step could tighten; remove this"
        return [narrowing.fault(message) for narrowing in (*step.inputs, *step.outputs)]
    faults: list[Fault] = []
    try:
        prototype = step.prototype(prototype)
    except DefinitionError as error:
        faults.extend(error.faults)
    if step.until is not None and getattr(target, "where", "") == "source":
        message = (
            f"{target.full_name} is a source, which goes on by itself: it is not called again; remove this"
        )
        faults.append(Fault(path, *until, message))
    faults += [
        Fault(path, *place, f"step {step.id!r}: {message}")
        for place, message in _of_prompts(prompts, prototype, target)
    ]
    misled = _check_dependencies(dependencies, prototype, target)
    faults += [Fault(path, *place, message) for place, message in misled]
    is_in_arguments = any(EACH in names for names in step.values.values())
    misfit = None if step.foreach is None else _misfit(step.foreach, prototype, target, is_in_arguments)
    return faults if misfit is None else [*faults, Fault(path, *foreach, misfit)]


def _of_prompts(
    prompts: Mapping[str, tuple[Slip, ...]], prototype: Prototype, target: Definition
) -> Iterator[Slip]:
    """The faults of prompts, if the target asks a language model."""
    asking = target.model if isinstance(target, Action) else ""
    for slot in prototype.inputs if asking and prompts else ():
        names = slot.condition.names
        for name in prompts if slot.id == asking else ():
            yield from prompts[name] if names is None or name in names else ()


def _check_dependencies(
    dependencies: Iterable[Dependency], prototype: Prototype, target: Definition
) -> Iterator[tuple[Place, str]]:
    """The variables that name no input, and inputs that depend on themselves."""
    ids = [slot.id for slot in prototype.inputs]
    after: dict[str, list[tuple[str, Place]]] = {}
    for input, uses, place in dependencies:
        if uses in ids:
            after.setdefault(input, []).append((uses, place))
        else:
            expectation = f"each, an input of {target.full_name}, a step, or the name of a condition"
            yield place, f"${uses}: expected {expectation}, found {uses!r}{closest(uses, ids)}"
    for circle, place in cycles(after):
        way = " → ".join([*circle, circle[0]])
        yield place, f"what fits {circle[0]!r} depends on itself ({way}); leave one of these variables out"


def _misfit(
    foreach: Condition, prototype: Prototype, target: Definition, is_in_arguments: bool
) -> str | None:
    """The fault of a `foreach` whose elements fit several inputs, or none while no argument is made from
    them; None if no fault is proved.
    """
    names = foreach.names
    accepted = (slot.condition.names for slot in prototype.inputs)
    may_fit = any(names is None or some is None or not names.isdisjoint(some) for some in accepted)
    if not is_in_arguments and not may_fit:
        inputs = ", ".join(f"{slot.id} ({' and '.join(slot.match)})" for slot in prototype.inputs)
        return f"what foreach selects fits no input of {target.full_name}; its inputs: {inputs or 'none'}"
    sure = [slot.id for slot in prototype.inputs if _surely_fits(foreach, slot)]
    if len(sure) > 1:
        listed = " and ".join(map(repr, sure))
        fits = f"fits the inputs {listed} of {target.full_name}"
        return f"what foreach selects {fits}; tighten one of them here"
    return None


def _surely_fits(foreach: Condition, slot: Input) -> bool:
    """True if every element selected fits: the input asks for their names, or for what selects them."""
    names: frozenset[str | None] = frozenset(foreach.names or [None])
    for pattern in slot.condition.patterns:
        keys = [] if pattern.variables else Bound((pattern,)).alternatives()
        alone = {key.tag for key in keys if key.exact and not key.tests}
        if None not in alone and not names <= alone and pattern not in foreach.patterns:
            return False
    return not slot.condition.variables


# --- names of conditions ----------------------------------------------------------------------------------

PARTS = ("condition", "context", "input", "output")
"""The parts of steps and transitions that have patterns."""

RESERVED = ("plan", EACH)
"""Variables with another meaning."""
_EACH_ELSEWHERE = "the element of a call may be used only in arguments and inputs, of a step with foreach"


def check_names(
    reading: Reading,
    patterns: Patterns,
    entry: Entry,
    steps: Mapping[str, Step],
    transitions: Mapping[str, Transition],
    start: Step | None,
) -> dict[str, tuple[tuple[str, int], ...]]:
    """The names of a recipe's conditions; faults of names, and of unknown variables, are recorded."""
    for written in entry.of("step"):
        if (name := written.get("id")) in RESERVED:
            message = f"id: expected a name of its own, found {name!r}, what ${name} is for; take another"
            reading.fault(written, message, "id")
    for written in entry.of("transition"):
        _check_transition(reading, patterns, written, steps)
    names = named(transitions.values())
    expectation = "the id of a step or the name of a condition of this recipe"
    patterns.check_variables({*steps, *names, "plan"}, expectation, "input", {EACH: _EACH_ELSEWHERE})
    if start is not None:
        _check_order(reading, patterns, entry, names, transitions, start)
    return names


def check_inputs(
    reading: Reading,
    patterns: Patterns,
    entry: Entry,
    names: Collection[str],
    dependencies: Mapping[int, list[Dependency]],
) -> None:
    """Record the other variables of inputs in `dependencies`, to be checked with the targets of steps."""
    inputs = {id(slot): step for step in entry.of("step") for slot in step.of("input")}
    for pattern, locate, within in patterns.read:
        step = inputs.get(id(within))
        if step is None or within is None:
            continue
        for name in sorted(pattern.variables.difference(names)):
            place = locate(patterns.offset(pattern, name))
            if "agent" in step.written:
                expectation = (
                    "a step or the name of a condition, for nothing else is known where the target is"
                )
                reading.fault_at(
                    place, f"${name}: expected {expectation}; found {name!r}{closest(name, names)}"
                )
            elif name != EACH and id(within) in dependencies:
                dependencies[id(within)].append(Dependency(within.get("id", ""), name, place))
            elif name == EACH and "foreach" not in step.written:
                message = (
                    f"${EACH} is the element of a call, of those that foreach selects; this step has none"
                )
                reading.fault_at(place, message)


def _check_transition(reading: Reading, patterns: Patterns, entry: Entry, steps: Mapping[str, Step]) -> None:
    """Record names that are taken, and uses of a name by its own condition or an earlier one."""
    conditions = list(entry.of("condition"))
    place_of: dict[str, int] = {}
    for at, condition in enumerate(conditions):
        name = condition.get("as")
        if name in steps or name in RESERVED:
            what = "the id of a step" if name in steps else f"what ${name} is for"
            reading.fault(condition, f"as: expected a name of its own, found {name!r}, {what}", "as")
        elif name in place_of:
            reading.fault(
                condition, f"as: another condition here is {name!r} already; take another name", "as"
            )
        elif name is not None:
            place_of[name] = at
    for at, condition in enumerate(conditions):
        for pattern, locate, within in patterns.read:
            if within is not condition:
                continue
            for name in sorted(pattern.variables & place_of.keys()):
                place = locate(patterns.offset(pattern, name))
                if place_of[name] >= at:
                    why = (
                        f"${name} is the element of {'this' if place_of[name] == at else 'a later'} condition"
                    )
                    reading.fault_at(place, f"{why}; a name may be used only in later conditions")
                elif "for" in condition.written:
                    why = f"for: what fits depends on ${name}, so it cannot be said since when something does"
                    remedy = "remove for, or let a transition after the next step wait"
                    reading.fault(condition, f"{why}; {remedy}", "for")


def _check_order(
    reading: Reading,
    patterns: Patterns,
    entry: Entry,
    names: Mapping[str, tuple[tuple[str, int], ...]],
    transitions: Mapping[str, Transition],
    start: Step,
) -> None:
    """Record variables that have no value, because no transition with the name can have fired before."""
    outers = entry.of("transition", "step")
    inner = {id(part): outer for outer in outers for part in outer.of(*PARTS)}
    for pattern, locate, within in patterns.read:
        used = sorted(pattern.variables & names.keys())
        part = inner.get(id(within), within) if used else None
        if not isinstance(part, Entry):
            continue
        for name in used:
            givers = [transitions[id] for id, _ in names[name]]
            if not any(_may_precede(giver, part, transitions, start) for giver in givers):
                listed = " and ".join(giver.id for giver in givers)
                message = f"${name} has no value here: {listed} cannot have fired before {part.word}"
                place = locate(patterns.offset(pattern, name))
                reading.fault_at(place, f"{message} {part.get('id', '')!r}; use it after that")


def _may_precede(giver: Transition, part: Entry, transitions: Mapping[str, Transition], start: Step) -> bool:
    """True if a transition may have fired, by the graph, when a step starts or another transition waits."""
    of_step = part.word == "step"
    id: str = part.get("id", "")
    if not of_step and (giver.id == id or any(rival.id == id for rival in giver.rivals)):
        return giver.id == id
    before = [
        transition
        for transition in transitions.values()
        if (id not in transition.sources if of_step else transition.id != id)
    ]
    reachable = reached([start.id], [(transition.sources, transition.targets) for transition in before])
    return any(giver is other for other in before) and reachable.issuperset(giver.sources)
