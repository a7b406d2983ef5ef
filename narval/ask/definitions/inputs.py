"""The inputs of a definition: the elements that its parts take and that nothing within it produces."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from narval.core.definitions.library import Definition, Library, RunDefinition
from narval.core.definitions.prototype import Input, Prototype
from narval.core.trust.flow import CallFlow, GivenBy, InMemory, Taken, TheArgument, flow_of

MOST_NESTED = 4
"""The deepest nesting of runs that is looked into."""


def inputs_of(definition: Definition, library: Library) -> list[dict[str, Any]]:
    """The elements with which a run may be started: for each the patterns that it must match (`match`, all of
    them), and the `parts` that take it, as `part` and `input`.

    With `list` it takes several, with `optional` possibly none. An element that the run is not given, it
    takes from memory if it is there. The definitions that it calls are searched too, except those at other
    agents.
    """
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for part, name, match, slot in _inputs(definition, library, "", MOST_NESTED):
        row = rows.setdefault(match, {"match": list(match), "list": False, "optional": True, "parts": []})
        row["list"] = row["list"] or (slot is not None and slot.list)
        row["optional"] = row["optional"] and (slot is None or slot.optional)
        if (taking := {"part": part, "input": name}) not in row["parts"]:
            row["parts"].append(taking)
    return list(rows.values())


Found = tuple[str, str, tuple[str, ...], Input | None]
"""A part, its input, the patterns of the input, and its declaration."""


def _inputs(definition: Definition, library: Library, within: str, deeper: int) -> Iterator[Found]:
    if not isinstance(definition, RunDefinition):
        return
    if (prototype := _prototype_of(definition)) is not None:
        yield from (
            (within, slot.id, slot.match, slot) for slot in prototype.inputs if not slot.condition.variables
        )
        return
    giving: set[str] = set()
    for call in flow_of(definition, library).calls:
        part = f"{within}/{call.part}" if within else call.part
        yield from ((part, *taking) for taking in _of_call(call, giving))
        if call.prototype.outputs:
            giving.add(call.part)
        called = library.get(call.kind, call.target)
        if called is not None and _prototype_of(called) is None and not call.agent and deeper:
            yield from _inputs(called, library, part, deeper - 1)


def _prototype_of(definition: Definition) -> Prototype | None:
    """The inputs and outputs that a definition itself declares: they say what its call takes."""
    prototype = getattr(definition, "prototype", None)
    return prototype if isinstance(prototype, Prototype) else None


def _of_call(call: CallFlow, giving: Container[str]) -> Iterator[tuple[str, tuple[str, ...], Input | None]]:
    """The inputs of a call that neither an argument nor the outputs of earlier parts provide."""
    declared = {slot.id: slot for slot in call.prototype.inputs}
    for name, taken in call.inputs.items():
        origins = [each.origin for each in taken]
        if any(isinstance(each, TheArgument) for each in origins):
            continue
        if any(isinstance(each, GivenBy) and each.part in giving for each in origins):
            continue
        slot = declared.get(name)
        is_sure = slot is not None and not slot.condition.variables
        if match := slot.match if slot is not None and is_sure else _patterns(taken):
            yield name, match, slot


def _patterns(taken: Iterable[Taken]) -> tuple[str, ...]:
    """The patterns that can be evaluated without the run: those that led to the part."""
    conditions = [
        each.origin.condition for each in taken if isinstance(each.origin, InMemory) and not each.fallback
    ]
    patterns = [pattern for one in conditions if one is not None for pattern in one.patterns]
    return tuple(dict.fromkeys(pattern.text for pattern in patterns if not pattern.variables))
