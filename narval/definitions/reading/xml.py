"""Reading: what every parser of XML definitions does, from a table of words (N6, N12, N13).

A first pass turns nodes into *entries*, whose attributes have been read and whose children are known words; a
parser makes definitions of entries and checks what tables cannot say. A fault never stops the
reading: all the faults of a file are found at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import msgspec

from narval.definitions.prototype import Input, Output, Prototype
from narval.definitions.suggestions import closest
from narval.errors import Fault, PatternError
from narval.memory.elements.element import local_name
from narval.memory.patterns.pattern import Condition, Pattern, compile_pattern
from narval.source.text import Source
from narval.source.xml import XmlNode

MOST_FAULTS = 200
"""A file with more faults than this is no definition: the rest of them is not looked for."""


class Attribute(msgspec.Struct, frozen=True):
    """How an attribute is read: `read` raises ValueError with what was expected, and perhaps a hint."""

    read: Callable[[str], Any]
    required: bool = False


@dataclass(frozen=True)
class Word:
    """What an element of narval's vocabulary may have; `children` None: anything at all."""

    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    children: tuple[str, ...] | None = ()

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The name of each attribute by its plain spelling: on-error, on_error and onError are one."""
        return {_plain(name): name for name in self.attributes}


Words = Mapping[str, Word]
Locate = Callable[[int], tuple[int, int]]
"""Where a character of an expression is in its file."""

INTERNAL = frozenset({"eid", "state"})
"""Attributes that memory gives (tables 2.3-2.5): they may come back in a file and say nothing there."""


def _plain(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).replace("_", "-").lower()


class Entry:
    """An element of narval's vocabulary, read: its values by attribute, and the entries within it."""

    __slots__ = ("children", "node", "values", "word", "written")

    def __init__(self, word: str, node: XmlNode) -> None:
        self.word, self.node = word, node
        self.values: dict[str, Any] = {}
        self.written: dict[str, str] = {}
        self.children: list[Entry] = []

    def get(self, attribute: str, default: Any = None) -> Any:
        """The value of an attribute; the default when it is absent or wrong."""
        return self.values.get(attribute, default)

    def of(self, *words: str) -> Iterator[Entry]:
        """The entries within it of those words."""
        return (each for each in self.children if each.word in words)

    def place(self, attribute: str | None = None, offset: int = 0) -> tuple[int, int]:
        """Where an attribute's value is, or a character of it, or the element."""
        if attribute is None or attribute not in self.written:
            return self.node.line, self.node.column
        return self.node.place(self.written[attribute], offset)

    @property
    def namespaces(self) -> dict[str, str]:
        """The prefixes a pattern here may use."""
        return {prefix: uri for prefix, uri in self.node.namespaces.items() if prefix}


class TooManyFaultsError(Exception):
    """The rest of the file is not worth reading."""


