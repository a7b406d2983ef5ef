"""What can be run: parsed once, never altered. Pure: no clock, no files, no threads.

The table of kinds says which module reads which files. A parser is given a source, and the root of its XML if
it has one; it returns what it could make and all the faults (`library.Parsed`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from narval.errors import DefinitionError

if TYPE_CHECKING:
    from narval.definitions.library import Parsed
    from narval.source import Source


XSLT = "http://www.w3.org/1999/XSL/Transform"
PROCESS = "http://sarasvati.googlecode.com/ProcessDefinition"


class Kind(NamedTuple):
    """How the definitions of a kind are written: by which suffixes and XML roots a file of them is known."""

    parser: str
    suffixes: tuple[str, ...]
    roots: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    "action": Kind("narval.definitions.action_parser", ()),
    "transform": Kind(
        "narval.definitions.transform_parser",
        (".xsl", ".xslt"),
        (f"{{{XSLT}}}stylesheet", f"{{{XSLT}}}transform"),
    ),
    "recipe": Kind("narval.definitions.recipe_parser", (".xml",), ("cookbook", "recipe")),
    "automaton": Kind(
        "narval.definitions.automaton_parser", (".xml",), ("automaton", "AUTOMATON", "Automaton")
    ),
    "process": Kind(
        "narval.definitions.process_parser",
        (".xml",),
        ("process-definition", f"{{{PROCESS}}}process-definition"),
    ),
}
"""Actions have no suffix: they are found in modules, which must be imported first (N30)."""

EDITOR_FILES = ".editor.xml"
"""Where the source's editor keeps the places of a process's nodes: nothing that is run, and never a fault."""

IN_MODULES = frozenset(
    ("action", "node-type", "predicate", "date-function", "string-function", "join", "listener")
)
"""The kinds of what modules declare: the store keeps modules whole."""

SUFFIXES = frozenset(suffix for kind in KINDS.values() for suffix in kind.suffixes)


def parse(source: Source) -> Parsed:
    """The definitions of a file, by its suffix and root. Raises DefinitionError if it cannot be read."""
    from narval.definitions.library import Parsed
    from narval.memory.element import local_name
    from narval.source import read_xml

    if source.path.endswith(EDITOR_FILES):
        return Parsed(())
    kinds = [kind for kind in KINDS.values() if source.path.endswith(kind.suffixes)]
    if not kinds:
        raise DefinitionError([source.fault(f"expected a file of {', '.join(sorted(SUFFIXES))}")])
    root = read_xml(source)
    name = local_name(root.tag) or root.tag
    for kind in kinds:
        if name in kind.roots:
            parsed: Parsed = importlib.import_module(kind.parser).parse(source, root)
            return parsed
    wanted = " or ".join(dict.fromkeys(_shown(root).lower() for kind in kinds for root in kind.roots))
    message = f"expected the root {wanted}, found {_shown(name)}"
    raise DefinitionError([source.fault(message, root.line, root.column)])


def _shown(tag: str) -> str:
    return tag.replace(f"{{{XSLT}}}", "xsl:").replace(f"{{{PROCESS}}}", "")
