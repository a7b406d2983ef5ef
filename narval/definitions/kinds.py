"""The table of kinds: which files hold definitions of a kind, and which packages read and run them.

A new kind is a package in `narval.definitions` with a module `parser`, a package in `narval.engines` with a
module `engine`, and a row here. A parser is given a source, and the root of its XML if it has one; it returns
the definitions it could make and all the faults (`library.Parsed`). A row may name two more modules:

    checks   warnings(definitions, library, now) -> faults: what is allowed and may not be meant
    linking  link_all(library, before) -> library, faults: definitions completed by what they import
             pinned(definition) -> the same, completed for good
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple, Protocol

from narval.definitions.library import Definition, Library, Parsed
from narval.errors import DefinitionError, Fault
from narval.memory.elements.element import local_name
from narval.source.text import Source
from narval.source.xml import read_xml

XSLT = "http://www.w3.org/1999/XSL/Transform"
PROCESS = "http://sarasvati.googlecode.com/ProcessDefinition"


class Declared(Definition, Protocol):
    """A definition that a module declares."""

    @property
    def function(self) -> str:
        """The name of its function or class in the module."""


class Kind(NamedTuple):
    """A kind of definitions: the packages that read and run them, and how their files are known.

    `run` is the kind of its runs, the name of their element in memory; "" for a kind that is not run by
    itself. `suffixes` and `roots` are those of its files; a kind without suffixes is found in modules (N30).
    """

    definitions: str
    engine: str = ""
    run: str = ""
    suffixes: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    checks: str = ""
    linking: str = ""


KINDS: dict[str, Kind] = {
    "action": Kind("narval.definitions.action"),
    "transform": Kind(
        "narval.definitions.transform",
        suffixes=(".xsl", ".xslt"),
        roots=(f"{{{XSLT}}}stylesheet", f"{{{XSLT}}}transform"),
    ),
    "recipe": Kind(
        "narval.definitions.recipe",
        engine="narval.engines.recipe",
        run="plan",
        suffixes=(".xml",),
        roots=("cookbook", "recipe"),
        checks="narval.definitions.recipe.checks",
    ),
    "automaton": Kind(
        "narval.definitions.automaton",
        engine="narval.engines.automaton",
        run="automaton",
        suffixes=(".xml",),
        roots=("automaton", "AUTOMATON", "Automaton"),
        checks="narval.definitions.automaton.checks",
    ),
    "process": Kind(
        "narval.definitions.process",
        engine="narval.engines.process",
        run="process",
        suffixes=(".xml",),
        roots=("process-definition", f"{{{PROCESS}}}process-definition"),
        checks="narval.definitions.process.checks",
        linking="narval.definitions.process.composition",
    ),
}
"""The kinds by name."""

EDITOR_FILES = ".editor.xml"
"""The suffix of files in which a process editor keeps the places of nodes: they are passed over."""

IN_MODULES = frozenset(
    ("action", "node-type", "predicate", "date-function", "string-function", "join", "listener")
)
"""The kinds of what modules declare: the store keeps modules whole."""

MODULE_PARSERS = {
    "narval.definitions.action.parser": "",
    "narval.definitions.process.code_parser": "__narval_code__",
}
"""The parsers of what modules declare, and the attribute that marks it ("": any module may declare some).

Each has `read_module(module, source) -> definitions, faults`.
"""


def suffixes() -> frozenset[str]:
    """The suffixes of all files that hold definitions."""
    return frozenset(suffix for kind in KINDS.values() for suffix in kind.suffixes)


def suffix_of(root: str) -> str:
    """The suffix of files with that root; the commonest where no kind has it."""
    found = (kind.suffixes[0] for kind in KINDS.values() if (local_name(root) or root) in kind.roots)
    return next(found, ".xml")


def parse(source: Source) -> Parsed:
    """The definitions of a file, by its suffix and root. Raises DefinitionError if it cannot be read."""
    if source.path.endswith(EDITOR_FILES):
        return Parsed(())
    kinds = [kind for kind in KINDS.values() if source.path.endswith(kind.suffixes)]
    if not kinds:
        raise DefinitionError([source.fault(f"expected a file of {', '.join(sorted(suffixes()))}")])
    root = read_xml(source)
    name = local_name(root.tag) or root.tag
    for kind in kinds:
        if name in kind.roots:
            parsed: Parsed = importlib.import_module(f"{kind.definitions}.parser").parse(source, root)
            return parsed
    wanted = " or ".join(dict.fromkeys(_shown(root).lower() for kind in kinds for root in kind.roots))
    message = f"expected the root {wanted}, found {_shown(name)}"
    raise DefinitionError([source.fault(message, root.line, root.column)])


def _shown(tag: str) -> str:
    return tag.replace(f"{{{XSLT}}}", "xsl:").replace(f"{{{PROCESS}}}", "")


def read_definition(kind: str, path: str, data: bytes) -> Definition:
    """A definition from the bytes that the store kept of it (its `xml`). Raises DefinitionError.

    It was good when it was kept: what a later narval finds wrong with it is no reason not to end what began.
    """
    source = Source(path, data)
    root = read_xml(source) if KINDS[kind].roots else None
    parsed: Parsed = importlib.import_module(f"{KINDS[kind].definitions}.parser").parse(source, root)
    return parsed.definitions[0] if parsed.definitions else parsed.checked()[0]


def read_module(module: ModuleType, source: Source) -> tuple[list[Declared], list[Fault]]:
    """All that an imported module declares, and all that is wrong with it."""
    found: list[Declared] = []
    faults: set[Fault] = set()
    for parser, mark in MODULE_PARSERS.items():
        # most modules have actions alone: no other parser is imported for them
        if not mark or any(mark in getattr(value, "__dict__", ()) for value in vars(module).values()):
            definitions, more = importlib.import_module(parser).read_module(module, source)
            found += definitions
            faults.update(more)
    return found, sorted(faults)


def link(library: Library, before: Library) -> tuple[Library, list[Fault]]:
    """A library whose definitions are completed by what they import, and why some cannot be.

    Those that come to the same as in the library `before` are taken from there.
    """
    faults: list[Fault] = []
    for name, kind in KINDS.items():
        if not kind.linking or not library.of(name):
            continue
        library, more = importlib.import_module(kind.linking).link_all(library, before)
        faults += more
    return library, faults


def pinned(definition: Definition, library: Library) -> Definition:
    """A definition as `library` has completed it, so that what it imports says nothing to it any more."""
    linking = KINDS[definition.kind].linking if definition.kind in KINDS else ""
    found = library.get(definition.kind, definition.full_name) if linking else None
    if found is None:
        return definition
    whole: Definition = importlib.import_module(linking).pinned(found)
    return whole


def warnings(definitions: Iterable[Definition], library: Library, now: float) -> list[Fault]:
    """What definitions of a library say that is allowed and may not be meant, at a moment."""
    by_kind: dict[str, list[Definition]] = {}
    for definition in definitions:
        by_kind.setdefault(definition.kind, []).append(definition)
    faults: list[Fault] = []
    for name, kind in KINDS.items():
        if kind.checks and name in by_kind:
            faults += importlib.import_module(kind.checks).warnings(by_kind[name], library, now)
    return faults
