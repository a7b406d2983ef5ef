"""Declared parts: inputs' parts that say where, and outputs' parts that are the action's own or passed on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from narval.core.definitions.action.definition import ActionDeclaration
from narval.core.definitions.prototype import Prototype
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.suggestions import closest
from narval.core.trust.paths import WRITTEN, Keep, SlotPath, is_path, keeps_of, slot_path

Read = TypeVar("Read")


class PartFault(NamedTuple):
    """A fault of a declared part, and the text at fault."""

    text: str
    message: str


class DeclaredParts(NamedTuple):
    """A prototype with the passed-on parts, the parts that say where, and their faults."""

    prototype: Prototype
    says_where: tuple[SlotPath, ...] | None
    faults: tuple[PartFault, ...]


def with_parts(prototype: Prototype, declaration: ActionDeclaration) -> DeclaredParts:
    """A prototype with what `@action` declares about its parts."""
    says_where, odd_where = _read_where(
        () if declaration.pure and declaration.where is None else declaration.where
    )
    keeps, odd_keeps = _read_keeps(declaration.keeps)
    made = Prototype(prototype.inputs, prototype.outputs, keeps)
    odd_own = (
        PartFault(str(text), f"own: expected {WRITTEN}, found {text!r:.80}")
        for output in made.outputs
        for text in output.own
        if not is_path(text)
    )
    unfit = misplaced(made, says_where or (), declaration.pure)
    return DeclaredParts(made, says_where, (*odd_where, *odd_keeps, *odd_own, *unfit))


def _read_where(declared: object) -> tuple[tuple[SlotPath, ...] | None, list[PartFault]]:
    if declared is None:
        return None, []
    if not isinstance(declared, tuple):
        message = f'where: expected a list of parts of inputs, such as ["email/@to"], found {declared!r:.80}'
        return (), [PartFault(declared if isinstance(declared, str) else "", message)]
    return _each(declared, slot_path, "where")


def _read_keeps(declared: object) -> tuple[tuple[Keep, ...], list[PartFault]]:
    if declared is None:
        return (), []
    if not isinstance(declared, Mapping):
        wish = 'expected parts of outputs with parts of inputs, such as {"answer/@to": "mail/@from"}'
        return (), [PartFault("", f"keeps: {wish}, found {declared!r:.80}")]
    return _each(declared.items(), lambda pair: keeps_of(dict([pair]))[0], "keeps")


def misplaced(prototype: Prototype, says_where: Iterable[SlotPath], pure: bool) -> Iterator[PartFault]:
    """The faults of parts without an input or output, and of passed-on parts of an impure action."""
    inputs, outputs = ([slot.id for slot in slots] for slots in (prototype.inputs, prototype.outputs))
    for part in says_where:
        yield from _unknown("where", part, "input", inputs)
    for keep in prototype.keeps:
        yield from _unknown("keeps", keep.part, "output", outputs)
        for source in keep.sources:
            yield from _unknown("keeps", source, "input", inputs)
    own = {SlotPath(output.id, path) for output in prototype.outputs for path in output.own}
    impure = [] if pure else [keep.part for keep in prototype.keeps if keep.part not in own]
    if impure:
        message = (
            "keeps: only a pure action passes on nothing but what it was given; add pure, or leave out all "
            "keeps but those of its own parts"
        )
        yield PartFault(str(impure[0]), message)


def check_parts(reading: Reading, entry: Entry, faults: Iterable[PartFault]) -> None:
    """Report these faults at the XML attributes that declare the parts."""
    for text, message in faults:
        word = message.partition(":")[0]
        written = entry.node.attributes[entry.written[word]]
        part = re.search(rf"(?<![^\s=+]){re.escape(text)}(?![^\s=+])", written)
        reading.fault(entry, message, word, part.start() if part else 0)


def _unknown(word: str, part: SlotPath, what: str, ids: list[str]) -> Iterator[PartFault]:
    if part.slot not in ids:
        hint = closest(part.slot, ids) or (f"; it has {', '.join(ids)}" if ids else f"; it has no {what}")
        message = f"{word}: expected the id of an {what} before the path, found {part.slot!r}{hint}"
        yield PartFault(str(part), message)


def _each(
    items: Iterable[object], read: Callable[..., Read], word: str
) -> tuple[tuple[Read, ...], list[PartFault]]:
    values, faults = [], []
    for item in items:
        try:
            values.append(read(item))
        except (ValueError, TypeError) as error:
            text = item[0] if isinstance(item, tuple) else item
            wish = error.args[0] if isinstance(error, ValueError) else "texts"
            faults.append(PartFault(str(text), f"{word}: expected {wish}, found {item!r:.80}"))
    return tuple(values), faults