class Reading:
    """A file being read: its faults so far."""

    def __init__(self, source: Source, words: Words, *, any_case: bool = False) -> None:
        self.source, self._words, self._any_case = source, words, any_case
        self.faults: list[Fault] = []
        self.patterns: list[tuple[Pattern, Locate]] = []

    def fault(
        self, entry: Entry | XmlNode, message: str, attribute: str | None = None, offset: int = 0
    ) -> None:
        """Something is wrong with an element, with the value of an attribute, or at a character of it."""
        place = entry.place(attribute, offset) if isinstance(entry, Entry) else (entry.line, entry.column)
        self.fault_at(place, message)

    def fault_at(self, place: tuple[int, int], message: str) -> None:
        """Something is wrong at a line and column."""
        self.faults.append(self.source.fault(message, *place))
        if len(self.faults) >= MOST_FAULTS:
            raise TooManyFaultsError

    def entry(self, node: XmlNode, word: str) -> Entry:
        """An element read as that word, with all within it."""
        entry = Entry(word, node)
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
        places = sorted(outer for outer, known in self._words.items() if name in (known.children or ()))
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
            if local is None or local in INTERNAL:
                continue
            name = word.names.get(_plain(local))
            if name is None:
                hint = closest(local, word.attributes)
                self.fault_at(entry.node.place(written), f"{entry.word} has no attribute {local!r}{hint}")
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
            wanted, *hint = error.args
            self.fault(entry, f"{name}: expected {wanted}, found {text!r}{''.join(hint)}", name)

    def one(self, entry: Entry, word: str) -> Entry | None:
        """The entry of that word within another, which may have at most one of it."""
        found = list(entry.of(word))
        for extra in found[1:]:
            self.fault(extra, f"{entry.word} may have one {word}, found another on line {found[0].node.line}")
        return found[0] if found else None

    def descriptions(self, entry: Entry) -> dict[str, str]:
        """What it does, by language (table 2.17)."""
        return {each.get("lang", "en"): " ".join(each.node.text.split()) for each in entry.of("description")}

    def attribute_pattern(self, entry: Entry, name: str) -> Pattern | None:
        """The pattern that an attribute holds; a fault in it is shown at its very character."""
        text = entry.get(name)
        if text is None:
            return None
        blank = entry.node.attributes[entry.written[name]].index(text)
        return self._pattern(name, text, entry.namespaces, lambda at: entry.place(name, blank + at))

    def match_patterns(self, entry: Entry) -> list[Pattern]:
        """The patterns of the `match` elements within an entry."""
        patterns = (self.text_pattern(match) for match in entry.of("match"))
        return [pattern for pattern in patterns if pattern is not None]

    def text_pattern(self, entry: Entry) -> Pattern | None:
        """The pattern that the text of an entry is."""
        text = entry.node.text.strip()
        blank = entry.node.text.index(text)
        if not text:
            self.fault(entry, f"{entry.word} is empty; write an XPath, such as email[@subject='Hi']")
            return None
        return self._pattern(entry.word, text, entry.namespaces, partial(_text_place, entry.node, blank))

    def _pattern(self, what: str, text: str, namespaces: dict[str, str], locate: Locate) -> Pattern | None:
        try:
            pattern = compile_pattern(text, namespaces)
        except PatternError as error:
            at = min(max(error.column - 1, 0), len(text))
            self.fault_at(locate(at), f"{what} is no XPath that narval can try: {error.message}")
            return None
        self.patterns.append((pattern, locate))
        return pattern

    def check_variables(self, known: Collection[str], what: str, since: int = 0) -> None:
        """Report each variable that is none of the known ones, in the patterns from the `since`-th on."""
        for pattern, locate in self.patterns[since:]:
            for variable in sorted(pattern.variables.difference(known)):
                used = re.search(rf"\$\s*{re.escape(variable)}(?![\w.-])", pattern.text)
                message = f"${variable}: expected {what}, found {variable!r}{closest(variable, known)}"
                self.fault_at(locate(used.start() if used else 0), message)

    def conditions(self, entry: Entry) -> Condition | None:
        """All the `match` of an entry (one at least) as one condition; None if none can be tried."""
        if not any(entry.of("match")):
            self.fault(entry, f"{entry.word} needs a match; <match>*</match> takes any element")
        patterns = tuple(self.match_patterns(entry))
        return Condition(patterns) if patterns else None

    def prototype(self, entry: Entry) -> Prototype:
        """The inputs and outputs that an entry declares (tables 2.16, 2.18, N14)."""
        inputs, outputs = list(entry.of("input")), list(entry.of("output"))
        for each in (*inputs, *outputs):
            self.conditions(each)
            self.attribute_pattern(each, "unique")
        return Prototype(
            tuple(self._input(each) for each in self.with_new_ids(inputs)),
            tuple(self._output(each) for each in self.with_new_ids(outputs)),
        )

    def _input(self, entry: Entry) -> Input:
        texts, namespaces = self.texts(entry)
        flags = {name: entry.get(name, False) for name in ("use", "list", "optional", "outdates")}
        return Input(entry.get("id"), texts, **flags, namespaces=namespaces)

    def _output(self, entry: Entry) -> Output:
        texts, namespaces = self.texts(entry)
        flags = {name: entry.get(name, False) for name in ("list", "optional")}
        return Output(entry.get("id"), texts, **flags, unique=entry.get("unique"), namespaces=namespaces)

    def texts(self, entry: Entry) -> tuple[tuple[str, ...], dict[str, str]]:
        """The expressions of an entry's `match`, and the prefixes that they use."""
        namespaces = entry.namespaces
        for match in entry.of("match"):
            for prefix, uri in match.namespaces.items():
                if namespaces.setdefault(prefix, uri) != uri:
                    self.fault(match, f"the prefix {prefix!r} means something else here; use another prefix")
        return tuple(match.node.text.strip() for match in entry.of("match")), namespaces

    def with_new_ids(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those with an id that none before them has; the others of the same id are faults."""
        first: dict[str, Entry] = {}
        for each in entries:
            id = each.get("id")
            if id in first:
                line = first[id].node.line
                self.fault(each, f"expected a new {each.word} id, found {id!r} of line {line} again", "id")
            elif id is not None:
                first[id] = each
        return list(first.values())


def _text_place(node: XmlNode, blank: int, offset: int) -> tuple[int, int]:
    return node.text_place(blank + offset)


def yes_no(text: str) -> bool:
    """A switch."""
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


def name(text: str) -> str:
    """A group or the name of a definition: the two are joined by a dot, so neither has one."""
    if not re.fullmatch(r"[^\s./]+", text):
        raise ValueError("a name without dots, slashes and blanks")
    return text


def identifier(text: str) -> str:
    """The id of something within a definition."""
    if not re.fullmatch(r"\S+", text):
        raise ValueError("an id without blanks")
    return text


def anything(text: str) -> str:
    """Any text."""
    return text


def one_of(*words: str) -> Callable[[str], str]:
    """One of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(" or ".join(words))
        return text

    return read


def integer(least: int | None = None) -> Callable[[str], int]:
    """A whole number."""

    def read(text: str) -> int:
        wanted = "a whole number" if least is None else f"a whole number of {least} or more"
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", text) or (least is not None and int(text) < least):
            raise ValueError(wanted)
        return int(text)

    return read


def seconds(text: str) -> float:
    """A length of time in seconds."""
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?|\.[0-9]{1,9}", text):
        raise ValueError("a number of seconds, such as 3600 or 0.5")
    return float(text)


INPUT = Word(
    {
        "id": Attribute(identifier, required=True),
        "use": Attribute(yes_no),
        "list": Attribute(yes_no),
        "optional": Attribute(yes_no),
        "outdates": Attribute(yes_no),
    },
    ("match",),
)
OUTPUT = Word(
    {
        "id": Attribute(identifier, required=True),
        "list": Attribute(yes_no),
        "optional": Attribute(yes_no),
        "unique": Attribute(anything),
    },
    ("match",),
)
COMMON: Words = {
    "description": Word({"lang": Attribute(identifier)}, None),
    "input": INPUT,
    "output": OUTPUT,
    "match": Word(),
}
"""The words that every kind of definition shares."""
