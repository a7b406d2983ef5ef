"""Definitions read by their kind: files by suffix and root, modules by their declarations, texts of the
store.

The language of a kind has a module `parser`, whose `parse` takes a source and the root of its XML and returns
the definitions it could make and all the faults (`library.Parsed`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib import import_module
from types import ModuleType
from typing import Any

from narval.core.definitions.library import Definition, Library, ModuleDefinition, Parsed
from narval.core.definitions.people.directory import WRITTEN, Directory
from narval.core.elements.element import local_name
from narval.core.errors import DefinitionError, Fault, UnreadableError
from narval.core.kinds import DECLARATIONS, KINDS, PROCESS, XSLT, Kind
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode, read_xml

EDITOR_FILES = ".editor.xml"
"""The suffix of files in which a process editor keeps the positions of nodes: they are ignored."""


def suffixes() -> frozenset[str]:
    """The suffixes of all files that hold definitions."""
    return frozenset(suffix for kind in KINDS.values() for suffix in kind.suffixes)


def suffix_of(root: str) -> str:
    """The suffix of files with a root; the most common one if no kind has that root."""
    suffixes = (kind.suffixes[0] for kind in KINDS.values() if (local_name(root) or root) in kind.roots)
    return next(suffixes, ".xml")


def parse(source: Source) -> Parsed:
    """The definitions in a file, by its suffix and root. Raises DefinitionError if it cannot be read."""
    if source.path.endswith(EDITOR_FILES):
        return Parsed(())
    kinds = [kind for kind in KINDS.values() if source.path.endswith(kind.suffixes)]
    if not kinds:
        raise DefinitionError([source.fault(f"expected a file of {', '.join(sorted(suffixes()))}")])
    for kind in kinds:
        if not kind.roots:
            return _parse(kind, source, None)
    root = read_xml(source)
    name = local_name(root.tag) or root.tag
    for kind in kinds:
        if name in kind.roots:
            return _parse(kind, source, root)
    roots = " or ".join(dict.fromkeys(_root_text(root).lower() for kind in kinds for root in kind.roots))
    message = f"expected the root {roots}, found {_root_text(name)}"
    raise DefinitionError([source.fault(message, root.line, root.column)])


def _root_text(tag: str) -> str:
    return tag.replace(f"{{{XSLT}}}", "xsl:").replace(f"{{{PROCESS}}}", "")


def read_definition(kind: str, path: str, data: bytes) -> Definition:
    """The definition in the bytes that the store kept (its `xml`).

    Raises DefinitionError, and UnreadableError for an unknown kind. The definition was valid when it was
    stored: a fault that only a later narval finds does not prevent its runs from ending.
    """
    row, source = KINDS.get(kind), Source(path, data)
    if row is None:
        raise UnreadableError(f"expected a kind of definition ({', '.join(KINDS)}), got {kind!r:.40}")
    root = read_xml(source) if row.roots or row.suffixes else None
    if root is not None and not row.roots:
        source, root = Source(path, root.text.encode()), None
    parsed = _parse(row, source, root)
    return parsed.definitions[0] if parsed.definitions else parsed.checked()[0]


def read_within(kind: str, reading: Any, node: XmlNode, group: str, name: str = "") -> Definition | None:
    """The definition of an `inline` kind within a cookbook of a group; with a name, the one within a step
    (P8).

    `reading` is the reader of its file, which records its faults.
    """
    definition: Definition | None = import_module(f"{KINDS[kind].language}.parser").read_within(
        reading, node, group, name
    )
    return definition


def _parse(kind: Kind, source: Source, root: XmlNode | None) -> Parsed:
    parsed: Parsed = import_module(f"{kind.language}.parser").parse(source, root)
    return parsed


def parse_module(
    module: ModuleType, source: Source, group: str
) -> tuple[list[ModuleDefinition], list[Fault]]:
    """The definitions declared by an imported file of a module, and all their faults (N30)."""
    values = vars(module)
    within = [getattr(value, "__dict__", ()) for value in values.values()]
    names = [name for name in DECLARATIONS if name in values or any(name in each for each in within)]
    parsed: list[ModuleDefinition] = []
    faults: set[Fault] = set()
    # Most modules have only actions, or nothing: the other parsers are not imported for them.
    for parser in dict.fromkeys(DECLARATIONS[name] for name in names):
        definitions, wrong = import_module(parser).declared(module, source, group)
        parsed += definitions
        faults.update(wrong)
    if "@action" in source.text or ".action" in source.text:
        lost = import_module("narval.core.definitions.action.lost")
        faults.update((*lost.lost_actions(module, source), *lost.unawaited_calls(module, source)))
    return parsed, sorted(faults)


def compose(library: Library) -> tuple[Library, list[Fault]]:
    """A library of composed definitions, as far as possible, and the faults of the others."""
    faults: list[Fault] = []
    for name, kind in KINDS.items():
        if kind.composes and library.of(name):
            library, wrong = import_module(f"{kind.language}.composition").compose_all(library)
            faults += wrong
    return library, faults


def warnings(definitions: Iterable[Definition], library: Library) -> list[Fault]:
    """Warnings about definitions of a library: allowed, but possibly unintended."""
    by_kind: dict[str, list[Definition]] = {}
    for definition in definitions:
        by_kind.setdefault(definition.kind, []).append(definition)
    return [
        fault
        for name, doubtful in by_kind.items()
        if name in KINDS and KINDS[name].warns
        for fault in import_module(f"{KINDS[name].language}.checks").warnings(doubtful, library)
    ]


def doubts(
    definitions: Iterable[Definition], people: Directory, by: Collection[str] = WRITTEN
) -> list[Fault]:
    """Warnings about definitions that ask people of a home; `by` are the channels by which it can write to
    them.
    """
    return [
        fault
        for name, kind in KINDS.items()
        if kind.asks and (asking := [definition for definition in definitions if definition.kind == name])
        for fault in import_module(f"{kind.language}.checks").doubts(asking, people, by)
    ]
