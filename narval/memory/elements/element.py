"""Element: an immutable XML tree with an id and an origin, kept as bytes (design, "Memory"; N1, N8).

The bytes are the memory; a parsed tree is a view of them, made when somebody looks. Whatever enters memory
passes `canonical` first, so every element in memory is well formed, bounded, and free of DTD and entities.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from lxml import etree

from narval.errors import ElementError
from narval.memory.flat import canonical_flat, flat_attributes, flat_name, flat_values

MAX_BYTES = 16 * 1024 * 1024
"""An element larger than this (in bytes of XML) is refused: keep it as a file and refer to it."""

MAX_DEPTH = 256
"""Levels of nesting; what is deeper is refused."""

BYTES_A_NODE = 4
"""No element or attribute is shorter."""

CONTROL = "http://www.logilab.org/namespaces/Narval/1.2"
"""The control namespace of N6; narval reads its own words with it and without it."""

SIGNAL = "signal"
"""The name of the element that says what someone said to a run (`narval signal`)."""

_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
_TRUSTED = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
_DECLARATION = re.compile(
    rb"""<\?xml\b[^>]*?(?:encoding\s*=\s*["'](?P<encoding>[A-Za-z0-9._:-]+)["'][^>]*?)?\?>"""
)
_BARE_NAME = re.compile(rb"<([A-Za-z_][A-Za-z0-9_.-]*)(?![^>]*xmlns)[\s/>]")
"""A root without a namespace: its name is known without parsing."""
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PLACE = re.compile(r",? line \d+, column \d+\s*$")


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where an element comes from (N8): the run, step and call that made it, the eids it was made from.

    Of what was dropped into the inbox `run` is 0, and `step` the path of the file.
    """

    run: int
    step: str = ""
    call: str = ""
    inputs: tuple[int, ...] = ()


class Element(msgspec.Struct, eq=False, gc=False):
    """One element of memory: never altered; a new version is a new element that outdates this one (N1).

    `eid` is its number (0: not in memory yet), `xml` its bytes (UTF-8, no declaration, no eid attribute),
    `added` the moment it arrived (seconds since 1970, UTC), `origin` who made it (None: from outside).
    """

    eid: int
    xml: bytes
    added: float = 0.0
    origin: Origin | None = None
    _name: str | None = None

    @property
    def name(self) -> str:
        """The root's name; in `{namespace}local` form when it has a namespace."""
        if self._name is None:
            self._name = flat_name(self.xml) or _name_in(self.xml)
        return self._name

    @property
    def attributes(self) -> dict[str, str]:
        """The root's attributes, `eid` included once the element is in memory."""
        flat = flat_attributes(self.xml)
        if flat is None:
            return {str(key): str(value) for key, value in self.tree().attrib.items()}
        if self.eid:
            flat["eid"] = str(self.eid)
        return flat

    @property
    def text(self) -> str:
        """All text within the element, joined."""
        return "".join(str(part) for part in parse(self.xml).itertext())

    @property
    def addressed(self) -> bool:
        """Whether it was said to one run, and is no other's business: a signal that no step produced."""
        return self.origin is not None and not self.origin.step and self.name == SIGNAL

    def tree(self) -> etree._Element:
        """A fresh lxml copy: altering it alters nothing else."""
        root = parse(self.xml)
        if self.eid:
            root.set("eid", str(self.eid))
        return root

    def xpath(self, expression: str) -> Any:
        """What an XPath 1.0 expression selects, as lxml gives it; the element is the only child of its
        context node, as in a pattern: `element.xpath("email/@subject")`.
        """
        return Tree(self).context.xpath(expression)

    def with_eid(self) -> bytes:
        """The bytes with the `eid` attribute set, as people are shown them."""
        return etree.tostring(self.tree(), encoding="utf-8")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Element):
            return NotImplemented
        return self.eid == other.eid and self.xml == other.xml

    def __hash__(self) -> int:
        return hash((self.eid, self.xml))

    def __repr__(self) -> str:
        shown = self.xml[:60].decode("utf-8", "replace")
        return f"<Element {self.eid}: {shown}{'…' if len(self.xml) > 60 else ''}>"


