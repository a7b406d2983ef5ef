"""The table of kinds: the files that hold definitions of a kind, and the packages that read and run them.

A new kind is a package in `narval.core.definitions` with a module `parser`, a package in `narval.core.engines` with a
module `engine`, and a row here. `parser.parse` is given a source and the root of its XML; it returns the
definitions it could make and all the faults (`library.Parsed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from narval.core.definitions.library import Definition, Library, ModuleDefinition, Parsed
from narval.core.definitions.people.directory import Directory
from narval.core.elements.element import local_name
from narval.core.errors import DefinitionError, Fault, UnreadableError
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode, read_xml

XSLT = "http://www.w3.org/1999/XSL/Transform"
PROCESS = "http://sarasvati.googlecode.com/ProcessDefinition"


class Kind(NamedTuple):
    """A kind of definitions: the packages that read and run them, and the marks of their files.

    `run` is the kind of its runs, the name of their element in memory; "" for a kind that is not run by
    itself. Runs of other kinds follow the same definitions with engines of their own: `besides` has the
    packages of these by kind of run. One of them may be `standing`: of that there is one run for each
    definition that is loaded, which begins by itself and never ends. Of the kind `cases` a run begins with
    each object that is put to a definition.
    `suffixes` and `roots` are those of its files: a kind without roots is written as text, one without
    suffixes is found in modules (N30).
    With `nests_current` its runs nest the current version of one another, named without its group if need be
    (section 9).
    One that `composes` has a module `composition`, whose `compose_all` makes definitions whole of others in a
    library; one that `warns` has a module `checks`, whose `warnings` doubts definitions of a library, and one
    that `asks` people has `doubts` there as well, which are about those of a home.
    What is `inline` stands in cookbooks and in steps too: its parser has `read_within` (P8).
    A kind that is no `node` has a name that processes leave to their authors, as the type of nodes.
    """

    definitions: str
    engine: str = ""
    run: str = ""
    suffixes: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    nests_current: bool = False
    composes: bool = False
    warns: bool = False
    asks: bool = False
    inline: bool = False
    node: bool = True
    besides: Mapping[str, str] = {}
    standing: str = ""
    cases: str = ""

    @property
    def runs(self) -> Mapping[str, str]:
        """The packages of its engines, by kind of run."""
        return {self.run: self.engine, **self.besides} if self.engine else {}


KINDS: dict[str, Kind] = {
    "action": Kind("narval.core.definitions.action"),
    "transform": Kind(
        "narval.core.definitions.transform",
        suffixes=(".xsl", ".xslt"),
        roots=(f"{{{XSLT}}}stylesheet", f"{{{XSLT}}}transform"),
    ),
    "recipe": Kind(
        "narval.kinds.recipe.language",
        engine="narval.kinds.recipe.engine",
        run="plan",
        suffixes=(".xml",),
        roots=("cookbook", "recipe"),
        warns=True,
    ),
    "automaton": Kind(
        "narval.kinds.automaton.language",
        engine="narval.kinds.automaton.engine",
        run="automaton",
        suffixes=(".xml",),
        roots=("automaton", "AUTOMATON", "Automaton"),
        warns=True,
    ),
    "process": Kind(
        "narval.kinds.process.language",
        engine="narval.kinds.process.engine",
        run="process",
        suffixes=(".xml",),
        roots=("process-definition", f"{{{PROCESS}}}process-definition"),
        nests_current=True,
        composes=True,
        warns=True,
    ),
    "work": Kind(
        "narval.kinds.work.language",
        engine="narval.kinds.work.engine",
        run="work",
        suffixes=(".xml",),
        roots=("work",),
        warns=True,
        asks=True,
        inline=True,
    ),
    "task": Kind(
        "narval.kinds.task.language",
        engine="narval.kinds.task.engine",
        run="task",
        suffixes=(".task",),
        warns=True,
        node=False,
        besides={
            "task-server": "narval.kinds.task.engine.server",
            "task-case": "narval.kinds.task.engine.case",
        },
        standing="task-server",
        cases="task-case",
    ),
    "dataflow": Kind(
        "narval.kinds.dataflow.language",
        engine="narval.kinds.dataflow.engine",
        run="dataflow",
        suffixes=(".plan",),
        composes=True,
        warns=True,
    ),
}
"""The kinds by name."""

ASKS = frozenset(name for name, kind in KINDS.items() if kind.asks)
"""The kinds whose runs ask people."""

NESTS_CURRENT = frozenset(name for name, kind in KINDS.items() if kind.nests_current)
"""The kinds whose nested runs are of the current version."""

INLINE = tuple(name for name, kind in KINDS.items() if kind.inline)
"""The kinds whose definitions stand within cookbooks and steps too, by the name of their element."""

ASKING = next(name for name, kind in KINDS.items() if kind.asks)
"""The kind of the definitions by which people are asked."""

EDITOR_FILES = ".editor.xml"
"""The suffix of files in which a process editor keeps the places of nodes: they are passed over."""

IN_MODULES = frozenset(
    (
        "action",
        "node-type",
        "predicate",
        "date-function",
        "string-function",
        "join",
        "listener",
        "operator",
        "wrapper",
        "function",
    )
)
"""The kinds of the declarations in modules: the store keeps modules whole."""

DECLARATIONS: Mapping[str, str] = {
    "__narval_action__": "narval.core.definitions.action.parser",
    "MODULE_XML": "narval.core.definitions.action.parser",
    "__narval_code__": "narval.kinds.process.language.code_parser",
    "__narval_dataflow__": "narval.kinds.dataflow.language.code_parser",
}
"""The names by which a module, or a value in it, shows that it declares something, and the packages that read
it: their `declared` is given the imported module, its source and the group of what it declares.
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
    for kind in kinds:
        if not kind.roots:
            return _parse(kind, source, None)
    root = read_xml(source)
    name = local_name(root.tag) or root.tag
    for kind in kinds:
        if name in kind.roots:
            return _parse(kind, source, root)
    wanted = " or ".join(dict.fromkeys(_shown(root).lower() for kind in kinds for root in kind.roots))
    message = f"expected the root {wanted}, found {_shown(name)}"
    raise DefinitionError([source.fault(message, root.line, root.column)])


