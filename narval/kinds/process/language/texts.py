"""Texts in processes: custom elements, guards in Rubric or XPath, joins in JoinLang; and the order of nodes
and arcs, with the digest of a definition.

Faults point at the exact character. Custom elements are read as pairs of key and text:

<custom>                        name            text
  <size>1</size>                size            1
  <task user="pat">Call</task>  task, taskUser  Call, pat
  <inner a="b"><x>y</x></inner> inner.a         b
                                inner.x         y
</custom>
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from narval.core.definitions.reading.lexer import Locate, SyntaxFault
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.kinds import INLINE
from narval.core.patterns.pattern import Condition
from narval.core.source.xml import XmlNode
from narval.core.trust.paths import local_part
from narval.kinds.process.language import joinlang, rubric
from narval.kinds.process.language.definition import Guard, JoinType, MemoryGuard
from narval.kinds.process.language.statements import DelayUntil, Discard, If, Join, Result, Skip, StringValue
from narval.kinds.process.language.vocabulary import JOINS


class Custom(NamedTuple):
    """A key, dotted where elements are nested, the text as written, and its place."""

    key: str
    raw: str
    place: tuple[int, int]


def custom_of(node: XmlNode, prefix: str = "") -> Iterator[Custom]:
    """The pairs within a `custom` element; namespaces are left out."""
    for child in node.children:
        key = prefix + local_part(child.tag)
        if child.children:
            for name, text in child.attributes.items():
                yield Custom(f"{key}.{local_part(name)}", text, child.place(name))
            yield from custom_of(child, f"{key}.")
            continue
        if child.text.strip() or not child.attributes:
            yield Custom(key, child.text, child.text_place(len(child.text) - len(child.text.lstrip())))
        for name, text in child.attributes.items():
            local = local_part(name)
            yield Custom(f"{key}{local[:1].upper()}{local[1:]}", text, child.place(name))


def inline_of(entry: Entry) -> Iterator[XmlNode]:
    """The definitions within a node's `custom`, of the kind that its type calls."""
    kind = entry.get("type")
    for custom in entry.of("custom") if kind in INLINE else ():
        yield from (child for child in custom.node.children if local_part(child.tag) == kind)


class NodeTexts(NamedTuple):
    """The guard and the join of a node, as written and as parsed."""

    guard: Guard | None
    guard_text: str
    join_text: str
    joinlang: Join


class NodeTextReader:
    """A reader of the guards and joins of `node` entries."""

    def __init__(self, reading: Reading, patterns: Patterns) -> None:
        self._reading, self._patterns = reading, patterns

    def texts(self, entry: Entry) -> NodeTexts:
        """The guard and the join of a node."""
        text, join = self._join(entry)
        guard = self._reading.one(entry, "guard")
        if guard is None or not guard.node.text.strip():
            return NodeTexts(None, "", text, join)
        read = self._memory_guard if guard.get("type") == "xpath" else self._rubric
        return NodeTexts(read(guard), guard.node.text.strip(), text, join)

    def _rubric(self, entry: Entry) -> Guard | None:
        if "else" in entry.written:
            message = 'only a guard of type="xpath" has an else; write IF … THEN … ELSE'
            self._reading.fault(entry, message, "else")
        locate = entry.node.text_places()
        read = rubric.parse(entry.node.text, locate)
        self._report("guard", read.faults, locate)
        return read.statement

    def _memory_guard(self, entry: Entry) -> Guard | None:
        pattern = self._patterns.of_text(entry)
        otherwise: Result = Discard()
        if "else" in entry.written:
            text, locate = entry.node.attributes[entry.written["else"]], partial(entry.place, "else")
            read = rubric.parse(text, locate, (Discard, Skip, DelayUntil, StringValue))
            self._report("else", read.faults, locate)
            if isinstance(read.statement, If):
                self._reading.fault(entry, "else: expected Discard, Skip or DELAY UNTIL, found IF", "else")
            elif read.statement is not None:
                otherwise = read.statement
        return None if pattern is None else MemoryGuard(Condition((pattern,)), otherwise)

    def _join(self, entry: Entry) -> tuple[str, Join]:
        """The parameter of a node's join, and its requirements if it is JoinLang."""
        kind, reading = entry.get("joinType", "or"), self._reading
        written = reading.one(entry, "join")
        text = entry.get("joinParam", "") if written is None else written.node.text.strip()
        if written is not None and text and entry.get("joinParam", text) != text:
            reading.fault(written, "joinParam says something else; remove one of the two")
        if kind in ("joinlang", "class") and not text:
            expectation = "require all arcs" if kind == "joinlang" else "NAME"
            reading.fault(entry, f"the join {kind} needs a text; add <join>{expectation}</join>")
        elif kind == "joinlang":
            return text, self._joinlang(entry, written)
        return text, ()

    def _joinlang(self, entry: Entry, written: Entry | None) -> Join:
        text, locate = (
            (entry.node.attributes[entry.written["joinParam"]], partial(entry.place, "joinParam"))
            if written is None
            else (written.node.text, written.node.text_places())
        )
        read = joinlang.parse(text, locate)
        self._report("join", read.faults, locate)
        return read.join

    def _report(self, what: str, faults: Iterable[SyntaxFault], locate: Locate) -> None:
        for fault in faults:
            self._reading.fault_at(locate(fault.at), f"{what}: {fault.message}")


# --- graph order, and the digest of the source ----------------------------------------------------------


def order(text: str | None) -> bytes:
    """The key that sorts texts as Java does: by UTF-16 code units, None first."""
    return b"" if not text else b"\1" + text.encode("utf-16-be", "surrogatepass")


ARC = ("name", "to", "external")
EXTERNAL_ARC = ("name", "to", "from", "external")
"""The attributes by which arcs are sorted, of nodes and of externals."""


def arcs_in_order(entry: Entry) -> list[Entry]:
    """The arcs of a node or an external, in graph order."""
    names = EXTERNAL_ARC if entry.word == "external" else ARC
    return sorted(entry.of("arc"), key=lambda arc: [order(arc.get(name)) for name in names])


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Nodes, or externals, in graph order."""
    return sorted(entries, key=lambda entry: order(entry.get("name")))


def custom_id(root: Entry) -> str:
    """The SHA-1 that the source uses to see whether a definition has changed (section 13)."""
    digest = hashlib.sha1(usedforsecurity=False)
    for part in _parts(root):
        if isinstance(part, bytes):
            digest.update(part)
        elif part and part.strip():
            digest.update(part.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _parts(root: Entry) -> Iterator[str | bytes | None]:
    yield root.get("name")
    yield from _customs(root)
    for node in in_order(root.of("node")):
        join: JoinType | None = node.get("joinType")
        yield node.get("name")
        yield node.get("type")
        if join is not None:
            yield bytes([JOINS.index(join)])
        yield from (join.node.text for join in node.of("join"))
        yield from (guard.node.text for guard in node.of("guard"))
        yield bytes([node.get("isStart", False)])
        yield from _customs(node)
        yield from (arc.get(name) for arc in arcs_in_order(node) for name in ARC)
    for external in in_order(root.of("external")):
        yield external.get("name")
        yield external.get("processDefinition")
        yield from _customs(external)
        yield from (arc.get(name) for arc in arcs_in_order(external) for name in EXTERNAL_ARC)


def _customs(entry: Entry) -> Iterator[str]:
    pairs = [pair for custom in entry.of("custom") for pair in custom_of(custom.node)]
    for key, raw, _ in sorted(pairs, key=lambda pair: order(pair.key)):
        yield key
        yield raw
