"""The XML of processes: a `process-definition`, in the namespace of the source or in none (section 14, N13).

The texts within it, guards in Rubric and joins in JoinLang, are parsed with it. Nodes, externals and arcs are
in graph order, not in file order (section 13).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePath

from lxml import etree

from narval.core.definitions.library import Definition, Parsed
from narval.core.definitions.parsing import read_within
from narval.core.definitions.people.approvals import refer_to_approval
from narval.core.definitions.prototype import TransitionCondition
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.vocabulary import agent, full_name, seconds
from narval.core.definitions.reading.xml import Entry, Place, Reading
from narval.core.definitions.suggestions import closest
from narval.core.definitions.telling.sentence import an
from narval.core.elements.element import local_name
from narval.core.errors import DefinitionError, Fault
from narval.core.kinds import KINDS, PROCESS
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode
from narval.kinds.process.language.code import ALL_EVENTS, Code
from narval.kinds.process.language.composition import compose
from narval.kinds.process.language.definition import (
    BUILT_IN,
    Draft,
    DraftArc,
    External,
    Listening,
    MemoryGuard,
    Node,
    Process,
)
from narval.kinds.process.language.properties import misfit_of_node
from narval.kinds.process.language.rubric import results
from narval.kinds.process.language.statements import StringValue
from narval.kinds.process.language.texts import (
    Custom,
    NodeTextReader,
    arcs_in_order,
    custom_id,
    custom_of,
    in_order,
    inline_of,
)
from narval.kinds.process.language.vocabulary import WORDS


def parse(source: Source, root: XmlNode) -> Parsed:
    """The process of a file whose root is `process-definition`."""
    for node in root.walk():
        node.tag = node.tag.removeprefix(f"{{{PROCESS}}}")
    return Reading(source, WORDS).parsed(_processes, root)


def _processes(reading: Reading, root: XmlNode) -> Iterator[Definition | None]:
    """The process, and the definitions within its nodes in place of a target."""
    entry = reading.entry(root, _local_name(root))
    group = _group(reading, entry)
    if group and entry.get("name"):
        reading.names.add((Process.kind, f"{group}.{entry.get('name')}"))
    process = _ProcessBuilder(reading, entry, group).build()
    if process is not None:
        _check_nodes(reading, process)
    yield process
    for node in entry.of("node"):
        for inner in inline_of(node):
            if group and entry.get("name") and node.get("name"):
                name = f"{entry.get('name')}:{node.get('name')}"
                yield read_within(_local_name(inner), reading, inner, group, name)


def _check_nodes(reading: Reading, process: Process) -> None:
    """Record faults that were none once; runs of that time can still read their definition."""
    nodes = process.draft.nodes if process.draft is not None else process.nodes.values()
    for node in nodes:
        guard = node.guard.otherwise if isinstance(node.guard, MemoryGuard) else node.guard
        for result in results(guard) if guard is not None else ():
            if isinstance(result, StringValue):
                message = "guard: expected Accept, Discard, Skip or DELAY UNTIL, found a string function"
                reading.fault_at((result.line, result.column), message)
        if node.type in BUILT_IN:  # the class of any other type may have such properties
            for key, text in node.custom:
                if (problem := misfit_of_node(key, text)) and not (key == "timeout" and node.agent):
                    reading.fault_at(node.places.get(key, (node.line, 1)), problem)


def _local_name(node: XmlNode) -> str:
    return local_name(node.tag) or ""


def _group(reading: Reading, entry: Entry) -> str:
    """The group given in the definition, else the file's name up to its first dot."""
    if "group" in entry.written:
        return str(entry.get("group", ""))
    group = PurePath(reading.source.path).name.partition(".")[0]
    if not group or not group.isprintable():
        reading.fault(entry, f'the file\'s name gives the group {group!r}; add group="…" here')
        return ""
    return group


