"""The XML of processes: a `process-definition`, in the namespace of the source or in none (section 14, N13).

The texts within it, guards in Rubric and joins in JoinLang, are parsed with it, and each of their faults is
at its very character. Nodes, externals and arcs are in graph order, not in that of the file (section 13).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import NamedTuple

import msgspec
from lxml import etree

from narval.definitions.kinds import PROCESS
from narval.definitions.library import Definition, Parsed, Reference
from narval.definitions.process import joinlang, rubric
from narval.definitions.process.code import ALL_EVENTS, Code
from narval.definitions.process.composition import compose, pinned, reference_to
from narval.definitions.process.custom import Custom, arcs_in_order, custom_id, custom_of, in_order
from narval.definitions.process.definition import (
    BUILT_IN,
    Draft,
    External,
    Guard,
    Listening,
    MemoryGuard,
    Node,
    Process,
    Way,
)
from narval.definitions.process.statements import DelayUntil, Discard, If, Join, Result, Skip
from narval.definitions.process.vocabulary import WORDS
from narval.definitions.reading.xml import Entry, Reading, TooManyFaultsError
from narval.definitions.requirements import TransitionCondition
from narval.definitions.suggestions import closest
from narval.errors import DefinitionError, ElementError, Fault
from narval.memory.elements.canonical import canonical, parse_untrusted
from narval.memory.elements.element import local_name
from narval.memory.patterns.pattern import Condition
from narval.source.text import Source
from narval.source.xml import XmlNode as XmlNode


def parse(source: Source, root: XmlNode) -> Parsed:
    """The process of a file whose root is `process-definition`."""
    for each in root.walk():
        each.tag = each.tag.removeprefix(f"{{{PROCESS}}}")
    found = Reading(source, WORDS)
    references: list[Reference] = []
    process: Process | None = None
    names: frozenset[tuple[str, str]] = frozenset()
    with suppress(TooManyFaultsError):
        entry = found.entry(root, local_name(root.tag) or "")
        builder = _ProcessBuilder(found, entry, _group(found, entry))
        if builder.group and entry.get("name"):
            names = frozenset({("process", f"{builder.group}.{entry.get('name')}")})
        process = builder.build()
        references = builder.references
    definitions = () if process is None else (process,)
    return Parsed(definitions, tuple(references), tuple(sorted(set(found.faults))), names)


def _group(found: Reading, entry: Entry) -> str:
    """The group: as the definition says, else as the file is called, up to its first dot."""
    if "group" in entry.written:
        return str(entry.get("group", ""))
    group = PurePath(found.source.path).name.partition(".")[0]
    if not group or not group.isprintable():
        found.fault(entry, f'the file\'s name gives the group {group!r}; add group="…" here')
        return ""
    return group


class _Texts(NamedTuple):
    """A node's guard and join, as they are written and as they are understood."""

    guard: Guard | None
    guard_text: str
    join_text: str
    joinlang: Join


