"""`data/memory.xml`: the elements that a home declares to be always in memory (N4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from narval.core.definitions.known_attributes import known_attributes, unread_attributes
from narval.core.definitions.library import SET_FIRST, Library
from narval.core.definitions.prototype import NAME_OF, Prototype
from narval.core.definitions.reading.durations import read_duration
from narval.core.definitions.suggestions import closest, nearest
from narval.core.elements.canonical import elements_of
from narval.core.elements.element import Element, Tree, identity, local_name
from narval.core.elements.names import START_PLANS, TARGET, TASK, TASK_OBJECT
from narval.core.engines.registry import is_runnable, runnable, taking
from narval.core.errors import DefinitionError, ElementError, Fault, PatternError
from narval.core.patterns.pattern import condition
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode, read_xml
from narval.files.agents.settings import AgentSettings, usable
from narval.files.schemas import Schemas
from narval.system.regular_file import read_source, unexpected

DEFAULTS = AgentSettings()
"""The limits that apply if no file sets others."""

SHOWN = "data/memory.xml"
"""The name of the file of declarations in faults."""


def read_memory(
    path: Path,
    schemas: Schemas,
    library: Library | None = None,
    limits: AgentSettings = DEFAULTS,
    broken: Mapping[tuple[str, str], str] = {},
    *,
    starts: bool = True,
    shown: str = SHOWN,
) -> tuple[list[bytes] | None, list[Fault]]:
    """The elements that a `memory.xml` declares, or None and its faults: then its former declarations stay.

    With a library, attributes must hold what the inputs of its actions require. Unless `starts` is False,
    starting an unknown definition is then a fault, and an attribute that nothing reads gets a warning. The
    elements must be within the `limits` of the agent (G16). `broken` are the files that did not load, by the
    kind and name that they should define. `shown` is the path of the file for people.
    """
    try:
        source = read_source(path, shown)
        root = read_xml(source)
        faults = [*_faults(root, source, schemas), *_over_limit(root, source, limits)]
        warnings = list[Fault]()
        if library is not None:
            faults += _ill_held(root, source, library)
            faults += _dangling(root, source, library, broken) if starts else ()
            warnings = [*_unread(root, source, library)] if starts else []
        return (None, faults + warnings) if faults else (elements_of(source.data), warnings)
    except FileNotFoundError:
        return [], []
    except DefinitionError as error:
        return None, list(error.faults)
    except ElementError as error:
        return None, [Fault(shown, error.line, error.column, error.message)]
    except Exception as error:
        return None, [unexpected(shown, error)]


def _faults(root: XmlNode, source: Source, schemas: Schemas) -> Iterator[Fault]:
    """The faults of declarations: the root must be `memory`, and all must fit their schemas."""
    if local_name(root.tag) != "memory":
        yield source.fault(f"expected the root memory, found {root.tag}", root.line, root.column)
        return
    for position, child in enumerate(root.children):
        if schemas.refusal(child.xml()) is None:
            continue
        fault = schemas.refusal_in(source.data, position)
        if fault is not None:
            yield source.fault(f"refused by its schema: {fault.message}", fault.line, fault.column)
    yield from _doubles(root, source)


def _over_limit(root: XmlNode, source: Source, limits: AgentSettings) -> Iterator[Fault]:
    """Faults of declarations that exceed the memory of their agent, even if it were empty otherwise."""
    sizes = [len(child.xml()) for child in root.children]
    for child, size in zip(root.children, sizes, strict=True):
        if size > limits.element_bytes:
            excess = f"expected an element of at most {limits.element_bytes:,} bytes, found one of {size:,}"
            yield source.fault(f"{excess}; divide it, or set element_bytes higher", child.line, child.column)
    for what, count, most in (
        ("elements", len(sizes), limits.elements),
        ("bytes", sum(sizes), limits.bytes),
    ):
        if count > usable(most):
            excess = f"over-limit: expected at most {usable(most):,} {what}, found {count:,}"
            yield source.fault(f"{excess}; declare less, or set {what} higher", root.line, root.column)


def _doubles(root: XmlNode, source: Source) -> Iterator[Fault]:
    """Faults, at both places, of elements with the same root name and the same `key` or `name`."""
    nodes_of: dict[tuple[str, str], list[XmlNode]] = {}
    for child in root.children:
        named = identity(Element(0, child.xml()))
        if named is not None:
            nodes_of.setdefault(named, []).append(child)
    for (name, key), nodes in nodes_of.items():
        for node in nodes if len(nodes) > 1 else ():
            others = ", ".join(str(other.line) for other in nodes if other is not node)
            what = f"several {name} elements are known as {key!r} (line {others} too)"
            yield source.fault(f"{what}: give each a key, or a name, of its own", node.line, node.column)


def _ill_held(root: XmlNode, source: Source, library: Library) -> Iterator[Fault]:
    """Faults of attributes whose values are not what an action with such inputs requires."""
    inputs = [
        slot
        for definition in library
        if isinstance(prototype := getattr(definition, "prototype", None), Prototype)
        for slot in prototype.inputs
        if slot.holds
    ]
    for child in root.children if inputs else ():
        tree = Tree(Element(0, child.xml()))
        reported = set[tuple[str, str]]()
        for slot in inputs:
            if slot.bound is None or not slot.bound.test(tree):
                continue
            for name, held in slot.holds.items():
                wrong = _wrong(child.attributes[name], held, root) if name in child.attributes else None
                if wrong is not None and (name, wrong[0]) not in reported:
                    reported.add((name, wrong[0]))
                    yield source.fault(f"{name}: {wrong[0]}", *child.place(name, wrong[1]))


_READERS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {"number": float, "duration": read_duration, "date": datetime.fromisoformat}
)


def _wrong(value: str, held: str | tuple[str, ...], root: XmlNode) -> tuple[str, int] | None:
    """The reason why a value is not of the required kind, and where in it; None if it is.

    A named element must be declared beside it, under the same `root`.
    """
    if isinstance(held, tuple):
        message = f"expected {' or '.join(held)}, found {value!r:.80}{closest(value, held)}"
        return None if value in held else (message, 0)
    if held.startswith(NAME_OF):
        of = held.removeprefix(NAME_OF)
        there = [
            child.attributes["name"]
            for child in root.children
            if child.tag == of and "name" in child.attributes
        ]
        wish = closest(value, there) or f'; add one, <{of} name="{value:.80}">'
        return None if value in there else (f"there is no {of} of the name {value!r:.80}{wish}", 0)
    try:
        if held == "pattern":
            names = condition(value).variables
            return (f"${min(names)} is known only in a recipe", value.find("$")) if names else None
        _READERS[held](value)
    except PatternError as error:
        return f"no pattern: {error.message}", error.column - 1
    except ValueError:
        return f"expected a {held}, found {value!r:.80}", 0
    return None


def _dangling(
    root: XmlNode, source: Source, library: Library, broken: Mapping[tuple[str, str], str]
) -> Iterator[Fault]:
    """Faults of elements that would start an unknown definition, with likely names."""
    for child in root.children:
        if child.tag in START_PLANS and runnable(library, child.attributes.get(TARGET, "")) is None:
            names = [definition.full_name for definition in library if is_runnable(definition.kind)]
            yield source.fault(*_unknown(child, TARGET, "definition {} to start", names, broken))
        elif child.tag == TASK_OBJECT and taking(library, child.attributes.get(TASK, "")) is None:
            names = [name for definition in library if taking(library, name := definition.full_name)]
            yield source.fault(*_unknown(child, TASK, "task {} to put an object to", names, broken))


def _unread(root: XmlNode, source: Source, library: Library) -> Iterator[Fault]:
    """Warnings about attributes that nothing reads."""
    attributes_of = known_attributes(library)
    for child in (each for each in root.children if each.tag in attributes_of):
        for name, message in unread_attributes(attributes_of, child.tag, child.attributes):
            yield source.fault(message, *child.place(name))._replace(warning=True)


def _unknown(
    child: XmlNode, attribute: str, what: str, names: list[str], broken: Mapping[tuple[str, str], str]
) -> tuple[str, int, int]:
    """The message and the place of a fault: the attribute names nothing known, or is missing."""
    name = child.attributes.get(attribute)
    if name is not None:
        path = next((path for (_, meant), path in broken.items() if meant == name), "")
        why = f", because {path} {SET_FIRST}" if path else closest(name, names)
        return f"there is no {what.format(repr(name))}{why}", *child.place(attribute)
    meant = nearest(attribute, child.attributes)
    message = f"expected the attribute {attribute} with a name, found {meant or 'none'}"
    return message, child.line, child.column