class _ProcessBuilder:
    """A builder of a process from its entry. Parts with faults are left out; the others are still checked."""

    def __init__(self, reading: Reading, entry: Entry, group: str) -> None:
        self._reading, self._entry, self._group = reading, entry, group
        self._externals = reading.by_name(entry.of("external"), "name")

    def build(self) -> Process | None:
        """The process; None if it has faults or lacks a required part."""
        reading, entry = self._reading, self._entry
        first_reference = len(reading.references)
        nodes = reading.by_name(entry.of("node"), "name")
        if not any(entry.of("node")):
            reading.fault(entry, 'a process needs a node; add <node name="start" isStart="true"/>')
        patterns = Patterns(reading)
        reader = _NodeReader(reading, patterns, self._group, nodes, entry.get("name", ""))
        made = tuple(reader.node(node) for node in in_order(entry.of("node")) if node.get("name"))
        externals = tuple(self._external(external) for external in in_order(self._externals.values()))
        arcs = tuple(_ArcReader(reading, nodes, self._externals).arcs(entry))
        draft = Draft(made, arcs, self._within())
        patterns.check_variables({*nodes, "process"}, "process or the name of a node")
        xml, name = reading.xml(entry, "process", {"group": self._group}, _bare), entry.get("name")
        if xml is None or not name or not self._group or reading.faults:
            return None
        process = Process(
            externals=externals,
            listeners=self._listeners(),
            custom=_pairs(_custom(reading, entry)),
            custom_id=custom_id(entry),
            draft=draft,
            group=self._group,
            name=name,
            decay=entry.get("decay"),
            **reading.version(entry, xml, first_reference),
        )
        return self._composed(process, draft)

    def _composed(self, process: Process, draft: Draft) -> Process | None:
        """The process, composed if all its externals are within it or it has none; None if that fails."""
        if len(draft.within) < len(process.externals):
            return process
        try:
            return compose(process, {}).pinned()
        except DefinitionError as error:
            self._reading.faults.extend(error.faults)
            return None

    def _external(self, entry: Entry) -> External:
        name, definition = entry.get("name", ""), entry.get("processDefinition", "")
        place = entry.place("processDefinition")
        if definition and not any(entry.of("process-definition")):
            self._reading.refer(place, Process.kind, definition, f"external {name!r}", group=self._group)
        return External(name, definition, _pairs(_custom(self._reading, entry)), *place)

    def _within(self) -> dict[str, Process]:
        """The externals that are written within this definition, as memory and the store have them."""
        within: dict[str, Process] = {}
        for name, entry in self._externals.items():
            inner = self._reading.one(entry, "process-definition")
            if inner is None:
                continue
            process = _ProcessBuilder(self._reading, inner, inner.get("group") or self._group).build()
            if process is not None and process.draft is None:
                within[name] = process
            elif process is not None:
                self._reading.fault(inner, "what is within an external must have all its externals within it")
        return within

    def _listeners(self) -> tuple[Listening, ...]:
        """The listeners to the runs; one that is named twice gets the events of both (section 3)."""
        masks: dict[str, int] = {}
        for listener in self._entry.of("listener"):
            name = listener.get("name", "")
            masks[name] = masks.get(name, 0) | listener.get("events", ALL_EVENTS)
        return tuple(Listening(name, mask) for name, mask in masks.items())


class _NodeReader:
    """A reader of the `node` entries of a process, given its group and the names of its nodes."""

    def __init__(
        self, reading: Reading, patterns: Patterns, group: str, nodes: Collection[str], process: str
    ) -> None:
        self._reading, self._patterns, self._group, self._nodes = reading, patterns, group, nodes
        self._process = process
        self._texts = NodeTextReader(reading, patterns)

    def node(self, entry: Entry) -> Node:
        """The node, and references to its type and its target."""
        texts = self._texts.texts(entry)
        custom = self._with_inline(entry, _custom(self._reading, entry))
        node = Node(
            entry.get("name"),
            entry.get("name"),
            entry.get("type") or "node",
            entry.get("joinType", "or"),
            texts.join_text,
            texts.joinlang,
            entry.get("isStart", False),
            texts.guard,
            texts.guard_text,
            self._conditions(entry),
            frozenset(self._cancelled(entry)),
            any("node" not in cancel.written for cancel in entry.of("cancel")),
            _pairs(custom),
            line=entry.node.line,
            places={part.key: part.place for part in custom},
        )
        if node.type not in BUILT_IN:
            self._refer_to_type(entry, node.type, custom)
        self._refer_to_target(entry, node, custom)
        if work := node.text_of("approve"):
            place = next(part.place for part in custom if part.key == "approve")
            refer_to_approval(self._reading, place, node.type, work, f"node {node.name!r}")
        return node

    def _with_inline(self, entry: Entry, custom: list[Custom]) -> list[Custom]:
        """The custom pairs of a node; a definition within it gives its name as the target."""
        inline = list(inline_of(entry))
        for extra in inline[1:]:
            self._reading.fault(extra, f"a node has one target, found another on line {inline[0].line}")
        if not inline:
            return custom
        word, place = _local_name(inline[0]), (inline[0].line, inline[0].column)
        others = [part for part in custom if part.key.partition(".")[0] != word]
        for part in others:
            if part.key == "target":
                self._reading.fault_at(part.place, f"this node has its {word} within it; remove one of them")
        target = f"{self._group}.{self._process}:{entry.get('name')}"
        return [*(part for part in others if part.key != "target"), Custom("target", target, place)]

    def _conditions(self, entry: Entry) -> tuple[TransitionCondition, ...]:
        for condition in entry.of("condition"):
            if entry.get("type") != "wait":
                self._reading.fault(condition, "only a node of the type wait waits for a condition")
        return self._patterns.requirements(entry)

    def _cancelled(self, entry: Entry) -> Iterator[str]:
        """The names of the nodes that a node cancels."""
        for cancel in entry.of("cancel"):
            name = cancel.get("node")
            if name and name not in self._nodes:
                hint = closest(name, self._nodes)
                self._reading.fault(cancel, f"expected the name of a node, found {name!r}{hint}", "node")
            elif name:
                yield name

    def _refer_to_target(self, entry: Entry, node: Node, custom: list[Custom]) -> None:
        """Record the target of a node, which is looked up once all files are read."""
        if node.target is None:
            return
        kind, target = node.target
        key = "graphName" if node.type == "nested" else "target"
        if not target:
            example = '<graph name="…"/>' if node.type == "nested" else f"<target>group.{kind}</target>"
            needed = f"the name of {an(kind)}: <custom>{example}</custom>"
            self._reading.fault(entry, f"a node of the type {node.type} needs {needed}")
            return
        place = next(part.place for part in custom if part.key == key)
        if node.agent:
            self._check_remote(node, kind, target, {part.key: part.place for part in custom}, place)
        elif kind != Process.kind and not re.fullmatch(r"[^\s./]+\.[^\s./]+", target):
            message = f"{key}: expected a full name, such as group.name, found {target!r}"
            self._reading.fault_at(place, message)
        else:
            group, late = self._group if kind == Process.kind else None, node.type == "nested"
            self._reading.refer(place, kind, target, f"node {node.name!r}", group=group, late=late)

    def _check_remote(
        self, node: Node, kind: str, target: str, places: Mapping[str, Place], at: Place
    ) -> None:
        """Record the faults of a call of another agent's definition."""
        if not KINDS[kind].engine:
            message = f"{kind}: another agent runs recipes, processes and automata only"
            self._reading.fault_at(at, f"{message}; let a recipe of {node.agent} call it, and call that")
        for key, text, read in (("target", target, full_name), ("agent", node.agent, agent)):
            try:
                read(text)
            except ValueError as error:
                place = places.get(key, at)
                self._reading.fault_at(place, f"{key}: expected {error.args[0]}, found {text!r}")
        if text := node.text_of("timeout"):
            try:
                seconds(text)
            except ValueError as error:
                self._reading.fault_at(
                    places["timeout"], f"timeout: expected {error.args[0]}, found {text!r}"
                )

    def _refer_to_type(self, entry: Entry, type: str, custom: list[Custom]) -> None:
        """Record that a module must have the class of a node's type, with the properties of `custom`."""
        path = self._reading.source.path

        def check(definition: Definition) -> Iterable[Fault]:
            return definition.faults(path, custom) if isinstance(definition, Code) else ()

        what = f"node {entry.get('name')!r}"
        self._reading.refer(entry.place("type"), "node-type", type, what, check, others=BUILT_IN)