def _shown(tag: str) -> str:
    return tag.replace(f"{{{XSLT}}}", "xsl:").replace(f"{{{PROCESS}}}", "")


def read_definition(kind: str, path: str, data: bytes) -> Definition:
    """The definition of the bytes that the store kept of it (its `xml`).

    Raises DefinitionError, and UnreadableError for a kind that there is not.
    It was good when it was kept: a fault that only a later narval finds does not keep its runs from ending.
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
    """The definition of an `inline` kind within a cookbook of a group, or with a name that of a step (P8).

    `reading` is that of its file, in which all that is wrong with it is noted.
    """
    found: Definition | None = import_module(f"{KINDS[kind].definitions}.parser").read_within(
        reading, node, group, name
    )
    return found


def _parse(kind: Kind, source: Source, root: XmlNode | None) -> Parsed:
    parsed: Parsed = import_module(f"{kind.definitions}.parser").parse(source, root)
    return parsed


def parse_module(
    module: ModuleType, source: Source, group: str
) -> tuple[list[ModuleDefinition], list[Fault]]:
    """The definitions that an imported file of a module declares, and all that is wrong with them (N30)."""
    values = vars(module)
    names = {*values, *(name for value in values.values() for name in getattr(value, "__dict__", ()))}
    found: list[ModuleDefinition] = []
    faults: set[Fault] = set()
    # Most modules have actions alone, or nothing: the other parsers are not imported for them.
    for parser in dict.fromkeys(parser for name, parser in DECLARATIONS.items() if name in names):
        definitions, wrong = import_module(parser).declared(module, source, group)
        found += definitions
        faults.update(wrong)
    return found, sorted(faults)


def compose(library: Library) -> tuple[Library, list[Fault]]:
    """A library whose definitions are whole, as far as they can be, and the faults of the others."""
    faults: list[Fault] = []
    for name, kind in KINDS.items():
        if kind.composes and library.of(name):
            library, wrong = import_module(f"{kind.definitions}.composition").compose_all(library)
            faults += wrong
    return library, faults


def warnings(definitions: Iterable[Definition], library: Library) -> list[Fault]:
    """Warnings about definitions of a library: what is allowed and may not be meant."""
    by_kind: dict[str, list[Definition]] = {}
    for definition in definitions:
        by_kind.setdefault(definition.kind, []).append(definition)
    return [
        fault
        for name, doubtful in by_kind.items()
        if name in KINDS and KINDS[name].warns
        for fault in import_module(f"{KINDS[name].definitions}.checks").warnings(doubtful, library)
    ]


def doubts(definitions: Iterable[Definition], people: Directory, *, writes: bool = True) -> list[Fault]:
    """Warnings about definitions that ask people, given those of a home, which `writes` to them (P14)."""
    return [
        fault
        for name, kind in KINDS.items()
        if kind.asks and (asking := [found for found in definitions if found.kind == name])
        for fault in import_module(f"{kind.definitions}.checks").doubts(asking, people, writes=writes)
    ]
