"""Element: an immutable XML tree with an id and an origin, kept as bytes (design, "Memory"; N1, N8).

The bytes are the memory; a parsed tree is a view of them, made on demand. Every element passes `canonical` on
its way in, so elements in memory are well formed, bounded, and free of DTD and entities.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
from lxml import etree

from narval.core.elements.flat_xml import CONTROL as CONTROL
from narval.core.elements.flat_xml import flat_attributes, flat_name, flat_values
from narval.core.errors import UnreadableError

PREFIXES = {"al": CONTROL}
"""The prefixes available to every pattern."""

SIGNAL = "signal"
"""The root name of an element sent to a run by `narval signal`."""

DOUBTFUL = f"{{{CONTROL}}}doubtful"
"""The attribute that patterns see on the root of a doubtful element (docs/reference/patterns.md)."""

_BYTES_A_NODE = 4
"""The minimum size of an element or attribute."""
_TRUSTED = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
_BARE_NAME = re.compile(rb"<([A-Za-z_][A-Za-z0-9_.-]*)(?![^>]*xmlns(?!:al=))[\s/>]")
"""The start of a root without a namespace, whose name is known without parsing; the prefix of stamps may be
declared.
"""


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The origin of an element (N8): who or what made it, and from what."""

    run: int = 0
    """The run that made it; 0 if none did, as for an element from the inbox."""
    step: str = ""
    """The step of the run, or the path of the file."""
    call: str = ""
    """The call that returned it."""
    inputs: tuple[int, ...] = ()
    """The eids it was made from."""
    by: str = ""
    """The person who added, started or signalled."""
    actor: str = ""
    """The person who acted in that person's name."""
    agent: str = ""
    """The agent that sent it, if it came as a message."""
    message: str = ""
    """The id of the message."""
    way: str = ""
    """`web` if it came by the monitor."""
    session: str = ""
    """The number of the login there."""
    sent_as: tuple[int, ...] = ()
    """Its eid at the sending agent, if it was in memory there."""
    made_there: tuple[int, ...] = ()
    """The eids that it was made from at the sending agent, if it was never in memory there."""
    replaces: tuple[int, ...] = ()
    """The eids among `inputs` that it replaced and that no longer count."""
    came_from: tuple[str, ...] = ()
    """The elements from which it came in there, each as its root with only the attributes; () if unknown."""


class Attributes(dict[str, str]):
    """The attributes of an element, which cannot be altered. A copy is a plain `dict`, which can."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the attributes of an element cannot be altered: return a new element instead")

    __setitem__ = __delitem__ = __ior__ = _refuse
    pop = popitem = update = setdefault = clear = _refuse

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        return dict, (dict(self),)


class Element(msgspec.Struct, eq=False, gc=False):
    """One element of memory: a new version is a new element that outdates this one.

    It is altered only once, when it enters memory and gets its number, moment and origin.

    `eid` is its number (0: not in memory yet), `xml` its XML as `bytes`, not `str` (UTF-8, no declaration, no
    eid attribute; `xml.decode()` is the text), `added` the moment it arrived (seconds since 1970, UTC),
    `origin` its maker (None: from outside).
    """

    eid: int
    xml: bytes
    added: float = 0.0
    origin: Origin | None = None
    _name: str | None = None

    def enter(self, eid: int, added: float, origin: Origin | None) -> None:
        """Enter memory, with a number, moment and origin."""
        self.eid, self.added, self.origin = eid, added, origin

    @property
    def name(self) -> str:
        """The root's name; in `{namespace}local` form if it has a namespace."""
        if self._name is None:
            self._name = flat_name(self.xml) or _name_in(self.xml)
        return self._name

    @property
    def attributes(self) -> Mapping[str, str]:
        """The root's attributes, including `eid` once the element is in memory; read-only."""
        flat = flat_attributes(self.xml)
        if flat is None:
            return Attributes({str(key): str(value) for key, value in self.tree().attrib.items()})
        if self.eid:
            flat["eid"] = str(self.eid)
        return Attributes(flat)

    @property
    def text(self) -> str:
        """All text within the element, joined."""
        return text_within(parse(self.xml))

    @property
    def addressed(self) -> bool:
        """True for a signal sent to one run, which only the context of that run holds."""
        origin = self.origin
        return origin is not None and origin.run != 0 and not origin.step and self.name == SIGNAL

    def tree(self) -> etree._Element:
        """A fresh lxml copy: altering it does not affect the element."""
        root = parse(self.xml)
        if self.eid:
            root.set("eid", str(self.eid))
        return root

    @property
    def sender(self) -> str:
        """The name of the agent that sent it as a message, or returned it from a call; "" for any other
        element.
        """
        return self.origin.agent if self.origin is not None else ""

    def select(self, expression: str) -> Any:
        """The result of an XPath 1.0 expression from the root of the element, as lxml gives it:
        `element.select("@subject")`, `element.select("item/@price")`. Prefixes: `al` is that of `al:from`.
        """
        return self.tree().xpath(expression, namespaces=PREFIXES)

    def xpath(self, expression: str) -> Any:
        """The result of an XPath 1.0 expression from above the element, as in a pattern, as lxml gives it:
        `element.xpath("email/@subject")`. `select` counts from the element itself.
        """
        return Tree(self).context.xpath(expression)

    def with_eid(self) -> bytes:
        """The bytes with the `eid` attribute set, for people."""
        return etree.tostring(self.tree(), encoding="utf-8")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Element):
            return NotImplemented
        return self.eid == other.eid and self.xml == other.xml

    def __hash__(self) -> int:
        return hash((self.eid, self.xml))

    def __repr__(self) -> str:
        excerpt = self.xml[:60].decode("utf-8", "replace")
        return f"<Element {self.eid}: {excerpt}{'…' if len(self.xml) > 60 else ''}>"


