"""Custom elements of processes, as pairs of key and text; and the digest of the source.

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
from typing import NamedTuple

from narval.core.definitions.reading.xml import Entry
from narval.core.kinds import INLINE
from narval.core.source.xml import XmlNode as XmlNode
from narval.kinds.process.language.definition import JoinType
from narval.kinds.process.language.vocabulary import JOINS


class Custom(NamedTuple):
    """A key, dotted where elements are nested, the text as written, and its place."""

    key: str
    raw: str
    place: tuple[int, int]


def custom_of(node: XmlNode, prefix: str = "") -> Iterator[Custom]:
    """The pairs within a `custom` element; namespaces are left out."""
    for child in node.children:
        key = prefix + _local(child.tag)
        if child.children:
            for name, text in child.attributes.items():
                yield Custom(f"{key}.{_local(name)}", text, child.place(name))
            yield from custom_of(child, f"{key}.")
            continue
        if child.text.strip() or not child.attributes:
            yield Custom(key, child.text, child.text_place(len(child.text) - len(child.text.lstrip())))
        for name, text in child.attributes.items():
            local = _local(name)
            yield Custom(f"{key}{local[:1].upper()}{local[1:]}", text, child.place(name))


def inline_of(entry: Entry) -> Iterator[XmlNode]:
    """The definitions within a node's `custom`, of the kind that its type calls."""
    kind = entry.get("type")
    for custom in entry.of("custom") if kind in INLINE else ():
        yield from (child for child in custom.node.children if _local(child.tag) == kind)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


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