class Tree:
    """An element as patterns see it: `root`, and `context`, a `memory` node whose only child that is (N9).

    It is parsed when need be: of an element without content, `get` knows the attributes from the bytes.
    Belongs to the thread that made it.
    """

    __slots__ = ("_context", "_element", "_flat", "size")

    def __init__(self, element: Element) -> None:
        self._element = element
        self._context: etree._Element | None = None
        self._flat = flat_values(element.xml)
        self.size = len(element.xml)

    @property
    def name(self) -> str:
        """The root's name; in `{namespace}local` form when it has a namespace."""
        return self._element._name or self._element.name

    def get(self, name: str) -> str | None:
        """The value of an attribute of the root, `eid` included; None when it has none."""
        if self._flat is None:
            return self.root.get(name)
        places, values = self._flat
        place = places.get(name)
        if place is not None:
            return values[place]
        return str(self._element.eid) if name == "eid" and self._element.eid else None

    @property
    def root(self) -> etree._Element:
        """The element itself."""
        root: etree._Element = self.context[0]
        return root

    @property
    def context(self) -> etree._Element:
        """The node that expressions are evaluated at."""
        context = self._context
        if context is None:
            element = self._element
            context = self._context = etree.fromstring(b"<memory>" + element.xml + b"</memory>", _TRUSTED)
            if element.eid:
                context[0].set("eid", str(element.eid))
        return context

    def has_more_nodes(self, most: int) -> bool:
        """Whether there are more elements and attributes in it than so many."""
        if self.size <= BYTES_A_NODE * most:
            return False
        counted = 0
        for node in self.root.iter("*"):
            counted += 1 + len(node.attrib)
            if counted > most:
                return True
        return False


