"""The XML of automata: a file has one `AUTOMATON` (A1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from lxml import etree

from narval.core.definitions.library import Parsed
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.times import times
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.kinds import KINDS
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode
from narval.kinds.automaton.language.checks import never_started
from narval.kinds.automaton.language.definition import (
    END,
    START,
    SUCCESS,
    Automaton,
    Contender,
    ProgramInput,
    ProgramLimits,
    State,
    link,
    signal_label,
)
from narval.kinds.automaton.language.vocabulary import WORDS, word_for_a_shell

_DEFAULT_KIND = "recipe"
_INHERITED = ("directory", "grace", "on-restart", "reaches")
_LIMITS = ("cpu", "memory", "files")


def parse(source: Source, root: XmlNode) -> Parsed:
    """Parse the automaton of a file."""
    return Reading(source, WORDS, any_case=True).parsed(_automata, root)


def _automata(reading: Reading, root: XmlNode) -> Iterator[Automaton | None]:
    builder = _AutomatonBuilder(reading, reading.entry(root, "automaton"))
    reading.names.add((Automaton.kind, f"{builder.group}.{builder.name}"))
    yield builder.build()


class _AutomatonBuilder:
    """Builds an automaton from its entry. A part with a fault is left out; the others are still checked."""

    def __init__(self, reading: Reading, entry: Entry) -> None:
        stem = PurePath(reading.source.path).stem
        self._reading, self._entry = reading, entry
        self.group, self.name = entry.get("group", stem), entry.get("name", stem)

    def build(self) -> Automaton | None:
        """The automaton, linked; None if it lacks a start or an essential part."""
        reading, entry = self._reading, self._entry
        states = reading.each_once(entry.of("state"), _StateReader(reading, entry).state, "name")
        link(states, self._transitions(states))
        if START not in states:
            reading.fault(entry, f"expected a state called {START!r}, which every run begins with")
        else:
            entries = {written.get("name"): written for written in reversed(list(entry.of("state")))}
            for state, message in never_started(states):
                reading.fault(entries[state.name], message, "name")
        xml = reading.xml(entry, "automaton", {"group": self.group, "name": self.name}, _lower)
        if START not in states or xml is None:
            return None
        return Automaton(
            states,
            max_parallel=entry.get("max-parallel"),
            timeout=entry.get("timeout"),
            restart=entry.get("restart", False),
            processes=entry.get("processes"),
            group=self.group,
            name=self.name,
            decay=entry.get("decay"),
            **reading.version(entry, xml),
        )

    def _transitions(self, states: Mapping[str, State]) -> dict[str, dict[str, list[State]]]:
        """The successors by state and label."""
        follow: dict[str, dict[str, list[State]]] = {name: {} for name in states}
        for entry in self._entry.of("transition"):
            first, last = (
                self._reading.lookup(entry, end, states, "the name of a state") for end in ("from", "to")
            )
            label = self._label(entry, first)
            if first is None or last is None or label is None:
                continue
            successors = follow[first.name].setdefault(label, [])
            if last in successors:
                message = f"there is a transition from {first.name!r} by {label} to {last.name!r} already"
                self._reading.fault(entry, message)
            else:
                successors.append(last)
        return follow

    def _label(self, entry: Entry, state: State | None) -> str | None:
        """The label of a transition from a state: an end of its program, or a signal."""
        label: str | None = entry.get("label")
        signal: str | None = entry.get("signal")
        if signal is None:
            if label == SUCCESS and state is not None and state.name == END:
                message = (
                    f"the run ends when {END!r} has ended with 0; use another label, or rename the state"
                )
                self._reading.fault(entry, message, "label")
            if "label" not in entry.written and "signal" not in entry.written:
                message = (
                    'a transition needs label="…", how the program ends, or signal="…", what interrupts it'
                )
                self._reading.fault(entry, message)
            return label
        if "label" in entry.written:
            self._reading.fault(entry, "a transition has a label or a signal, not both; remove one", "signal")
        elif state is not None and state.wait == signal:
            message = (
                f"state {state.name!r} waits for {signal!r} before it runs; another name must interrupt it"
            )
            self._reading.fault(entry, message, "signal")
        return signal_label(signal)


class _StateReader:
    """Reads `state` entries, which inherit the defaults that `root`, the automaton, sets for all states."""

    def __init__(self, reading: Reading, root: Entry) -> None:
        self._reading, self._root = reading, root
        self._patterns = Patterns(reading)

    def state(self, entry: Entry) -> State:
        """The state, and a reference to its target."""
        root = self._root
        contenders = tuple(self._contenders(entry))
        self._warn_of_shell(entry)
        wait = self._reading.one(entry, "wait")
        inherited = {
            key.replace("-", "_"): entry.get(key, root.get(key))
            for key in _INHERITED
            if entry.get(key, root.get(key)) is not None
        }
        return State(
            entry.get("name", ""),
            contenders,
            target=self._target(entry, contenders),
            timeout=entry.get("timeout"),
            retries=entry.get("retries", 0),
            backoff=entry.get("backoff"),
            max_visits=entry.get("max-visits"),
            creates=entry.get("creates", ()),
            needs=entry.get("needs", ()),
            unless=entry.get("unless", ()),
            after=tuple(times(self._reading, entry.of("after"))),
            wait=wait.get("signal", "") if wait is not None else "",
            environment={**_environment(root), **_environment(entry)},
            inputs=tuple(self._inputs(entry)),
            limits=ProgramLimits(
                **{key: entry.get(key, root.get(key)) for key in _LIMITS}, processes=entry.get("processes")
            ),
            line=entry.node.line,
            agent=entry.get("agent", ""),
            **inherited,
        )

    def _contenders(self, entry: Entry) -> Iterator[Contender]:
        """The command of the state, or its fallbacks, each with its standard input."""
        own = entry.get("command")
        fallbacks = list(entry.of("command"))
        if own is not None and fallbacks:
            message = "the state has a command already; put each fallback into a COMMAND of its own"
            self._reading.fault(fallbacks[0], message)
        if own is not None:
            yield Contender(own, entry.node.text)
            return
        for fallback in fallbacks:
            if words := fallback.get("command"):
                retries, backoff = fallback.get("retries", 0), fallback.get("backoff")
                yield Contender(words, fallback.node.text, retries, backoff)

    def _warn_of_shell(self, entry: Entry) -> None:
        """Warn of the first word of its commands that only a shell would understand."""
        written = [(entry, "command"), *((fallback, "command") for fallback in entry.of("command"))]
        for place, attribute in (*written, (entry, "unless")):
            words = place.get(attribute)
            if words and (word := word_for_a_shell(place.node.attributes[place.written[attribute]])):
                what = f"state {entry.get('name')!r}: {words[0]} is given {word!r} as it is"
                how = 'write command="sh", and the line as the text of the state'
                if attribute == "unless":
                    how = "write unless=\"sh -c '…'\""
                message = f"{what}, for no shell reads it; {how}, or put the word in quotes"
                self._reading.warn_at(place.place(attribute), message)
                return

    def _target(self, entry: Entry, contenders: tuple[Contender, ...]) -> tuple[str, str] | None:
        """The kind and name of the definition that the state calls in place of a command."""
        target, kind = entry.get("target"), entry.get("type", _DEFAULT_KIND)
        if target is None:
            if not contenders and "command" not in entry.written and "target" not in entry.written:
                message = 'a state needs command="…", target="group.name" or a COMMAND in it'
                self._reading.fault(entry, message)
            elif "agent" in entry.written:
                message = 'agent says whose the target is; add target="group.name", or remove this'
                self._reading.fault(entry, message, "agent")
            return None
        if contenders:
            self._reading.fault(entry, "a state has a command or a target, not both; remove one", "target")
        if kind not in KINDS or not KINDS[kind].engine:
            message = f"expected a kind that is run, such as recipe, found {kind!r}; call it from a recipe"
            self._reading.fault(entry, message, "type")
            return None
        if "agent" not in entry.written:
            self._reading.refer(entry.place("target"), kind, target, f"state {entry.get('name')!r}")
        return kind, target

    def _inputs(self, entry: Entry) -> Iterator[ProgramInput]:
        """The elements passed as variables or on standard input."""
        for variable in (*self._root.of("env"), *entry.of("env")):
            if any(variable.of("match")) and variable.get("name"):
                if variable.get("value") is not None:
                    self._reading.fault(variable, "env has a value or a match, not both; remove one", "value")
                condition = self._patterns.condition(variable)
                if condition is not None:
                    yield ProgramInput(variable.get("name"), condition, self._select(variable))
        standard = self._reading.one(entry, "input")
        condition = self._patterns.condition(standard) if standard is not None else None
        if condition is not None:
            yield ProgramInput("", condition)

    def _select(self, entry: Entry) -> str:
        text = str(entry.get("select", "."))
        try:
            etree.XPath(f"string({text})")
        except etree.XPathSyntaxError as error:
            self._reading.fault(entry, f"select is no XPath: {error}", "select")
            return "string(.)"
        return f"string({text})"


def _environment(entry: Entry) -> dict[str, str]:
    plain = (written for written in entry.of("env") if written.get("name") and not any(written.of("match")))
    return {variable.get("name"): variable.get("value", "") for variable in plain}


def _lower(root: Any) -> None:
    root.tag = "automaton"
