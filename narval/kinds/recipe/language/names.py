"""Names of conditions: `as`, and where `$NAME` may appear."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.walks import reached
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.suggestions import closest
from narval.kinds.recipe.language.checks import Dependency
from narval.kinds.recipe.language.definition import EACH, Step, Transition, named

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
    given: dict[str, int] = {}
    for at, condition in enumerate(conditions):
        name = condition.get("as")
        if name in steps or name in RESERVED:
            what = "the id of a step" if name in steps else f"what ${name} is for"
            reading.fault(condition, f"as: expected a name of its own, found {name!r}, {what}", "as")
        elif name in given:
            reading.fault(
                condition, f"as: another condition here is {name!r} already; take another name", "as"
            )
        elif name is not None:
            given[name] = at
    for at, condition in enumerate(conditions):
        for pattern, locate, within in patterns.read:
            if within is not condition:
                continue
            for name in sorted(pattern.variables & given.keys()):
                place = locate(patterns.offset(pattern, name))
                if given[name] >= at:
                    why = f"${name} is the element of {'this' if given[name] == at else 'a later'} condition"
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