class _ProcessBuilder:
    """Makes a process of its entry; a part with a fault is left out, the others are checked anyway."""

    def __init__(self, found: Reading, entry: Entry, group: str) -> None:
        self._found, self._entry, self.group = found, entry, group
        self._nodes = self._by_name(entry.of("node"))
        self._externals = self._by_name(entry.of("external"))
        self.references: list[Reference] = []

    def build(self) -> Process | None:
        """The process; None when it lacks what makes it one."""
        found, entry = self._found, self._entry
        if not any(entry.of("node")):
            found.fault(entry, 'a process needs a node; add <node name="start" isStart="true"/>')
        patterns = len(found.patterns)
        nodes = [self._node(each) for each in in_order(entry.of("node")) if each.get("name")]
        externals = tuple(self._external(each) for each in in_order(self._externals.values()))
        draft = Draft(tuple(nodes), tuple(self._ways()), self._within())
        found.check_variables({*self._nodes, "process"}, "process or the name of a node", patterns)
        custom = tuple((each.key, each.raw.strip()) for each in self._custom(entry))
        xml, name = self._alone(), entry.get("name")
        if xml is None or not name or not self.group or found.faults:
            return None
        process = Process(
            self.group,
            name,
            {},
            (),
            externals,
            self._listeners(),
            custom,
            custom_id=custom_id(entry),
            decay=entry.get("decay"),
            descriptions=found.descriptions(entry),
            references=tuple(self.references),
            digest=hashlib.sha256(xml).hexdigest(),
            xml=xml,
            path=found.source.path,
            line=entry.node.line,
            draft=draft,
        )
        return self._composed(process, draft)

    def _composed(self, process: Process, draft: Draft) -> Process | None:
        """The process, whole if it has all of its externals within it or none at all."""
        if len(draft.within) < len(process.externals):
            return process
        try:
            return pinned(compose(process, {}))
        except DefinitionError as error:
            self._found.faults.extend(error.faults)
            return None

    def _by_name(self, entries: Iterable[Entry]) -> dict[str, Entry]:
        first: dict[str, Entry] = {}
        for each in entries:
            name = each.get("name")
            if name in first:
                line = first[name].node.line
                message = f"expected a new {each.word} name, found {name!r} of line {line} again"
                self._found.fault(each, message, "name")
            elif name is not None:
                first[name] = each
        return first

    # --- nodes ------------------------------------------------------------------------------------------

    def _node(self, entry: Entry) -> Node:
        texts = self._texts(entry)
        custom = self._custom(entry)
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
            tuple((each.key, each.raw.strip()) for each in custom),
            line=entry.node.line,
            places={each.key: each.place for each in custom},
        )
        self._refer(entry, node, custom)
        return node

    def _custom(self, entry: Entry) -> list[Custom]:
        custom = self._found.one(entry, "custom")
        return [] if custom is None else list(custom_of(custom.node))

    def _conditions(self, entry: Entry) -> tuple[TransitionCondition, ...]:
        conditions = []
        for each in entry.of("condition"):
            if entry.get("type") != "wait":
                self._found.fault(each, "only a node of the type wait waits for a condition")
            condition = self._found.conditions(each)
            if condition is not None:
                conditions.append(TransitionCondition(condition, each.get("use", False)))
        return tuple(conditions)

    def _refer(self, entry: Entry, node: Node, custom: list[Custom]) -> None:
        """Note what the node calls, to be looked for once all files are read."""
        if node.type not in BUILT_IN:
            self._refer_to_type(entry, node.type, custom)
        if node.target is None:
            return
        kind, target = node.target
        key = "graphName" if node.type == "nested" else "target"
        if not target:
            example = '<graph name="…"/>' if node.type == "nested" else f"<target>group.{kind}</target>"
            message = f"a node of the type {node.type} needs the name of a {kind}: <custom>{example}</custom>"
            self._found.fault(entry, message)
            return
        line, column = next(each.place for each in custom if each.key == key)
        if kind != "process" and not re.fullmatch(r"[^\s./]+\.[^\s./]+", target):
            message = f"{key}: expected a full name, such as group.name, found {target!r}"
            self._found.fault_at((line, column), message)
        elif node.type != "nested":  # which is looked for when it runs (section 9)
            what, path = f"node {node.name!r}", self._found.source.path
            group = self.group if kind == "process" else None
            self.references.append(Reference(kind, target, what, path, line, column, group=group))

    def _refer_to_type(self, entry: Entry, type: str, custom: list[Custom]) -> None:
        """That the class of a node's type, if there is one, must have the properties that `custom` names."""
        path = self._found.source.path
        given = [(key, raw, *place) for key, raw, place in custom]

        def check(found: Definition) -> Iterable[Fault]:
            return found.faults(path, given) if isinstance(found, Code) else ()

        line, column = entry.place("type")
        reference = Reference("node-type", type, f"node {entry.get('name')!r}", path, line, column, check)
        self.references.append(msgspec.structs.replace(reference, optional=True))

    # --- guards and joins -------------------------------------------------------------------------------

    def _texts(self, entry: Entry) -> _Texts:
        text, join = self._join(entry)
        guard = self._found.one(entry, "guard")
        if guard is None or not guard.node.text.strip():
            return _Texts(None, "", text, join)
        read = self._memory_guard if guard.get("type") == "xpath" else self._rubric
        return _Texts(read(guard), guard.node.text.strip(), text, join)

    def _rubric(self, entry: Entry) -> Guard | None:
        if "else" in entry.written:
            message = 'only a guard of type="xpath" has an else; write IF … THEN … ELSE'
            self._found.fault(entry, message, "else")
        locate = entry.node.text_places()
        read = rubric.parse(entry.node.text, locate)
        for slip in read.slips:
            self._found.fault_at(locate(slip.at), f"guard: {slip.message}")
        return read.statement

    def _memory_guard(self, entry: Entry) -> Guard | None:
        pattern = self._found.text_pattern(entry)
        otherwise: Result = Discard()
        if "else" in entry.written:
            text = entry.node.attributes[entry.written["else"]]
            read = rubric.parse(text, lambda at: entry.place("else", at), (Discard, Skip, DelayUntil))
            for slip in read.slips:
                self._found.fault(entry, f"else: {slip.message}", "else", slip.at)
            if isinstance(read.statement, If):
                self._found.fault(entry, "else: expected Discard, Skip or DELAY UNTIL, found IF", "else")
            elif read.statement is not None:
                otherwise = read.statement
        return None if pattern is None else MemoryGuard(Condition((pattern,)), otherwise)

    def _join(self, entry: Entry) -> tuple[str, Join]:
        """The parameter of a node's join, and what it says where it is JoinLang."""
        kind, found = entry.get("joinType", "or"), self._found
        written = found.one(entry, "join")
        text = entry.get("joinParam", "") if written is None else written.node.text.strip()
        if written is not None and text and entry.get("joinParam", text) != text:
            found.fault(written, "joinParam says something else; remove one of the two")
        if kind in ("joinlang", "class") and not text:
            wanted = "require all arcs" if kind == "joinlang" else "NAME"
            found.fault(entry, f"the join {kind} needs a text; add <join>{wanted}</join>")
        elif kind == "joinlang":
            return text, self._joinlang(entry, written)
        return text, ()

    def _joinlang(self, entry: Entry, written: Entry | None) -> Join:
        if written is None:
            text = entry.node.attributes[entry.written["joinParam"]]
            read = joinlang.parse(text, lambda at: entry.place("joinParam", at))
            for slip in read.slips:
                self._found.fault(entry, f"join: {slip.message}", "joinParam", slip.at)
            return read.join
        locate = written.node.text_places()
        read = joinlang.parse(written.node.text, locate)
        for slip in read.slips:
            self._found.fault_at(locate(slip.at), f"join: {slip.message}")
        return read.join

    # --- arcs and externals -----------------------------------------------------------------------------

    def _ways(self) -> Iterator[Way]:
        """The arcs in graph order: those that nodes have, then those that externals have."""
        for node in in_order(self._entry.of("node")):
            for arc in arcs_in_order(node):
                if "from" in arc.written:
                    self._found.fault(arc, "an arc in a node leaves that node; remove from", "from")
                yield from self._way(("", node.get("name", "")), node.place("name"), arc)
        for external in in_order(self._entry.of("external")):
            for arc in arcs_in_order(external):
                if "from" not in arc.written:
                    where = f"the node of {external.get('name')!r} that it leaves"
                    self._found.fault(arc, f'an arc in an external needs from, {where}; add from="…"')
                yield from self._way((external.get("name", ""), arc.get("from", "")), arc.place("from"), arc)

    def _way(self, start: tuple[str, str], place: tuple[int, int], arc: Entry) -> Iterator[Way]:
        external, to = arc.get("external", ""), arc.get("to")
        known = True
        if external and external not in self._externals:
            hint = closest(external, self._externals)
            message = f"expected the name of an external of this process, found {external!r}{hint}"
            self._found.fault(arc, message, "external")
            known = False
        elif to is not None and not external and to not in self._nodes:
            hint = closest(to, self._nodes)
            self._found.fault(arc, f"expected the name of a node, found {to!r}{hint}", "to")
            known = False
        if known and to and start[1]:
            yield Way(start, (external, to), arc.get("name", ""), place, arc.place("to"))

    def _external(self, entry: Entry) -> External:
        custom = tuple((each.key, each.raw.strip()) for each in self._custom(entry))
        name, definition = entry.get("name", ""), entry.get("processDefinition", "")
        external = External(name, definition, custom, *entry.place("processDefinition"))
        if definition and not any(entry.of("process-definition")):
            self.references.append(reference_to(external, self.group, self._found.source.path))
        return external

    def _within(self) -> dict[str, Process]:
        """The externals that are written within this definition, as memory and the store have them."""
        within: dict[str, Process] = {}
        for name, entry in self._externals.items():
            inner = self._found.one(entry, "process-definition")
            if inner is None:
                continue
            builder = _ProcessBuilder(self._found, inner, inner.get("group") or self.group)
            process = builder.build()
            self.references += builder.references
            if process is not None and process.draft is None:
                within[name] = process
            elif process is not None:
                self._found.fault(inner, "what is within an external must have all its externals within it")
        return within

    # --- the whole --------------------------------------------------------------------------------------

    def _listeners(self) -> tuple[Listening, ...]:
        """Who hears of the runs; one that is named again hears of the events of both (section 3)."""
        masks: dict[str, int] = {}
        for each in self._entry.of("listener"):
            name = each.get("name", "")
            masks[name] = masks.get(name, 0) | each.get("events", ALL_EVENTS)
        return tuple(Listening(name, mask) for name, mask in masks.items())

    def _alone(self) -> bytes | None:
        """The definition's bytes as a file of its own would have them, its words bare as all in memory."""
        try:
            root = parse_untrusted(self._entry.node.xml(all_namespaces=True))
            prefixes = {prefix for each in root.iter() for prefix in each.nsmap if prefix is not None}
            for each in root.iter(f"{{{PROCESS}}}*"):
                each.tag = etree.QName(each).localname
            etree.cleanup_namespaces(root, keep_ns_prefixes=sorted(prefixes))
            root.set("group", self.group)
            return canonical(root)
        except ElementError as error:
            self._found.fault(self._entry, f"this process cannot be kept in memory: {error.message}")
            return None
