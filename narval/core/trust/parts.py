"""Parts: the pieces of a call's inputs, which of them say where it goes, and how each came in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from narval.core.elements.element import Element, Origin
from narval.core.engines.commands import Call
from narval.core.memory.labels import WHETHER, Labels
from narval.core.memory.memory import Memory
from narval.core.trust.paths import SlotPath, is_within

PROGRAMS = "program:"
"""The prefix of the names of programs in rules."""

AGENTS = "agent:"
"""The prefix of the names of agents of other homes in rules."""

WRITTEN_WORK = "work:"
"""The prefix of the names in rules for messages to people about work, by mail and chat."""

TEXT = "text"
"""The input name of what an item of work shows."""

VALUES = "values"
"""The input name of the values that a run gives a program, or sends along with a call."""

ELEMENTS = "elements"
"""The input name of the elements sent along with a call of a definition at another agent."""

STANDARD_INPUT = "standard input"
"""The input name of a program's standard input."""


def inputs_of(call: Call) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The inputs of a call by the names that parts use; the standard input of a program has one too, and so
    do the elements sent along to another agent.
    """
    along = ((ELEMENTS, call.elements),) if call.agent and call.elements else ()
    return (*along, *((slot or STANDARD_INPUT, eids) for slot, eids in call.inputs))


def elements_given(memory: Memory, call: Call) -> dict[str, list[Element]]:
    """The elements given to a call, by input name, except for forgotten ones."""
    return {
        slot: [element for eid in eids if (element := memory.element(eid)) is not None]
        for slot, eids in inputs_of(call)
    }


def where_in(slot: str, says_where: Iterable[SlotPath] | None) -> list[str] | None:
    """The paths in an input of a call that say where it goes; None: any may.

    The standard input of a program is what it works on: it does not say where.
    """
    if slot == STANDARD_INPUT:
        return []
    return None if says_where is None else [part.path for part in says_where if part.slot == slot]


_ONE_PART = re.compile(r"string\(\s*(@?[A-Za-z_][\w.-]*)\s*\)")
"""An expression that selects the text of a single attribute or child."""


class Part(msgspec.Struct, frozen=True):
    """A piece of a call's input, with the labels of the sources of its value.

    The parts of an input do not overlap: the part with path "" is everything outside the others.
    """

    input: str
    """The id of the input; "" is what decided that the call is made."""
    path: str = ""
    """The path of the piece: `@to`, `body`, `address/@mail`; "" for everything in no other part."""
    where: bool = False
    """True if it says where the call goes."""
    labels: tuple[str, ...] = ()
    """The labels of its contents, including those of secrets, in alphabetical order."""
    eids: tuple[int, ...] = ()
    """The nearest elements of memory that these labels come from: the element itself, or, if it was made of
    pieces, the sources of the piece. They may have been forgotten.
    """


def parts_of(
    memory: Memory,
    call: Call,
    says_where: Iterable[SlotPath] | None = None,
    deciding: Iterable[int] = (),
) -> tuple[Part, ...]:
    """The parts of a call: for each input those declared to say where, those with labels of their own, and
    the rest; last, if it has labels, what decided that the call is made.

    `says_where` is what the action declares, None if nothing; `deciding` are the calling run and its callers.
    """
    labels = memory.labels
    if not labels.pages:
        return ()
    parts: list[Part] = []
    selected = _selected(call)
    for slot, eids in inputs_of(call):
        if path := selected.get(slot):
            parts.append(_part(memory, slot, path, says_where is None, eids))
            continue
        declared = where_in(slot, says_where)
        parts += _of_input(memory, slot, eids, declared)
    eids = tuple(eid for _, inputs in inputs_of(call) for eid in inputs)
    decided = _decided(labels, deciding, eids)
    return (*parts, decided) if decided.labels else tuple(parts)


def _selected(call: Call) -> dict[str, str]:
    """The parts of elements that a program gets as variables, by variable, if its expression names one part:
    the program learns nothing of the others.
    """
    selects = call.program.selects if call.program is not None else ()
    fits = ((name, _ONE_PART.fullmatch(expression)) for name, expression in selects)
    return {name: fit[1] for name, fit in fits if fit is not None}


def _of_input(memory: Memory, slot: str, eids: tuple[int, ...], declared: list[str] | None) -> Iterator[Part]:
    """The parts of one input; with `declared` None all of them say where."""
    labels = memory.labels
    paths = dict.fromkeys(declared or ())
    for eid in eids:
        paths.update(dict.fromkeys(sorted(labels.paths(labels.own(eid)))))
    for path, where in _outermost(tuple(paths), None if declared is None else tuple(declared)):
        yield _part(memory, slot, path, where, eids)
    yield _part(memory, slot, "", declared is None or "" in declared, eids)


@lru_cache(maxsize=1024)
def _outermost(paths: tuple[str, ...], declared: tuple[str, ...] | None) -> tuple[tuple[str, bool], ...]:
    """The paths that are within no other path, each with True if it says where, without ""."""
    return tuple(
        (path, declared is None or any(is_within(path, part) or is_within(part, path) for part in declared))
        for path in paths
        if path and not any(other and path != other and is_within(path, other) for other in paths)
    )


def _part(
    memory: Memory,
    slot: str,
    path: str,
    where: bool,
    eids: tuple[int, ...],
) -> Part:
    labels, names, sources = memory.labels, set[str](), dict[int, None]()
    for eid in eids:
        own = labels.own(eid)
        of_eid = labels.of_part(own, path) if path else labels.rest(own)
        said = {name for name in of_eid if name[-1] != WHETHER}
        names |= said
        sources.update(dict.fromkeys(_sources(memory, eid, said)))
    return Part(slot, path, where, tuple(sorted(names)), tuple(sources))


def _sources(memory: Memory, eid: int, said: set[str]) -> tuple[int, ...]:
    """The nearest elements from which a piece of an element gets its labels."""
    labels = memory.labels
    if not said:
        return ()
    element = memory.element(eid)
    origin: Origin | None = None if element is None else element.origin
    if origin is None or not origin.inputs or not labels.paths(labels.own(eid)):
        return (eid,)
    having = [made_of for made_of in origin.inputs if said & {*labels.names(labels.of((made_of,)))}]
    if said <= {*labels.names(labels.of(having))}:
        return tuple(having)
    gone = (made_of for made_of in origin.inputs if made_of not in memory)
    return (*having, *gone) or (eid,)


def _decided(labels: Labels, runs: Iterable[int], eids: tuple[int, ...]) -> Part:
    """The cause of a call: the runs, and what decided its input elements."""
    having = [run for run in runs if labels.own(run)]
    names = {*labels.names(labels.whole(labels.of(having)))}
    for eid in eids:
        _, deciding = labels.told(labels.own(eid))
        if deciding:
            names.update(deciding)
            having.append(eid)
    return Part("", "", False, tuple(sorted(names)), tuple(dict.fromkeys(having)))
