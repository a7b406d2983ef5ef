"""Reading of XML definitions by a table of words: entries, references, faults (N6, N12, N13).

`Reading` turns nodes into entries, whose attributes have been read and whose children are known words; the
parser of a kind makes definitions from entries and checks what no table can express. A fault never stops the
reading: all the faults of a file are found at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from lxml import etree

from narval.core.definitions.library import Check, Definition, Parsed, Reference
from narval.core.definitions.reading.vocabulary import PartError, Words
from narval.core.definitions.suggestions import closest
from narval.core.elements.canonical import canonical, parse_untrusted
from narval.core.elements.element import local_name
from narval.core.errors import ElementError, Fault
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode

MOST_FAULTS = 200
"""The most faults of a file; reading stops there."""

_FEW = 2
"""The most words suggested for an attribute that the current word does not have."""

INTERNAL = frozenset({"eid", "state"})
"""Attributes set by memory (tables 2.3-2.5): they may occur in a file and are ignored there."""

Place = tuple[int, int]
"""A line and column."""

Named = TypeVar("Named")
Made = TypeVar("Made")


class Entry:
    """An element of narval's vocabulary as read: its values by attribute, and the entries within it."""

    __slots__ = ("children", "node", "values", "word", "written")

    def __init__(self, word: str, node: XmlNode) -> None:
        self.word, self.node = word, node
        self.values: dict[str, Any] = {}
        self.written: dict[str, str] = {}
        self.children: list[Entry] = []

    def get(self, attribute: str, default: Any = None) -> Any:
        """The value of an attribute; the default if it is absent or invalid."""
        return self.values.get(attribute, default)

    def of(self, *words: str) -> Iterator[Entry]:
        """The entries within it for these words."""
        return (child for child in self.children if child.word in words)

    def place(self, attribute: str | None = None, offset: int = 0) -> Place:
        """The line and column of the element, of an attribute's value, or of a character in the value."""
        if attribute is None or attribute not in self.written:
            return self.node.line, self.node.column
        return self.node.place(self.written[attribute], offset)

    @property
    def namespaces(self) -> dict[str, str]:
        """The prefixes available to patterns here."""
        return {prefix: uri for prefix, uri in self.node.namespaces.items() if prefix}


Reader = Callable[["Reading", XmlNode], Iterator[Definition | None]]
"""Make the definitions of a file, given its reading and the root of its XML."""


class TooManyFaultsError(Exception):
    """The file has `MOST_FAULTS` faults; reading stops."""


