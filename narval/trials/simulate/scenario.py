"""Scenario: what comes and when, what outside actions answer, and what is expected of it.

It is read from a file that a user keeps beside the recipes (`scenario_parser`), or made for one definition.
Nothing here is altered after it was made. `agent` is the one that it is done to, or of which it is expected;
"" stands for the one that is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Literal

import msgspec

from narval.core.definitions.people.directory import Directory
from narval.core.patterns.pattern import Condition

Memory = Literal["new", "now", "empty"]
"""The memory to begin with: of a home on its first day, of the home as it is, or none."""

NEVER = float("inf")


class When(msgspec.Struct, frozen=True):
    """A moment: so many seconds after the start, or a date; a date without a zone is of the home's."""

    after: float = 0.0
    date: datetime | None = None

    def moment(self, start: float, zone: tzinfo | None) -> float:
        """In seconds since 1970, UTC."""
        return start + self.after if self.date is None else seconds(self.date, zone)


class ScheduledStart(msgspec.Struct, frozen=True):
    """The start of a definition, with elements as its first context."""

    recipe: str
    at: When = When()
    elements: tuple[bytes, ...] = ()
    line: int = 1
    column: int = 1
    agent: str = ""


class ScheduledElement(msgspec.Struct, frozen=True):
    """Elements from outside; with `every`, again after so many seconds, `times` in all (None: always).

    With `replaces` the one element takes the place of the newest that fits it.
    """

    elements: tuple[bytes, ...]
    at: When = When()
    every: float | None = None
    times: int | None = None
    replaces: Condition | None = None
    line: int = 1
    column: int = 1
    agent: str = ""


class ScheduledOutdating(msgspec.Struct, frozen=True):
    """All elements that fit `condition` are said to count no more, for a `reason`."""

    condition: Condition
    at: When = When()
    reason: str = ""
    line: int = 1
    column: int = 1
    agent: str = ""


class ScheduledSignal(msgspec.Struct, frozen=True):
    """A signal to the runs of `recipe` under way, of those that hold an element that fits `condition` if
    there is one.
    """

    name: str
    recipe: str
    condition: Condition | None = None
    at: When = When()
    elements: tuple[bytes, ...] = ()
    line: int = 1
    column: int = 1
    agent: str = ""


class ScheduledRaise(msgspec.Struct, frozen=True):
    """An event that is raised at the task type `recipe`, or at a global event, by a person (K52)."""

    event: str
    recipe: str
    parameters: tuple[str, ...] = ()
    by: str = ""
    at: When = When()
    line: int = 1
    column: int = 1
    agent: str = ""


Scheduled = ScheduledStart | ScheduledElement | ScheduledOutdating | ScheduledSignal | ScheduledRaise
"""Something that a scenario does at a moment."""


class CannedAnswer(msgspec.Struct, frozen=True):
    """An answer to calls: elements, or an error of the type `error`; after so many seconds, or never.

    It is for calls of `action`, from `step` of `recipe` where these are named, with an input that fits
    `condition` where there is one; for as many as `times` of them (None: all).
    """

    action: str
    condition: Condition | None = None
    recipe: str = ""
    step: str = ""
    times: int | None = None
    after: float = 0.0
    elements: tuple[bytes, ...] = ()
    error: str = ""
    message: str = ""
    line: int = 1
    column: int = 1


class ScheduledAct(msgspec.Struct, frozen=True):
    """An act of a person on each item of `work`, so many seconds after it was asked for.

    By the person `by`, or the first there is; for as many as `times` items (None: all).
    """

    work: str
    act: str = "answer"
    by: str = ""
    after: float = 0.0
    outcome: str = ""
    to: str = ""
    fields: Mapping[str, tuple[str, ...]] = {}
    times: int | None = None
    line: int = 1
    column: int = 1


class Expectation(msgspec.Struct, frozen=True):
    """The number of elements, runs or calls there must be; `text` is how the file says it.

    Elements are those of memory that nothing has replaced; calls and runs are counted from the start.
    """

    what: Literal["element", "run", "call"]
    text: str
    at: When | None = None
    condition: Condition | None = None
    recipe: str = ""
    phase: str = ""
    action: str = ""
    step: str = ""
    least: int = 1
    most: int | None = None
    line: int = 1
    column: int = 1
    agent: str = ""


class Scenario(msgspec.Struct, frozen=True):
    """A whole scenario. `at` is its start (None: now), `until` the end of its time.

    `people` is who there is, in place of those of the home (None).
    """

    name: str
    path: str = ""
    description: str = ""
    memory: Memory = "new"
    at: When | None = None
    until: When | None = None
    starts: tuple[ScheduledStart, ...] = ()
    arrivals: tuple[ScheduledElement, ...] = ()
    outdatings: tuple[ScheduledOutdating, ...] = ()
    signals: tuple[ScheduledSignal, ...] = ()
    raises: tuple[ScheduledRaise, ...] = ()
    answers: tuple[CannedAnswer, ...] = ()
    acts: tuple[ScheduledAct, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    people: Directory | None = None


def seconds(date: datetime, zone: tzinfo | None) -> float:
    """A date as seconds since 1970; without a zone of its own it is of this one (None: the machine's)."""
    if date.tzinfo is None and zone is not None:
        date = date.replace(tzinfo=zone)
    return date.timestamp()


def scenario_of(name: str) -> Scenario:
    """The scenario of starting one definition on the memory as it is now."""
    return Scenario(name, memory="now", starts=(ScheduledStart(name),))
