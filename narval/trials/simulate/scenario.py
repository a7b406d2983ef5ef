"""Scenario: what arrives and when, the answers of outside actions, and the expected results.

It is parsed from a file that a user keeps beside the recipes (`parser.py`), or made for one definition.
It is immutable. `agent` is the agent of an event or an expectation; "" is the simulated one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Literal

import msgspec

from narval.core.definitions.people.directory import Directory
from narval.core.definitions.wall import moment_of
from narval.core.patterns.pattern import Condition

Memory = Literal["new", "now", "empty"]
"""The memory to begin with: that of a new home, the home's current one, or none."""

NEVER = float("inf")


LAST = datetime(9999, 12, 30, tzinfo=UTC).timestamp()
"""The last moment to which time can go on: dates end a day later, in any zone."""


class When(msgspec.Struct, frozen=True):
    """A moment: a number of seconds after the start, or a date; without a zone it is in the home's."""

    after: float = 0.0
    date: datetime | None = None

    def moment(self, start: float, zone: tzinfo | None) -> float:
        """The moment in seconds since 1970, UTC."""
        return min(start + self.after if self.date is None else seconds(self.date, zone), LAST)


class ScheduledStart(msgspec.Struct, frozen=True):
    """The start of a definition, with elements as its first context."""

    recipe: str
    at: When = When()
    elements: tuple[bytes, ...] = ()
    line: int = 1
    column: int = 1
    agent: str = ""


class ScheduledElement(msgspec.Struct, frozen=True):
    """Elements from outside; with `every`, again after a number of seconds, `times` in all (None: always).

    With `replaces` the one element replaces the newest that satisfies the condition. They have these
    `labels`.
    """

    elements: tuple[bytes, ...]
    """The elements, as XML."""
    at: When = When()
    """The moment when they first arrive."""
    every: float | None = None
    """The seconds from one time to the next; None: they arrive once."""
    times: int | None = None
    """The number of times; None: until the end."""
    replaces: Condition | None = None
    """The condition that the replaced element satisfies."""
    line: int = 1
    """The line of the scenario."""
    column: int = 1
    """The column there."""
    agent: str = ""
    """The agent at which they arrive; "" is the home's own."""
    labels: tuple[str, ...] = ()
    """The labels that say how they came in."""


class ScheduledOutdating(msgspec.Struct, frozen=True):
    """The outdating, for a `reason`, of all elements that satisfy `condition`."""

    condition: Condition
    at: When = When()
    reason: str = ""
    line: int = 1
    column: int = 1
    agent: str = ""


class ScheduledSignal(msgspec.Struct, frozen=True):
    """A signal to the active runs of `recipe`; with `condition`, only to those that hold an element that
    satisfies it.
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
"""An event of a scenario at a moment."""


class CannedAnswer(msgspec.Struct, frozen=True):
    """An answer to calls: elements, or an error; after some seconds, or never."""

    action: str
    """The action that it answers."""
    condition: Condition | None = None
    """The condition that an input of the call must satisfy, if any."""
    recipe: str = ""
    """The recipe whose calls it answers; "": any."""
    step: str = ""
    """The step whose calls it answers; "": any."""
    times: int | None = None
    """The number of calls that it answers; None: all."""
    after: float = 0.0
    """Seconds until the answer comes."""
    elements: tuple[bytes, ...] = ()
    """The elements of the answer."""
    error: str = ""
    """The type of the error, if it is one."""
    message: str = ""
    """The message of the error."""
    line: int = 1
    """The line in the file."""
    column: int = 1
    """The column there."""


class ScheduledAct(msgspec.Struct, frozen=True):
    """An act of a person on each work item of a definition, some time after the item was offered."""

    work: str
    """The work whose items are acted on."""
    act: str = "answer"
    """The act."""
    by: str = ""
    """The person who acts; "": the first one."""
    after: float = 0.0
    """Seconds between the item and the act."""
    outcome: str = ""
    """The outcome of an answer."""
    to: str = ""
    """The person to whom an item goes."""
    fields: Mapping[str, tuple[str, ...]] = {}
    """The values of fields, by name."""
    times: int | None = None
    """The number of items that are acted on; None: all."""
    line: int = 1
    """The line in the file."""
    column: int = 1
    """The column there."""


class Expectation(msgspec.Struct, frozen=True):
    """The required number of elements, runs or calls.

    Elements are those of memory that nothing has replaced; calls and runs are counted from the start.
    """

    what: Literal["element", "run", "call"]
    """The things that are counted."""
    text: str
    """The expectation as the file says it."""
    at: When | None = None
    """The moment at which it is judged; None: the end."""
    condition: Condition | None = None
    """The condition that elements must satisfy."""
    recipe: str = ""
    """The recipe of the runs or calls; "": any."""
    phase: str = ""
    """The phase of the runs; "": any."""
    action: str = ""
    """The action of the calls; "": any."""
    step: str = ""
    """The step of the calls; "": any."""
    least: int = 1
    """The least number."""
    most: int | None = None
    """The greatest number; None: any."""
    line: int = 1
    """The line in the file."""
    column: int = 1
    """The column there."""
    agent: str = ""
    """The agent whose elements, runs or calls they are; "": the home's own."""


class Scenario(msgspec.Struct, frozen=True):
    """A scenario."""

    name: str
    """The name of the scenario."""
    path: str = ""
    """The file that it is read from."""
    description: str = ""
    """The description of what it shows."""
    memory: Memory = "new"
    """The memory that it begins with."""
    at: When | None = None
    """The start; None: now."""
    until: When | None = None
    """The end of its time; None: as long as something is due, up to a day after its last moment."""
    starts: tuple[ScheduledStart, ...] = ()
    """The runs that are started."""
    arrivals: tuple[ScheduledElement, ...] = ()
    """The elements that are added."""
    outdatings: tuple[ScheduledOutdating, ...] = ()
    """The elements that are outdated."""
    signals: tuple[ScheduledSignal, ...] = ()
    """The signals that runs get."""
    raises: tuple[ScheduledRaise, ...] = ()
    """The events that are raised on objects."""
    answers: tuple[CannedAnswer, ...] = ()
    """The answers to calls."""
    acts: tuple[ScheduledAct, ...] = ()
    """The acts of people."""
    expectations: tuple[Expectation, ...] = ()
    """The expectations that are judged."""
    people: Directory | None = None
    """The people; None: those of the home."""


def seconds(date: datetime, zone: tzinfo | None) -> float:
    """A date as seconds since 1970; without a zone of its own, in `zone` (None: the machine's)."""
    return moment_of(date, zone) if date.tzinfo is None and zone is not None else date.timestamp()


def scenario_of(name: str) -> Scenario:
    """The scenario of starting one definition on the present memory."""
    return Scenario(name, memory="now", starts=(ScheduledStart(name),))