class Reading:
    """The reading of one file: its faults, its references, and the names it defines."""

    def __init__(
        self, source: Source, words: Words, faults: list[Fault] | None = None, *, any_case: bool = False
    ) -> None:
        self.source, self._words, self._any_case = source, words, any_case
        self.faults: list[Fault] = [] if faults is None else faults
        self.warnings: list[Fault] = []
        """The warnings since the last definition was made."""
        self.references: list[Reference] = []
        self.names: set[tuple[str, str]] = set()

    def parsed(self, read: Reader, root: XmlNode) -> Parsed:
        """The result of reading a file; `read` yields its definitions, and None for those it cannot make."""
        definitions: list[Definition] = []
        with suppress(TooManyFaultsError):
            definitions.extend(filter(None, read(self, root)))
        faults = tuple(sorted(set(self.faults)))
        return Parsed(tuple(definitions), tuple(self.references), faults, frozenset(self.names))

    # --- faults and references --------------------------------------------------------------------------

    def fault(
        self, entry: Entry | XmlNode, message: str, attribute: str | None = None, offset: int = 0
    ) -> None:
        """Report a fault of an element, of the value of an attribute, or at a character in the value."""
        place = entry.place(attribute, offset) if isinstance(entry, Entry) else (entry.line, entry.column)
        self.fault_at(place, message)

    def fault_at(self, place: Place, message: str) -> None:
        """Report a fault at a line and column."""
        self.faults.append(self.source.fault(message, *place))
        if len(self.faults) >= MOST_FAULTS:
            raise TooManyFaultsError

    def warn_at(self, place: Place, message: str) -> None:
        """Report a warning at a line and column: it belongs to the next definition that is made."""
        self.warnings.append(self.source.fault(message, *place)._replace(warning=True))

    def warnings_so_far(self) -> tuple[Fault, ...]:
        """Take the warnings for the definition being made: those since the previous one."""
        warnings, self.warnings = self.warnings, []
        return tuple(dict.fromkeys(warnings))

    def refer(
        self,
        place: Place,
        kind: str,
        target: str,
        what: str,
        check: Check | None = None,
        *,
        group: str | None = None,
        others: tuple[str, ...] = (),
        late: bool = False,
    ) -> None:
        """Record that the file names another definition, to be checked once all files are read."""
        line, column = place
        made = Reference(kind, target, what, self.source.path, line, column, check, group, others, late=late)
        self.references.append(made)

    # --- entries ----------------------------------------------------------------------------------------

    def entry(self, node: XmlNode, word: str) -> Entry:
        """The entry of an element, read as a word, with everything within it."""
        entry = Entry(word, node)
        if self._words[word].foreign:
            return entry
        self._attributes(entry)
        allowed = self._words[word].children
        if allowed is not None:
            for child in node.children:
                name = local_name(child.tag)
                if self._any_case and name is not None:
                    name = name.lower()
                if name in allowed:
                    entry.children.append(self.entry(child, name))
                elif name is not None:
                    self._misplaced(child, name, word, allowed)
        return entry

    def _misplaced(self, child: XmlNode, name: str, word: str, allowed: tuple[str, ...]) -> None:
        places = sorted(outer for outer, words in self._words.items() if name in (words.children or ()))
        if not allowed:
            hint = "; it has no elements within it"
        elif places:
            hint = f"; it belongs in {' or '.join(places)}"
        else:
            hint = closest(name, allowed)
        self.fault(child, f"unexpected element {name!r} in {word}{hint}")

    def _attributes(self, entry: Entry) -> None:
        word = self._words[entry.word]
        for written, text in entry.node.attributes.items():
            local = local_name(written)
            name = None if local is None else word.attribute_named(local)
            if local is None or (local in INTERNAL and name is None):
                continue
            if name is None:
                places = [
                    f"<{outer}>" for outer, words in self._words.items() if words.attribute_named(local)
                ]
                hint = closest("" if 0 < len(places) <= _FEW else local, word.attributes)
                if 0 < len(places) <= _FEW:
                    hint = f"; it belongs in {' or '.join(sorted(places))}{hint}"
                message = f"{entry.word} has no attribute {local!r}{hint or '; correct it, or remove it'}"
                self.fault_at(entry.node.place(written), message)
            elif name in entry.written:
                again = f"{name} is given twice, as {entry.written[name]!r} and {written!r}; remove one"
                self.fault_at(entry.node.place(written), again)
            else:
                entry.written[name] = written
                self._value(entry, name, text, word.attributes[name].read)
        for name, attribute in word.attributes.items():
            if attribute.required and name not in entry.written:
                self.fault(entry, f'{entry.word} needs the attribute {name!r}; add {name}="…"')

    def _value(self, entry: Entry, name: str, text: str, read: Callable[[str], Any]) -> None:
        try:
            entry.values[name] = read(text.strip())
        except ValueError as error:
            expectation, *hint = error.args
            part, at = error.within(text) if isinstance(error, PartError) else (text, 0)
            self.fault(entry, f"{name}: expected {expectation}, found {part!r}{''.join(hint)}", name, at)

    def one(self, entry: Entry, word: str) -> Entry | None:
        """The entry for a word within another, which may have at most one."""
        same = list(entry.of(word))
        for extra in same[1:]:
            self.fault(extra, f"{entry.word} may have one {word}, found another on line {same[0].node.line}")
        return same[0] if same else None

    def by_name(self, entries: Iterable[Entry], attribute: str = "id") -> dict[str, Entry]:
        """The first entry for each id, or value of another attribute; report the others as faults."""
        first: dict[str, Entry] = {}
        for entry in entries:
            name = entry.get(attribute)
            if name in first:
                line = first[name].node.line
                again = f"expected a new {entry.word} {attribute}, found {name!r} of line {line} again"
                self.fault(entry, again, attribute)
            elif name is not None:
                first[name] = entry
        return first

    def each_once(
        self, entries: Iterable[Entry], make: Callable[[Entry], Made], attribute: str = "id"
    ) -> dict[str, Made]:
        """The parts made from the first entry for each id, or other attribute; all are read for faults."""
        read = list(entries)
        first = self.by_name(read, attribute)
        made = [(entry, make(entry)) for entry in read]
        return {name: part for entry, part in made if first.get(name := entry.get(attribute)) is entry}

    def lookup(self, entry: Entry, attribute: str, parts: Mapping[str, Named], expected: str) -> Named | None:
        """The part that an attribute names; None if it is absent, or unknown, which is a fault."""
        name = entry.get(attribute)
        if name is not None and name not in parts:
            message = f"expected {expected}, found {name!r}{closest(name, parts)}"
            self.fault(entry, f"{attribute}: {message}", attribute)
        return parts.get(name) if name is not None else None

    def descriptions(self, entry: Entry) -> dict[str, str]:
        """The descriptions within an entry, by language (table 2.17)."""
        return {text.get("lang", "en"): " ".join(text.node.text.split()) for text in entry.of("description")}

    def version(self, entry: Entry, xml: bytes, first_reference: int = 0) -> dict[str, Any]:
        """The values common to all definitions, given the bytes of one and the first of its references."""
        return {
            "warnings": self.warnings_so_far(),
            "descriptions": self.descriptions(entry),
            "references": tuple(self.references[first_reference:]),
            "digest": hashlib.sha256(xml).hexdigest(),
            "xml": xml,
            "path": self.source.path,
            "line": entry.node.line,
        }

    def xml(
        self,
        entry: Entry,
        noun: str,
        attributes: Mapping[str, str | None],
        adjust: Callable[[etree._Element], None] = lambda root: None,
    ) -> bytes | None:
        """The bytes of a definition by itself, as shown in memory and as it can be read again.

        Missing `attributes` are added; `adjust` alters the rest. None, and a fault, if memory cannot hold it.
        """
        try:
            root = parse_untrusted(entry.node.xml(all_namespaces=True))
            adjust(root)
            for name, value in attributes.items():
                if value is not None and name not in entry.written:
                    root.set(name, value)
            return canonical(root)
        except ElementError as error:
            self.fault(entry, f"this {noun} cannot be kept in memory: {error.message}")
            return None
