"""Patterns of XML definitions: XPaths in attributes and `match` elements, and what is built from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from narval.core.definitions.prototype import Input, Output, Prototype, TransitionCondition, check_replaces
from narval.core.definitions.reading.lexer import Locate
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.suggestions import closest
from narval.core.definitions.unique import check_unique
from narval.core.errors import PatternError
from narval.core.patterns.functions import doubts_of
from narval.core.patterns.pattern import Condition, Pattern, compile_pattern


class HasVariables(Protocol):
    """An expression of a definition: its text, and the variables in it."""

    @property
    def text(self) -> str:
        """The expression as written."""

    @property
    def variables(self) -> frozenset[str]:
        """The names used as `$name`."""


class Patterns:
    """The patterns of a definition, compiled as they are read; their variables are checked at the end."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._within: Entry | None = None
        self.read: list[tuple[HasVariables, Locate, Entry | None]] = []
        """The patterns read, each with the part that contains it."""

    def of_attribute(self, entry: Entry, name: str) -> Pattern | None:
        """The pattern in an attribute; a fault is reported at the exact character."""
        text = entry.get(name)
        if text is None:
            return None
        blank = entry.node.attributes[entry.written[name]].index(text)
        return self._compiled(name, text, entry.namespaces, lambda at: entry.place(name, blank + at))

    def of_text(self, entry: Entry) -> Pattern | None:
        """The pattern in the text of an entry."""
        text = entry.node.text.strip()
        blank = entry.node.text.index(text)
        if not text:
            self._reading.fault(entry, f"{entry.word} is empty; write an XPath, such as email[@subject='Hi']")
            return None
        node = entry.node
        return self._compiled(entry.word, text, entry.namespaces, lambda at: node.text_place(blank + at))

    def of_matches(self, entry: Entry) -> tuple[Pattern, ...]:
        """The patterns of the `match` elements within an entry, which is the part that contains them."""
        outer, self._within = self._within, entry
        patterns = [self.of_text(match) for match in entry.of("match")]
        self._within = outer
        return tuple(pattern for pattern in patterns if pattern is not None)

    def _compiled(self, what: str, text: str, namespaces: dict[str, str], locate: Locate) -> Pattern | None:
        try:
            pattern = compile_pattern(text, namespaces)
        except PatternError as error:
            at = min(max(error.column - 1, 0), len(text))
            self._reading.fault_at(locate(at), f"{what} is no XPath that narval can try: {error.message}")
            return None
        self.note(pattern, locate)
        return pattern

    def begin(self, part: Entry) -> None:
        """Record that everything read from now on is within this part of the definition."""
        self._within = part

    def note(self, pattern: HasVariables, locate: Locate) -> None:
        """Record a pattern, or another expression with variables, and how to locate its characters."""
        self.read.append((pattern, locate, self._within))
        for doubt in pattern.doubts if isinstance(pattern, Pattern) else doubts_of(pattern.text):
            self._reading.warn_at(locate(doubt.offset), doubt.message)

    def check_variables(
        self,
        names: Collection[str],
        expected: str,
        without: str = "",
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        """Report a fault for each unknown variable, except within the word `without`.

        `elsewhere` explains why variables known in other places are unknown here.
        """
        for pattern, locate, within in self.read:
            if without and within is not None and within.word == without:
                continue
            for variable in sorted(pattern.variables.difference(names)):
                message = f"expected {expected}, found {variable!r}{closest(variable, names)}"
                message = f"${variable}: {(elsewhere or {}).get(variable, message)}"
                self._reading.fault_at(locate(self.offset(pattern, variable)), message)

    def offset(self, pattern: HasVariables, variable: str) -> int:
        """The offset of a variable's first use in the text of a pattern."""
        used = re.search(rf"\$\s*{re.escape(variable)}(?![\w.-])", pattern.text)
        return used.start() if used else 0

    # --- built from patterns ----------------------------------------------------------------------------

    def condition(self, entry: Entry) -> Condition | None:
        """The condition of all `match` elements of an entry, at least one; None if none is valid."""
        if not any(entry.of("match")):
            self._reading.fault(entry, f"{entry.word} needs a match; <match>*</match> takes any element")
        patterns = self.of_matches(entry)
        return Condition(patterns) if patterns else None

    def requirements(self, entry: Entry) -> tuple[TransitionCondition, ...]:
        """The `condition` entries within an entry, without invalid ones."""
        conditions = [(written, self.condition(written)) for written in entry.of("condition")]
        for written, condition in conditions:
            if condition is not None and all(pattern.is_closed for pattern in condition.patterns):
                self._refuse_taking(written, condition)
        return tuple(
            TransitionCondition(
                condition,
                written.get("use", False),
                written.get("for"),
                written.get("as") or "",
                listed=written.get("list", False),
                absent=written.get("absent", False),
            )
            for written, condition in conditions
            if condition is not None
        )

    def _refuse_taking(self, entry: Entry, condition: Condition) -> None:
        """Report a fault if a condition takes an element that none of its patterns reads."""
        for word in ("as", "use", "list"):
            if entry.get(word):
                why = f"{condition.text} holds of any element or of none, so that this takes what is nearest"
                better = "match the element itself, such as note[@eid = $step/@eid]"
                self._reading.fault(entry, f"{word}: {why}; {better}", word)

    def prototype(self, entry: Entry) -> Prototype:
        """The inputs and outputs that an entry declares (tables 2.16, 2.18, N14)."""
        for declared in entry.of("input", "output"):
            self.condition(declared)
            self._key(declared, "unique", check_unique)
            self._key(declared, "replaces", check_replaces)
        return Prototype(
            tuple(self._input(declared) for declared in self._reading.by_name(entry.of("input")).values()),
            tuple(self._output(declared) for declared in self._reading.by_name(entry.of("output")).values()),
            entry.get("keeps", ()),
        )

    def _key(self, entry: Entry, word: str, check: Callable[[str, Mapping[str, str]], None]) -> None:
        pattern = self.of_attribute(entry, word)
        if pattern is None:
            return
        try:
            check(pattern.text, entry.namespaces)
        except PatternError as error:
            self._reading.fault_at(entry.place(word, error.column - 1), f"{word}: {error.message}")

    def _input(self, entry: Entry) -> Input:
        texts, namespaces = self.texts(entry)
        flags = {name: entry.get(name, False) for name in ("use", "list", "optional", "outdates")}
        newest = entry.get("newest", 0)
        if newest and not flags["list"]:
            self._reading.fault_at(entry.place("newest"), 'newest: expected list="yes" beside it, found none')
        return Input(entry.get("id"), texts, **flags, namespaces=namespaces, newest=newest)

    def _output(self, entry: Entry) -> Output:
        texts, namespaces = self.texts(entry)
        flags = {name: entry.get(name, False) for name in ("list", "optional")}
        keys = {name: entry.get(name) for name in ("unique", "replaces")}
        own = entry.get("own", ())
        return Output(entry.get("id"), texts, **flags, **keys, namespaces=namespaces, own=own)

    def texts(self, entry: Entry) -> tuple[tuple[str, ...], dict[str, str]]:
        """The expressions in an entry's `match` elements, and the prefixes they use."""
        namespaces = entry.namespaces
        for match in entry.of("match"):
            for prefix, uri in match.namespaces.items():
                if namespaces.setdefault(prefix, uri) != uri:
                    message = f"the prefix {prefix!r} means something else here; use another prefix"
                    self._reading.fault(match, message)
        return tuple(match.node.text.strip() for match in entry.of("match")), namespaces
