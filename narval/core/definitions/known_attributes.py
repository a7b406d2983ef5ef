"""Attributes read by narval or an action from elements: an unknown one may be a slip (N4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from narval.core.definitions.library import Definition, Library
from narval.core.definitions.prototype import Prototype
from narval.core.definitions.suggestions import closest
from narval.core.elements.names import QUIT, START_PLANS, TARGET, TASK, TASK_OBJECT

OF_ANY = frozenset({"key", "name", "eid"})
"""The attributes that any element may have: its identity, and its number."""

OWN = {**dict.fromkeys(START_PLANS, (TARGET,)), TASK_OBJECT: (TASK,), QUIT: ()}
"""The attributes that narval reads, by the root name of the element."""

COMMON = frozenset({"change", "message", "reason", "text", "to"})
"""Names of arguments that homes commonly give to their own elements: in memory, none is a slip."""

Known = Mapping[str, frozenset[str]]
"""The attributes that are read, by the root name of the element; other names are unknown."""


def known_attributes(library: Library) -> Known:
    """The attributes that narval reads, and those that actions declare for their inputs."""
    table = {name: frozenset(attributes) for name, attributes in OWN.items()}
    for definition in library:
        for name, attributes in attributes_read(definition).items():
            if name not in COMMON:
                table[name] = table.get(name, frozenset()) | attributes
    return table


def attributes_read(definition: Definition) -> Known:
    """The attributes that an action declares for its inputs; empty for any other definition."""
    read: dict[str, frozenset[str]] = {}
    prototype = getattr(definition, "prototype", None)
    for slot in prototype.inputs if isinstance(prototype, Prototype) else ():
        for name in slot.condition.names or () if slot.reads else ():
            read[name] = read.get(name, frozenset()) | frozenset(slot.reads)
    return read


def unread_attributes(table: Known, name: str, attributes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each attribute of a root that nothing reads, and a message with a suggestion."""
    read = table[name]
    for attribute in attributes:
        if attribute not in read | OF_ANY and not attribute.startswith(("{", "xml")):
            yield attribute, f"nothing reads the attribute {attribute!r} of {name}{closest(attribute, read)}"
