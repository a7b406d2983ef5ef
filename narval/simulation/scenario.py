"""Scenario: what comes and when, what outside actions answer, and what is expected of it.

It is read from a file that a user keeps beside the recipes (`scenario_parser`), or made for one definition.
Nothing here is altered after it was made.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Literal

import msgspec

from narval.memory.patterns.pattern import Condition

Memory = Literal["new", "now", "empty"]
"""What a simulation begins with: a home on its first day, the memory of the home as it is, or nothing."""

NEVER = float("inf")


class When(msgspec.Struct, frozen=True):
    """A moment: so many seconds after the start, or a date; a date without a zone is of the home's."""

    after: float = 0.0
    date: datetime | None = None

    def moment(self, start: float, zone: tzinfo | None) -> float:
        """In seconds since 1970, UTC."""
        return start + self.after if self.date is None else seconds(self.date, zone)


class ScheduledStart(msgspec.Struct, frozen=True):
    """A definition is started, with these elements as its first context."""

    recipe: str
    at: When = When()
    elements: tuple[bytes, ...] = ()
    line: int = 1
    column: int = 1


class ScheduledElement(msgspec.Struct, frozen=True):
    """Elements come from outside; with `every`, again each so many seconds, `times` in all (None: always)."""

    elements: tuple[bytes, ...]
    at: When = When()
    every: float | None = None
    times: int | None = None
    line: int = 1
    column: int = 1


class CannedAnswer(msgspec.Struct, frozen=True):
    """What a call is answered: elements, or an error of the type `error`; after so many seconds, or never.

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


class Expectation(msgspec.Struct, frozen=True):
    """How many elements, runs or calls there must be: as `text` says it in the file.

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


class Scenario(msgspec.Struct, frozen=True):
    """All of it. `at` is when it starts (None: now), `until` how long time goes on."""

    name: str
    path: str = ""
    description: str = ""
    memory: Memory = "new"
    at: When | None = None
    until: When | None = None
    starts: tuple[ScheduledStart, ...] = ()
    arrivals: tuple[ScheduledElement, ...] = ()
    answers: tuple[CannedAnswer, ...] = ()
    expectations: tuple[Expectation, ...] = ()


def seconds(date: datetime, zone: tzinfo | None) -> float:
    """A date as seconds since 1970; without a zone of its own it is of this one (None: the machine's)."""
    if date.tzinfo is None and zone is not None:
        date = date.replace(tzinfo=zone)
    return date.timestamp()


def scenario_of(name: str) -> Scenario:
    """The scenario of starting one definition on the memory as it is now."""
    return Scenario(name, memory="now", starts=(ScheduledStart(name),))