class _ArcReader:
    """A reader of the `arc` entries between the named nodes and externals."""

    def __init__(self, reading: Reading, nodes: Collection[str], externals: Collection[str]) -> None:
        self._reading, self._nodes, self._externals = reading, nodes, externals

    def arcs(self, entry: Entry) -> Iterator[DraftArc]:
        """The arcs in graph order: those of nodes, then those of externals."""
        for node in in_order(entry.of("node")):
            for arc in arcs_in_order(node):
                if "from" in arc.written:
                    self._reading.fault(arc, "an arc in a node leaves that node; remove from", "from")
                yield from self._arc(("", node.get("name", "")), node.place("name"), arc)
        for external in in_order(entry.of("external")):
            for arc in arcs_in_order(external):
                if "from" not in arc.written:
                    where = f"the node of {external.get('name')!r} that it leaves"
                    self._reading.fault(arc, f'an arc in an external needs from, {where}; add from="…"')
                yield from self._arc((external.get("name", ""), arc.get("from", "")), arc.place("from"), arc)

    def _arc(self, start: tuple[str, str], place: Place, arc: Entry) -> Iterator[DraftArc]:
        external, to = arc.get("external", ""), arc.get("to")
        is_known = True
        if external and external not in self._externals:
            hint = closest(external, self._externals)
            message = f"expected the name of an external of this process, found {external!r}{hint}"
            self._reading.fault(arc, message, "external")
            is_known = False
        elif to is not None and not external and to not in self._nodes:
            hint = closest(to, self._nodes)
            self._reading.fault(arc, f"expected the name of a node, found {to!r}{hint}", "to")
            is_known = False
        if is_known and to and start[1]:
            back = arc.get("back", False)
            yield DraftArc(start, (external, to), arc.get("name", ""), back, place, arc.place("to"))


def _custom(reading: Reading, entry: Entry) -> list[Custom]:
    custom = reading.one(entry, "custom")
    return [] if custom is None else list(custom_of(custom.node))


def _pairs(custom: Iterable[Custom]) -> tuple[tuple[str, str], ...]:
    return tuple((part.key, part.raw.strip()) for part in custom)


def _bare(root: etree._Element) -> None:
    """Strip the namespace of processes: names have no namespace in memory."""
    prefixes = {prefix for element in root.iter() for prefix in element.nsmap if prefix is not None}
    for element in root.iter(f"{{{PROCESS}}}*"):
        element.tag = etree.QName(element).localname
    etree.cleanup_namespaces(root, keep_ns_prefixes=sorted(prefixes))