class Trees:
    """The trees looked at last, so that an element tried by many patterns is parsed once; bounded.

    They are in two halves. What is asked for comes into the newer; when that is full it becomes the older,
    and what nobody asked for since goes as a whole. So keeping a tree costs no more than putting it there.
    """

    def __init__(self, most: int = 1024, most_bytes: int = 8 * 1024 * 1024) -> None:
        self._most, self._most_bytes = max(1, most // 2), most_bytes // 2
        self._newer: dict[int, Tree] = {}
        self._older: dict[int, Tree] = {}
        self._bytes = 0
        """How many bytes of XML came into the newer half."""

    def of(self, element: Element) -> Tree:
        """The element's tree; an element without an eid is parsed each time."""
        eid = element.eid
        tree = self._newer.get(eid)
        if tree is not None:
            return tree
        tree = self._older.pop(eid, None) or Tree(element)
        if eid and tree.size * 4 <= self._most_bytes:
            if len(self._newer) >= self._most or self._bytes + tree.size > self._most_bytes:
                self._newer, self._older, self._bytes = {}, self._newer, 0
            self._newer[eid] = tree
            self._bytes += tree.size
        return tree

    def drop(self, eid: int) -> None:
        """Forget one tree, because its element changed or is gone."""
        self._newer.pop(eid, None)
        self._older.pop(eid, None)


def _name_in(xml: bytes) -> str:
    bare = _BARE_NAME.match(xml)
    return bare[1].decode("ascii") if bare is not None else str(parse(xml).tag)


def parse(xml: bytes) -> etree._Element:
    """The root of trusted bytes: those of an element in memory."""
    return etree.fromstring(xml, _TRUSTED)


def canonical(source: str | bytes | etree._Element) -> bytes:
    """The bytes under which an element is kept: UTF-8, one root, no declaration, no eid (N1, N6).

    Raises ElementError for what is malformed (with line and column), too large, too deep, or has a DOCTYPE.
    """
    if isinstance(source, etree._Element):
        _check_tree(source)
        return _kept_bytes(source)
    flat = canonical_flat(source)
    if flat is not None:
        return flat
    return _kept_bytes(parse_untrusted(_encoded(source), text=isinstance(source, str)))


def parse_untrusted(data: bytes, *, text: bool = False) -> etree._Element:
    """The root of bytes from anywhere; `text` says that an encoding declaration does not apply.

    Raises ElementError.
    """
    if len(data) > MAX_BYTES:
        raise ElementError(
            "too-large",
            f"expected at most {MAX_BYTES:,} bytes of XML, got {len(data):,}; "
            "keep it as a file and refer to it by its path",
        )
    if not data.startswith(_WIDE):
        data = data.strip()
    try:
        root = etree.fromstring(_utf8(data, text=text), _PARSER)
    except etree.XMLSyntaxError as error:
        raise _refusal(error) from None
    except ValueError as error:
        raise ElementError("malformed", f"not well-formed XML: {error}") from None
    if root.getroottree().docinfo.doctype:
        raise ElementError("doctype", "a DOCTYPE is not accepted: remove it and write its entities out")
    return root


def _utf8(data: bytes, *, text: bool) -> bytes:
    """The bytes as UTF-8 without a declaration, where a declaration says that they are something else."""
    declared = _DECLARATION.match(data)
    if declared is None:
        return data
    if text:
        return data[declared.end() :]
    if declared["encoding"] is None:
        return data
    encoding = declared["encoding"].decode("ascii")
    try:
        return data[declared.end() :].decode(codecs.lookup(encoding).name).encode("utf-8")
    except LookupError:
        raise ElementError("malformed", f"unknown encoding {encoding!r}; write the file as UTF-8") from None


def children(root: etree._Element) -> list[etree._Element]:
    """The element children, comments and processing instructions left out."""
    return [child for child in root if isinstance(child.tag, str)]


def local_name(tag: object) -> str | None:
    """The name of one of narval's own words: bare, or in the control namespace (N6); None for any other."""
    if not isinstance(tag, str):
        return None
    if not tag.startswith("{"):
        return tag
    namespace, _, local = tag[1:].partition("}")
    return local if namespace == CONTROL else None


def elements_of(data: str | bytes) -> list[bytes]:
    """The elements a file or message holds: the root, or each child of a root `memory` (surfaces, `add`).

    Raises ElementError.
    """
    flat = canonical_flat(data)
    if flat is not None and not flat.startswith(b"<memory"):
        return [flat]
    root = parse_untrusted(_encoded(data), text=isinstance(data, str))
    roots: Iterable[etree._Element] = children(root) if local_name(root.tag) == "memory" else [root]
    return [_kept_bytes(each) for each in roots]


def _encoded(data: str | bytes) -> bytes:
    if not isinstance(data, str):
        return bytes(data)
    try:
        return data.encode("utf-8")
    except UnicodeEncodeError as error:
        line = data.count("\n", 0, error.start) + 1
        column = error.start - data.rfind("\n", 0, error.start)
        raise ElementError("malformed", "half of a surrogate pair is no character", line, column) from None


def _check_tree(root: etree._Element) -> None:
    """A tree made by a program is held to what a parsed one is: an element, not too deep, no entities."""
    if not isinstance(root.tag, str):
        raise ElementError("malformed", "expected an element, got a comment or an instruction")
    if next(root.iter(etree.Entity), None) is not None:
        raise ElementError("doctype", "entities other than the five of XML are not accepted")
    depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if depth > MAX_DEPTH:
            raise ElementError("too-deep", f"nested deeper than {MAX_DEPTH} levels")


def _kept_bytes(root: etree._Element) -> bytes:
    if root.get("eid") is not None:
        root.attrib.pop("eid")
    try:
        data: bytes = etree.tostring(root, encoding="utf-8", with_tail=False)
    except (etree.SerialisationError, ValueError) as error:
        raise ElementError("malformed", f"cannot be written as XML: {error}") from None
    if len(data) > MAX_BYTES:
        raise ElementError("too-large", f"expected at most {MAX_BYTES:,} bytes of XML, got {len(data):,}")
    return data


def _refusal(error: etree.XMLSyntaxError) -> ElementError:
    line, column = error.position if error.position else (1, 1)
    message = _PLACE.sub("", str(error.msg or error)).strip()
    lowered = message.lower()
    if "depth" in lowered:
        kind, message = "too-deep", f"nested deeper than {MAX_DEPTH} levels"
    elif "huge" in lowered or "too long" in lowered or "too large" in lowered:
        kind, message = "too-large", "a text or attribute is longer than 10,000,000 bytes; keep it as a file"
    elif "entity" in lowered:
        kind, message = "doctype", f"{message}; entities other than the five of XML are not accepted"
    else:
        kind = "malformed"
    if kind == "malformed":
        message = f"not well-formed XML: {message}"
    return ElementError(kind, message, line, column)
