"""The XML of scenarios: every fault with line and column, all at once (docs/reference/simulate.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import chain
from pathlib import PurePath
from typing import Any, cast

from msgspec.structs import replace

from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.vocabulary import (
    COMMON,
    Attribute,
    Word,
    Words,
    anything,
    identifier,
    integer,
    one_of,
)
from narval.core.definitions.reading.xml import Entry, Reading, TooManyFaultsError
from narval.core.elements.canonical import canonical_given
from narval.core.elements.element import local_name
from narval.core.errors import DefinitionError, ElementError
from narval.core.kinds import PHASES
from narval.core.patterns.pattern import Condition
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode, read_xml
from narval.files.toml import duration
from narval.trials.simulate.names import Known, faults_of_names
from narval.trials.simulate.scenario import (
    NEVER,
    CannedAnswer,
    Expectation,
    Scenario,
    ScheduledElement,
    ScheduledOutdating,
    ScheduledRaise,
    ScheduledSignal,
    ScheduledStart,
    When,
)
from narval.trials.simulate.scenario_events import ACT_WORDS, ITEM_WORDS, items_expected, people_of, read_act

ROOT = "scenario"


def _seconds(text: str) -> float:
    try:
        return duration(text)
    except ValueError:
        raise ValueError('a length of time, such as "30s", "5m", "2h" or "1d 12h"') from None


def _after(text: str) -> float:
    return NEVER if text == "never" else _seconds(text)


def read_when(text: str) -> When:
    """Read `+2h` or `2h` after the start, or a date. Raises ValueError with what was expected."""
    with suppress(ValueError):
        return When(_seconds(text.removeprefix("+")))
    try:
        return When(date=datetime.fromisoformat(text))
    except ValueError:
        raise ValueError(
            'a time after the start, such as "+2h", or a date such as 2026-11-21T07:00'
        ) from None


def read_date(text: str) -> When:
    """Read a date. Raises ValueError with what was expected."""
    when = None
    with suppress(ValueError):
        when = When(date=datetime.fromisoformat(text))
    if when is None:
        raise ValueError("a date, such as 2026-11-21 or 2026-11-21T07:00")
    return when


COUNTS = {"count": Attribute(integer(0)), "least": Attribute(integer(0)), "most": Attribute(integer(0))}
NAME = Attribute(identifier)
REQUIRED = Attribute(identifier, required=True)
MATCH = Attribute(anything, required=True)
CALL = {"action": NAME, "match": Attribute(anything), "recipe": NAME, "step": NAME}
SCENARIO_WORDS: Words = {
    "description": COMMON["description"],
    ROOT: Word(
        {
            "at": Attribute(read_date),
            "until": Attribute(read_when),
            "memory": Attribute(one_of("new", "now", "empty")),
        },
        ("description", "people", "start", "arrive", "outdate", "signal", "raise", "answer", "expect"),
    ),
    "people": Word({}),
    "start": Word({"recipe": REQUIRED, "at": Attribute(read_when), "agent": NAME}, None),
    "arrive": Word(
        {
            "at": Attribute(read_when),
            "every": Attribute(_seconds),
            "times": Attribute(integer(1)),
            "replaces": Attribute(anything),
            "label": Attribute(anything),
            "agent": NAME,
        },
        None,
    ),
    "outdate": Word(
        {"match": MATCH, "at": Attribute(read_when), "reason": Attribute(anything), "agent": NAME}
    ),
    "signal": Word(
        {
            "name": REQUIRED,
            "recipe": REQUIRED,
            "match": Attribute(anything),
            "at": Attribute(read_when),
            "agent": NAME,
        },
        None,
    ),
    "raise": Word(
        {
            "event": REQUIRED,
            "recipe": REQUIRED,
            "parameters": Attribute(anything),
            "by": NAME,
            "at": Attribute(read_when),
            "agent": NAME,
        }
    ),
    "answer": Word(
        {**CALL, **ACT_WORDS, "times": Attribute(integer(1)), "after": Attribute(_after), "error": NAME}, None
    ),
    "expect": Word({"at": Attribute(read_when), "agent": NAME}, ("element", "run", "call", "work")),
    "work": Word(ITEM_WORDS),
    "element": Word({"match": MATCH, **COUNTS}),
    "run": Word({"recipe": REQUIRED, "phase": Attribute(one_of(*PHASES)), **COUNTS}),
    "call": Word({**CALL, "action": REQUIRED, **COUNTS}),
}


def is_scenario(data: bytes) -> bool:
    """True if the first element of a text, well-formed or not, is a scenario."""
    head = re.sub(rb"<\?.*?\?>|<!--.*?-->", b"", data[:65536], flags=re.DOTALL)
    return re.match(rb"(?:\xef\xbb\xbf)?\s*<(?:[\w.-]+:)?scenario[\s/>]", head) is not None


def read_scenario(source: Source, agents: Mapping[str, Known] | None = None) -> Scenario:
    """The scenario in a file. Raises DefinitionError with all its faults.

    With the definitions and schemas of each agent by name ("": the simulated one), names must exist, and
    elements must fit.
    """
    root = read_xml(source)
    if local_name(root.tag) != ROOT:
        within = f"<{ROOT}><arrive><{local_name(root.tag)}/></arrive></{ROOT}>"
        message = (
            f"expected the root scenario, found {root.tag!r}; an element that comes is within one: {within}"
        )
        raise DefinitionError([source.fault(message, root.line, root.column)])
    reading = Reading(source, SCENARIO_WORDS)
    scenario = _Parser(source, reading).read(root)
    faults = {*reading.faults}
    if agents is not None:
        faults |= {*faults_of_names(source, scenario, agents)}
    if faults:
        raise DefinitionError(faults)
    return scenario


class _Parser:
    """One file being parsed."""

    def __init__(self, source: Source, reading: Reading) -> None:
        self._path, self._reading, self._patterns = source.path, reading, Patterns(reading)

    def read(self, root: XmlNode) -> Scenario:
        """The readable part of the scenario."""
        reading, scenario = self._reading, Scenario(name_of(self._path), self._path)
        with suppress(TooManyFaultsError):
            entry = reading.entry(root, ROOT)
            scenario = replace(
                scenario,
                description=" ".join(reading.descriptions(entry).values()),
                memory=entry.get("memory", "new"),
                at=entry.get("at"),
                until=entry.get("until"),
                starts=tuple(map(self._beginning, entry.of("start"))),
                arrivals=tuple(map(self._arrival, entry.of("arrive"))),
                outdatings=tuple(filter(None, map(self._outdating, entry.of("outdate")))),
                signals=tuple(map(self._signal, entry.of("signal"))),
                raises=tuple(map(_raise, entry.of("raise"))),
                answers=tuple(map(self._reply, _answers(entry, to_people=False))),
                acts=tuple(read_act(reading, act, CALL) for act in _answers(entry, to_people=True)),
                expectations=tuple(chain.from_iterable(map(self._wishes, entry.of("expect")))),
                people=people_of(reading, next(iter(entry.of("people")), None)),
            )
            self._patterns.check_variables((), "no variable: a scenario has none")
        return scenario

    def _beginning(self, entry: Entry) -> ScheduledStart:
        place, agent = entry.place("recipe"), entry.get("agent", "")
        elements = tuple(self._elements(entry))
        return ScheduledStart(entry.get("recipe", ""), entry.get("at", When()), elements, *place, agent)

    def _arrival(self, entry: Entry) -> ScheduledElement:
        elements = tuple(self._elements(entry))
        every, times = entry.get("every"), entry.get("times")
        if not entry.node.children:
            self._reading.fault(entry, "arrive holds no element; write what comes within it")
        if every == 0.0:
            self._reading.fault(entry, "every: expected more than no time at all", "every")
        if times is not None and "every" not in entry.written:
            self._reading.fault(entry, 'times goes with every; add every="1d", say', "times")
        replaces = self._condition(entry, "replaces")
        if replaces is not None and len(elements) != 1:
            message = f"one element replaces another: expected one within arrive, found {len(elements)}"
            self._reading.fault(entry, message, "replaces")
        return ScheduledElement(
            elements,
            at=entry.get("at", When()),
            every=every or None,
            times=times,
            replaces=replaces,
            line=entry.node.line,
            column=entry.node.column,
            agent=entry.get("agent", ""),
            labels=tuple(entry.get("label", "").split()),
        )

    def _outdating(self, entry: Entry) -> ScheduledOutdating | None:
        condition, at, reason = self._condition(entry), entry.get("at", When()), entry.get("reason", "")
        where = (*entry.place("match"), entry.get("agent", ""))
        return None if condition is None else ScheduledOutdating(condition, at, reason, *where)

    def _signal(self, entry: Entry) -> ScheduledSignal:
        line, column = entry.place("recipe")
        return ScheduledSignal(
            entry.get("name", ""),
            entry.get("recipe", ""),
            self._condition(entry),
            at=entry.get("at", When()),
            elements=tuple(self._elements(entry)),
            line=line,
            column=column,
            agent=entry.get("agent", ""),
        )

    def _reply(self, entry: Entry) -> CannedAnswer:
        error, elements = entry.get("error", ""), tuple(self._elements(entry))
        if "action" not in entry.written:
            message = "answer needs the attribute 'action', or work for what people answer; add action=\"…\""
            self._reading.fault(entry, message)
        if error and elements:
            self._reading.fault(entry, "an answer is elements or an error, not both; remove one", "error")
        if entry.get("after") == NEVER and (error or elements):
            self._reading.fault(entry, "a call that never comes back brings nothing; remove it", "after")
        line, column = entry.place("action")
        return CannedAnswer(
            **self._of_calls(entry),
            times=entry.get("times"),
            after=entry.get("after", 0.0),
            elements=elements,
            error=error,
            message=" ".join(entry.node.text.split()),
            line=line,
            column=column,
        )

    def _wishes(self, entry: Entry) -> Iterator[Expectation]:
        if not entry.children:
            self._reading.fault(entry, "expect says nothing; write element, run or call within it")
        for child in entry.children:
            least, most = self._bounds(child)
            named = self._of_calls(child) if child.word != "work" else self._of_items(child)
            yield Expectation(
                what=cast(Any, child.word if child.word != "work" else "element"),
                text=_text(child, entry.get("agent", "")),
                agent=entry.get("agent", ""),
                at=entry.get("at"),
                **named,
                phase=child.get("phase", ""),
                least=least,
                most=most,
                line=child.node.line,
                column=child.node.column,
            )

    def _of_calls(self, entry: Entry) -> dict[str, Any]:
        """The criteria for calls: their action, recipe and step, and the condition on their inputs."""
        names = {name: entry.get(name, "") for name in ("action", "recipe", "step")}
        return {**names, "condition": self._condition(entry)}

    def _of_items(self, entry: Entry) -> dict[str, Any]:
        """The criteria for work items: they are elements of a definition."""
        return {"recipe": entry.get("name", ""), "condition": items_expected(self._reading, entry)}

    def _condition(self, entry: Entry, name: str = "match") -> Condition | None:
        """The condition in an attribute."""
        pattern = self._patterns.of_attribute(entry, name)
        return Condition((pattern,)) if pattern is not None else None

    def _bounds(self, entry: Entry) -> tuple[int, int | None]:
        count, least, most = entry.get("count"), entry.get("least"), entry.get("most")
        if "count" in entry.written and {"least", "most"} & set(entry.written):
            self._reading.fault(entry, "count says how many; remove least and most", "count")
        if count is not None:
            return count, count
        if least is not None and most is not None and least > most:
            self._reading.fault(entry, f"least: expected at most {most}, found {least}", "least")
        return least if least is not None else 1 if most is None else 0, most

    def _elements(self, entry: Entry) -> Iterator[bytes]:
        for child in entry.node.children:
            try:
                yield canonical_given(child.xml())
            except ElementError as error:
                self._reading.fault(child, f"refused as an element: {error.message}")


def _raise(entry: Entry) -> ScheduledRaise:
    line, column = entry.place("recipe")
    return ScheduledRaise(
        entry.get("event", ""),
        entry.get("recipe", ""),
        tuple(text.strip() for text in entry.get("parameters", "").split(",") if text.strip()),
        by=entry.get("by", ""),
        at=entry.get("at", When()),
        line=line,
        column=column,
        agent=entry.get("agent", ""),
    )


def _text(entry: Entry, agent: str) -> str:
    """An expectation in words for people, with the agent if one is named."""
    values = entry.values
    words = [entry.word, *(values[name] for name in ("recipe", "action", "match", "name") if name in values)]
    words += [f"of {values['step']}"] if "step" in values else []
    states = (values.get(name, "") for name in ("phase", "state", "outcome"))
    return " ".join(filter(None, (*words, *states, f"at {agent}" if agent else "")))


def _answers(entry: Entry, *, to_people: bool) -> Iterator[Entry]:
    """The answers of people, or those to calls."""
    return (answer for answer in entry.of("answer") if ("work" in answer.written) is to_people)


def name_of(path: str) -> str:
    """The name of a scenario: that of its file, without the suffix."""
    return PurePath(path).name.removesuffix(".xml").removesuffix(".scenario")
