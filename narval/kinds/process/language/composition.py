"""Composition: a process gets copies of the nodes and arcs of its externals (sections 1 and 13).

A file holds a draft. Whenever a library is made, all its drafts are composed from the definitions loaded
then, externals first. So a process whose external has changed is a new version, and so is one that imports
that. The `xml` of a process contains the definitions of its externals, which makes it self-contained: a run,
the store and a worker need no library to read it again. Only nodes that a process itself defines can be
addressed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from narval.core.definitions.library import Library
from narval.core.definitions.suggestions import closest
from narval.core.elements.canonical import canonical
from narval.core.elements.element import parse
from narval.core.errors import DefinitionError, ElementError, Fault
from narval.core.source import MAX_BYTES
from narval.core.source.xml import MAX_NODES
from narval.kinds.process.language.definition import Arc, DraftArc, External, Node, Process, link

MOST_LEVELS = 50
"""The depth to which externals may have externals."""

KIND = Process.kind


def compose(process: Process, imported: Mapping[str, Process]) -> Process:
    """A process with its externals imported; `imported` has them by name. Raises DefinitionError."""
    draft = process.draft
    if draft is None:
        return process
    processes = {**imported, **draft.within}
    faults = list(misdirected(process, processes))
    if faults:
        raise DefinitionError(faults)
    nodes = {id: node for external in process.externals for id, node in _copies(external, processes)}
    for node in draft.nodes:
        if node.id in nodes:
            raise DefinitionError(
                [Fault(process.path, node.line, 1, f"the name {node.id!r} is taken: {_TAKEN}")]
            )
        nodes[node.id] = msgspec.structs.replace(node)
    if len(nodes) > MAX_NODES:
        raise DefinitionError([Fault(process.path, process.line, 1, f"more than {MAX_NODES:,} nodes")])
    arcs = [arc for external in process.externals for arc in _inner_arcs(external, processes, nodes)]
    arcs += [_arc(arc, nodes) for arc in draft.arcs]
    numbered, linked = link(nodes.values(), arcs)
    xml = _whole(process, processes)
    by_id, digest = {node.id: node for node in numbered}, hashlib.sha256(xml).hexdigest()
    return msgspec.structs.replace(process, nodes=by_id, arcs=linked, digest=digest, xml=xml)


_TAKEN = "a node that is imported is called so, EXTERNAL:NAME; rename this one"


def misdirected(process: Process, processes: Mapping[str, Process]) -> Iterator[Fault]:
    """Faults for the ends of arcs at nodes that an external does not define itself."""
    for arc in process.draft.arcs if process.draft is not None else ():
        for (external, name), place in ((arc.start, arc.start_place), (arc.end, arc.end_place)):
            if external in processes and name not in (own := _own_names(processes[external])):
                there = processes[external].full_name
                message = f"expected a node that {there} itself defines, found {name!r}{closest(name, own)}"
                yield Fault(process.path, *place, message)


def _own_names(process: Process) -> list[str]:
    own = process.nodes.values() if process.draft is None else process.draft.nodes
    return [node.name for node in own if not node.external]


def _copies(external: External, processes: Mapping[str, Process]) -> Iterator[tuple[str, Node]]:
    process = processes[external.name]
    for node in process.nodes.values():
        id = f"{external.name}:{node.id}"
        cancelled = (
            process.nodes if node.cancels_all else node.cancels
        )  # all: of the process it is defined in
        copy = msgspec.structs.replace(
            node,
            id=id,
            external=(external.name, *node.external),
            external_environment={**node.external_environment, **dict(external.custom)},
            origin=node.origin or process.full_name,
            cancels=frozenset(f"{external.name}:{name}" for name in cancelled),
            cancels_all=False,
        )
        yield id, copy


def _inner_arcs(
    external: External, processes: Mapping[str, Process], nodes: Mapping[str, Node]
) -> Iterator[Arc]:
    for arc in processes[external.name].arcs:
        start, end = (nodes[f"{external.name}:{end.id}"] for end in (arc.start, arc.end))
        yield Arc(start, end, arc.name, arc.back, arc.line)


def _arc(arc: DraftArc, nodes: Mapping[str, Node]) -> Arc:
    start, end = (f"{external}:{name}" if external else name for external, name in (arc.start, arc.end))
    return Arc(nodes[start], nodes[end], arc.name, arc.back, arc.end_place[0])


def _whole(process: Process, processes: Mapping[str, Process]) -> bytes:
    """The definition with the definitions of its externals in it."""
    if not process.externals:
        return process.xml
    root = parse(process.xml)
    for child in root.iterchildren("external"):
        for old in child.iterchildren("process-definition"):
            child.remove(old)
        child.append(parse(processes[child.get("name", "").strip()].xml))
    try:
        xml = canonical(root)
        if len(xml) > MAX_BYTES:
            raise ElementError("too-large", f"more than {MAX_BYTES:,} bytes")
    except ElementError as error:
        message = f"with its externals this process is too large to be kept: {error.message}"
        raise DefinitionError([Fault(process.path, process.line, 1, message)]) from None
    return xml


# --- all of a library -------------------------------------------------------------------------------------


def compose_all(library: Library) -> tuple[Library, list[Fault]]:
    """A library whose processes are composed as far as possible, and the faults of the others.

    Missing externals are faults of references (`library.check_targets`).
    """
    drafts = [cast("Process", definition) for definition in library.of(KIND).values()]
    drafts = [draft for draft in drafts if draft.draft is not None]
    if not drafts:
        return library, []
    composer = _Composer(library)
    composed = [process for draft in drafts if (process := composer.process(draft)) is not None]
    return library.replace(composed), sorted(set(composer.faults))


class _Composer:
    """A composer of processes, each after those that it imports."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._done: dict[str, Process | None] = {}
        self._importing: list[str] = []
        self.faults: list[Fault] = []

    def process(self, draft: Process) -> Process | None:
        """The composed process; None if it has faults."""
        name = draft.full_name
        if draft.draft is None:
            return draft
        if name not in self._done:
            self._importing.append(name)
            self._done[name] = self._compose(draft)
            self._importing.pop()
        return self._done[name]

    def _compose(self, draft: Process) -> Process | None:
        imported: dict[str, Process] = {}
        whole = True
        for external in draft.externals:
            if draft.draft is not None and external.name in draft.draft.within:
                continue
            process = self._external(draft, external)
            if process is not None:
                imported[external.name] = process
            whole = whole and process is not None
        try:
            if whole:
                return compose(draft, imported)
            self.faults += misdirected(draft, imported)
        except DefinitionError as error:
            self.faults += error.faults
        return None

    def _external(self, draft: Process, external: External) -> Process | None:
        called = self._library.called(KIND, external.definition, draft.group)
        if len(called) != 1:
            return None
        inner = cast("Process", called[0])
        if inner.full_name in self._importing:
            circle = " → ".join([*self._importing[self._importing.index(inner.full_name) :], inner.full_name])
            self._fault(draft, external, f"a process cannot import itself: {circle}")
            return None
        if len(self._importing) >= MOST_LEVELS:
            self._fault(draft, external, f"externals within externals are deeper than {MOST_LEVELS} levels")
            return None
        return self.process(inner)

    def _fault(self, draft: Process, external: External, why: str) -> None:
        message = f"external {external.name!r}: {why}"
        self.faults.append(Fault(draft.path, external.line, external.column, message))
