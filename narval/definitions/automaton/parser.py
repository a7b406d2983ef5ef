"""The XML of automata: a file is one `AUTOMATON` (A1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Any

from lxml import etree

from narval.definitions.automaton.checks import never_started
from narval.definitions.automaton.definition import (
    START,
    SUCCESS,
    Automaton,
    ProgramInput,
    ProgramLimits,
    State,
)
from narval.definitions.automaton.vocabulary import WORDS
from narval.definitions.kinds import KINDS
from narval.definitions.library import Parsed, Reference
from narval.definitions.reading.xml import Entry, Reading, TooManyFaultsError
from narval.definitions.schedule import Time, never
from narval.definitions.suggestions import closest
from narval.errors import ElementError
from narval.memory.elements.canonical import canonical, parse_untrusted
from narval.source.text import Source
from narval.source.xml import XmlNode

_DEFAULT_KIND = "recipe"
_INHERITED = ("directory", "grace", "on-restart")


def parse(source: Source, root: XmlNode) -> Parsed:
    """The automaton of a file."""
    found = Reading(source, WORDS, any_case=True)
    builder = _AutomatonBuilder(found)
    automaton = None
    with suppress(TooManyFaultsError):
        automaton = builder.build(found.entry(root, "automaton"))
    faults = tuple(sorted(set(found.faults)))
    made = (automaton,) if automaton is not None else ()
    return Parsed(made, tuple(builder.references), faults, frozenset(builder.names))


class _AutomatonBuilder:
    """Makes an automaton of its entry; a part with a fault is left out, the others are checked anyway."""

    def __init__(self, found: Reading) -> None:
        self._found = found
        self._stem = PurePath(found.source.path).stem
        self._states: dict[str, State] = {}
        self._entries: dict[str, Entry] = {}
        self.references: list[Reference] = []
        self.names: set[tuple[str, str]] = set()

    def build(self, entry: Entry) -> Automaton | None:
        """The automaton, linked; None when it lacks a start, or what makes it one."""
        group, name = entry.get("group", self._stem), entry.get("name", self._stem)
        self.names.add(("automaton", f"{group}.{name}"))
        for each in entry.of("state"):
            self._add_state(entry, each)
        follow = self._transitions(entry)
        self._link(follow)
        if START not in self._states:
            self._found.fault(entry, f"expected a state called {START!r}, which every run begins with")
        else:
            for state, message in never_started(self._states):
                self._found.fault(self._entries[state.name], message, "name")
        xml = self._alone(entry, group, name)
        if START not in self._states or xml is None:
            return None
        return Automaton(
            group,
            name,
            self._states,
            max_parallel=entry.get("max-parallel"),
            decay=entry.get("decay"),
            descriptions=self._found.descriptions(entry),
            references=tuple(self.references),
            digest=hashlib.sha256(xml).hexdigest(),
            xml=xml,
            path=self._found.source.path,
            line=entry.node.line,
        )

    # --- states ---------------------------------------------------------------------------------------

    def _add_state(self, root: Entry, entry: Entry) -> None:
        name = entry.get("name")
        state = self._state(root, entry)
        if name in self._states:
            line = self._states[name].line
            self._found.fault(
                entry, f"expected a new name, found the state {name!r} of line {line} again", "name"
            )
        elif name is not None:
            self._states[name], self._entries[name] = state, entry

    def _state(self, root: Entry, entry: Entry) -> State:
        commands, texts = self._commands(entry)
        wait = self._found.one(entry, "wait")
        inherited = {key: root.get(key) for key in _INHERITED if root.get(key) is not None}
        inherited |= {key: entry.get(key) for key in _INHERITED if entry.get(key) is not None}
        limits = {key: entry.get(key, root.get(key)) for key in ("cpu", "memory", "files")}
        return State(
            entry.get("name", ""),
            commands,
            texts,
            target=self._target(entry, commands),
            timeout=entry.get("timeout"),
            retries=entry.get("retries", 0),
            backoff=entry.get("backoff"),
            max_visits=entry.get("max-visits"),
            creates=entry.get("creates", ()),
            needs=entry.get("needs", ()),
            unless=entry.get("unless", ()),
            after=tuple(self._dates(entry)),
            wait=wait.get("signal", "") if wait is not None else "",
            environment={**self._environment(root), **self._environment(entry)},
            feeds=tuple(self._feeds(root, entry)),
            limits=ProgramLimits(**limits),
            line=entry.node.line,
            **{key.replace("-", "_"): value for key, value in inherited.items()},
        )

    def _commands(self, entry: Entry) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
        """What the state runs: its own command, or the contenders within it (A8)."""
        own = entry.get("command")
        contenders = list(entry.of("command"))
        if own is not None and contenders:
            self._found.fault(
                contenders[0], "the state has a command already; put each contender into a COMMAND of its own"
            )
        if own is not None:
            return (own,), (entry.node.text,)
        named = [each for each in contenders if each.get("command")]
        return tuple(each.get("command") for each in named), tuple(each.node.text for each in named)

    def _target(self, entry: Entry, commands: tuple[tuple[str, ...], ...]) -> tuple[str, str] | None:
        """The definition that the state calls in place of a command (A15)."""
        target, kind = entry.get("target"), entry.get("type", _DEFAULT_KIND)
        if target is None:
            if not commands and "command" not in entry.written and "target" not in entry.written:
                self._found.fault(entry, 'a state needs command="…", target="group.name" or a COMMAND in it')
            return None
        if commands:
            self._found.fault(entry, "a state has a command or a target, not both; remove one", "target")
        if kind not in KINDS or not KINDS[kind].engine:
            self._found.fault(
                entry,
                f"expected a kind that is run, such as recipe, found {kind!r}; call it from a recipe",
                "type",
            )
            return None
        line, column = entry.place("target")
        what = f"state {entry.get('name')!r}"
        self.references.append(Reference(kind, target, what, self._found.source.path, line, column))
        return kind, target

    def _dates(self, entry: Entry) -> Iterator[Time]:
        for each in entry.of("after"):
            time = Time(**each.values, line=each.node.line)
            if never((time,)):
                self._found.fault(each, "no such date ever comes; correct its monthdays, months or years")
            yield time

    def _environment(self, entry: Entry) -> dict[str, str]:
        plain = (each for each in entry.of("env") if each.get("name") and not any(each.of("match")))
        return {each.get("name"): each.get("value", "") for each in plain}

    def _feeds(self, root: Entry, entry: Entry) -> Iterator[ProgramInput]:
        """Elements that become variables, or standard input (A13)."""
        for each in (*root.of("env"), *entry.of("env")):
            if any(each.of("match")) and each.get("name"):
                if each.get("value") is not None:
                    self._found.fault(each, "env has a value or a match, not both; remove one", "value")
                condition = self._found.conditions(each)
                if condition is not None:
                    yield ProgramInput(each.get("name"), condition, self._select(each))
        given = self._found.one(entry, "input")
        condition = self._found.conditions(given) if given is not None else None
        if condition is not None:
            yield ProgramInput("", condition)

    def _select(self, entry: Entry) -> str:
        text = str(entry.get("select", "."))
        try:
            etree.XPath(f"string({text})")
        except etree.XPathSyntaxError as error:
            self._found.fault(entry, f"select is no XPath: {error}", "select")
            return "string(.)"
        return f"string({text})"

    # --- transitions ----------------------------------------------------------------------------------

    def _transitions(self, root: Entry) -> dict[str, dict[str, dict[str, State]]]:
        """By state and label, the successors by name."""
        follow: dict[str, dict[str, dict[str, State]]] = {name: {} for name in self._states}
        for each in root.of("transition"):
            first, last = self._end_of(each, "from"), self._end_of(each, "to")
            label = each.get("label")
            if first is None or last is None or label is None:
                continue
            successors = follow[first.name].setdefault(label, {})
            if last.name in successors:
                self._found.fault(
                    each, f"there is a transition from {first.name!r} by {label} to {last.name!r} already"
                )
            successors[last.name] = last
        return follow

    def _end_of(self, entry: Entry, end: str) -> State | None:
        name = entry.get(end)
        if name is not None and name not in self._states:
            hint = closest(name, self._states)
            self._found.fault(entry, f"{end}: expected the name of a state, found {name!r}{hint}", end)
        return self._states.get(name) if name is not None else None

    def _link(self, follow: Mapping[str, Mapping[str, Mapping[str, State]]]) -> None:
        awaits: dict[str, list[State]] = {name: [] for name in self._states}
        for name, labels in follow.items():
            self._states[name].follow = {label: tuple(each.values()) for label, each in labels.items()}
            for each in labels.get(SUCCESS, ()):
                awaits[each].append(self._states[name])
        for name, state in self._states.items():
            state.awaits = tuple(awaits[name])

    def _alone(self, entry: Entry, group: str, name: str) -> bytes | None:
        """The automaton's bytes, as memory shows them and as they can be read again."""
        try:
            root = parse_untrusted(entry.node.xml(all_namespaces=True))
            root.tag = "automaton"
            given: dict[str, Any] = {"group": group, "name": name}
            for key, value in given.items():
                if key not in entry.written:
                    root.set(key, value)
            return canonical(root)
        except ElementError as error:
            self._found.fault(entry, f"this automaton cannot be kept in memory: {error.message}")
            return None