class Tree:
    """An element as patterns see it: `root`, the only child of `context`, a `memory` node.

    Parsed on demand: `get` reads attributes from the bytes if they are written plainly. A `doubtful` one has
    the attribute `DOUBTFUL`. A tree belongs to the thread that made it.
    """

    __slots__ = ("_context", "_doubtful", "_element", "_flat", "size")

    def __init__(self, element: Element, doubtful: bool = False) -> None:
        self._element = element
        self._context: etree._Element | None = None
        self._doubtful = doubtful
        self._flat = flat_values(element.xml) if not doubtful else None
        self.size = len(element.xml)

    @property
    def name(self) -> str:
        """The root's name; in `{namespace}local` form if it has a namespace."""
        return self._element._name or self._element.name

    def get(self, name: str) -> str | None:
        """The value of an attribute of the root, including `eid`; None if it is absent."""
        if self._flat is None:
            return self.root.get(name)
        positions, values = self._flat
        position = positions.get(name)
        if position is not None:
            return values[position]
        return str(self._element.eid) if name == "eid" and self._element.eid else None

    @property
    def root(self) -> etree._Element:
        """The node of the element itself."""
        root: etree._Element = self.context[0]
        return root

    @property
    def context(self) -> etree._Element:
        """The node on which expressions are evaluated."""
        context = self._context
        if context is None:
            element = self._element
            context = self._context = etree.fromstring(b"<memory>" + element.xml + b"</memory>", _TRUSTED)
            if element.eid:
                context[0].set("eid", str(element.eid))
            if self._doubtful:
                context[0].set(DOUBTFUL, "yes")
        return context

    def has_more_nodes(self, most: int) -> bool:
        """True if the tree has more than `most` elements and attributes."""
        if self.size <= _BYTES_A_NODE * most:
            return False
        counted = 0
        for node in self.root.iter("*"):
            counted += 1 + len(node.attrib)
            if counted > most:
                return True
        return False


def _name_in(xml: bytes) -> str:
    bare = _BARE_NAME.match(xml)
    return bare[1].decode("ascii") if bare is not None else str(parse(xml).tag)


def parse(xml: bytes) -> etree._Element:
    """The root of trusted bytes: those of an element in memory.

    Raises UnreadableError if they come from a damaged store.
    """
    try:
        return etree.fromstring(xml, _TRUSTED)
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from None
        raise UnreadableError(
            f"an element cannot be read: {error}; the store is damaged: put back a backup "
            "(docs/reference/store.md)"
        ) from None


def identity(element: Element) -> tuple[str, str] | None:
    """The root name of a declared element and its `key`, else its `name`; None if it has neither."""
    attributes = element.attributes
    key = attributes.get("key") or attributes.get("name")
    return (element.name, key) if key else None


def children(root: etree._Element) -> list[etree._Element]:
    """The element children, without comments and processing instructions."""
    return [child for child in root if isinstance(child.tag, str)]


def text_within(node: etree._Element) -> str:
    """All text within a node, such as one of an element's `tree()`, joined."""
    return "".join(map(str, node.itertext()))


def local_name(tag: object) -> str | None:
    """The name of one of narval's own words: bare, or in the control namespace; None for any other name."""
    if not isinstance(tag, str):
        return None
    if not tag.startswith("{"):
        return tag
    namespace, _, local = tag[1:].partition("}")
    return local if namespace == CONTROL else None
