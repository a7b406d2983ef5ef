"""The table of kinds: which files hold definitions of a kind, and which packages read and run them.

A new kind is a package in `narval.definitions` with a module `parser`, a package in `narval.engines` with a
module `engine`, and a row here. A parser is given a source, and the root of its XML if it has one; it returns
the definitions it could make and all the faults (`library.Parsed`).
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from narval.definitions.library import Definition, Parsed
from narval.errors import DefinitionError
from narval.memory.elements.element import local_name
from narval.source.text import Source
from narval.source.xml import read_xml

XSLT = "http://www.w3.org/1999/XSL/Transform"
PROCESS = "http://sarasvati.googlecode.com/ProcessDefinition"


class Kind(NamedTuple):
    """A kind of definitions: the packages that read and run them, and how their files are known.

    `run` is the kind of its runs, the name of their element in memory; "" for a kind that is not run by
    itself. `suffixes` and `roots` are those of its files; a kind without suffixes is found in modules (N30).
    With `nests_current` its runs nest the current version of one another, named without its group if need be
    (section 9).
    """

    definitions: str
    engine: str = ""
    run: str = ""
    suffixes: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    nests_current: bool = False


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
    ),
    "automaton": Kind(
        "narval.definitions.automaton",
        engine="narval.engines.automaton",
        run="automaton",
        suffixes=(".xml",),
        roots=("automaton", "AUTOMATON", "Automaton"),
    ),
    "process": Kind(
        "narval.definitions.process",
        engine="narval.engines.process",
        run="process",
        suffixes=(".xml",),
        roots=("process-definition", f"{{{PROCESS}}}process-definition"),
        nests_current=True,
    ),
}
"""The kinds by name."""

NESTS_CURRENT = frozenset(name for name, kind in KINDS.items() if kind.nests_current)
"""The kinds whose nested runs are of the current version."""

EDITOR_FILES = ".editor.xml"
"""The suffix of files in which a process editor keeps the places of nodes: they are passed over."""

IN_MODULES = frozenset(
    ("action", "node-type", "predicate", "date-function", "string-function", "join", "listener")
)
"""The kinds of what modules declare: the store keeps modules whole."""


def suffixes() -> frozenset[str]:
    """The suffixes of all files that hold definitions."""
    return frozenset(suffix for kind in KINDS.values() for suffix in kind.suffixes)


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
