"""The contract of an engine.

    advance(decision, event)
    change.apply(state) -> None

A `decision` has the definition, the state and the view, and records the changes and commands of one advance.
`advance` decides; changes alone alter a state, and only changes are stored, so recovery applies what was
recorded and never decides again. A decision applies each change and lets each inner command take effect at
once: later ones of the same advance see earlier ones. An engine reads no clock, draws no random number and
opens no file; moments and identifiers arrive in events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol, runtime_checkable

import msgspec

from narval.core.definitions.schedule import Time
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element
from narval.core.engines.commands import Watch
from narval.core.engines.events import Event, Resume, Reusable
from narval.core.engines.graph import Graph
from narval.core.engines.migration import Migration
from narval.core.engines.story import Words
from narval.core.errors import RequestError
from narval.core.patterns.pattern import Bound


class Deaths(msgspec.Struct, frozen=True):
    """The times in a row that a part died and was started again; `until` then it counts as one that dies."""

    times: int
    first: float
    last: float
    until: float
    text: str
    """The words for how it died last."""


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a run waits for."""

    id: str
    """The part that waits."""
    what: str
    """One of condition, time, call, try, again, input, join, signal, limit, person."""
    text: str = ""
    """The words by which people are told."""
    conditions: tuple[Bound, ...] = ()
    """The conditions, each of which an element has to satisfy."""
    scopes: tuple[MarkScope | None, ...] = ()
    """The scopes in which conditions mark what they use; an element that is marked there does not count."""
    calls: tuple[str, ...] = ()
    """The calls that it waits for."""
    until: float | None = None
    """The moment that it waits for."""
    lasting: tuple[float | None, ...] = ()
    """The seconds for which an element must fit each condition; empty if it must for none."""
    reckoned: str = ""
    """The source from which the date was computed."""
    absent: tuple[bool, ...] = ()
    """True for each condition that nothing may fit; empty if there is none."""
    error: int = 0
    """The error element of a part that failed, and waits because of it; 0 for any other."""
    about: str = ""
    """The question that a person is asked, in a line."""
    deaths: Deaths | None = None
    """The deaths of a part that runs, and died again and again before."""


Lookup = Callable[[int], Element | None]
"""The element of an eid, or None when it was forgotten."""

Find = Callable[[str, str], Any]
"""The current definition of that kind and name, or None."""


class Engine(Protocol):
    """The contract that the module `engine` of each kind keeps.

    Definitions and changes are the kind's own; its states derive from `RunState`. `Diagnoses`, `Retryable`,
    `HasEnvironment` and `HasTokens` are for the kinds that can do that; one that is not retryable may say in
    `instead_of_retry` what to do instead, one whose runs are not begun anew in `instead_of_renewal`.
    """

    def __hash__(self) -> int: ...

    @property
    def kind(self) -> str:
        """The kind of its runs."""

    @property
    def definition_kind(self) -> str:
        """The kind of definition they follow."""

    @property
    def changes(self) -> Any:
        """The union of its change types, for the journal to read them back."""

    @property
    def state_type(self) -> Any:
        """The type of its states, for a snapshot to be read back."""

    @property
    def decision_type(self) -> Any:
        """The type of its decisions."""

    def advance(self, decision: Any, event: Event, /) -> None:
        """Decide the changes and commands that follow from one event."""

    def fail(self, decision: Any, error: int, /) -> None:
        """Decide how a run ends whose `advance` raised, unless it has ended; `error` is an element."""

    def render(self, definition: Any, state: Any, context: Iterable[int], /) -> bytes:
        """The run as an XML element."""

    def waiting_for(self, definition: Any, state: Any, watches: dict[str, Watch], /) -> Iterator[Wait]:
        """The things that the run waits for now; `watches` are those it has set."""

    def parts(self, definition: Any, state: Any, /) -> dict[str, list[dict[str, Any]]]:
        """The parts of the run with their states, as surfaces show them: each has an `id`.

        What waits for a moment may say `until`.
        """

    def graph(self, definition: Any, state: Any, /) -> Graph:
        """The run as nodes and edges, for drawing."""

    def explain(self, definition: Any, state: Any, identifier: str | None, /) -> Words | None:
        """Why a part is in the state it is in, for people; None when there is none of that id.

        With no identifier, how the run as a whole ended; None when there is nothing to tell.
        """


@runtime_checkable
class Diagnoses(Protocol):
    """An engine whose runs depend on elements of memory beyond those that they wait for now."""

    def diagnose(
        self, definition: Any, state: Any, identifier: str | None, element: Lookup, find: Find, /
    ) -> Iterator[Wait]:
        """The conditions that decide whether a part continues, to be judged now, even if it no longer waits.

        With no identifier, those that kept a failed run from continuing. `find` knows the targets of steps.
        """


@runtime_checkable
class Retryable(Protocol):
    """An engine whose runs can be begun again from a part of an earlier one."""

    def plan_resume(
        self,
        definition: Any,
        before: Any,
        part: str | None,
        reusable: Iterable[Reusable],
        element: Lookup,
        find: Find,
        gave: tuple[int, ...] | None = None,
        /,
    ) -> Resume:
        """Plan what a new run takes over from an earlier one, to begin again from a part of it; or to go on
        behind the part, if it was done, and `gave` these elements.

        `reusable` are the inputs of the earlier run's calls. Raises RequestError where it cannot be done.
        """

    def resumed_from(self, state: Any, /) -> tuple[int, str] | None:
        """The run, and the part of it, from which this one was begun again."""


@runtime_checkable
class Redefinable(Protocol):
    """An engine whose runs follow a newer version of their definition as long as they have taken nothing.

    `advance` is told of it by `Redefined`.
    """

    def is_untouched(self, definition: Any, state: Any, find: Find, /) -> bool:
        """True while a run waits at its beginning: it has used no element, and made no call with effects.

        `find` has the definitions that count for the run.
        """


@runtime_checkable
class Renewable(Protocol):
    """An engine that says with which elements a run begins in place of one that is ended; for any other
    engine these are the first context.
    """

    def begun_anew(
        self, definition: Any, state: Any, newest: Any, /
    ) -> tuple[tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]]:
        """The elements, and those of inputs, for a run of the newest version. Raises RequestError if the run
        would not do what is intended.
        """


@runtime_checkable
class Migratable(Protocol):
    """An engine whose runs continue with another version of their definition from where they are.

    `advance` is told of it by `Migrated`.
    """

    def migrated(self, old: Any, new: Any, state: Any, names: Mapping[str, str], /) -> Migration:
        """Plan what becomes of a run in another version; `names` are those of parts that were renamed."""


@runtime_checkable
class HasTokens(Protocol):
    """An engine whose runs move tokens, which the user's code is shown."""

    def token_view(self, definition: Any, state: Any, token: int | None, /) -> dict[str, Any]:
        """A token, or with None the run alone, as plain data."""


@runtime_checkable
class HasDates(Protocol):
    """An engine whose parts wait for dates that come again."""

    def dates_of(self, definition: Any, part: str, /) -> tuple[Time, ...]:
        """The dates that a part waits for; empty for one that waits for none."""


@runtime_checkable
class HasEnvironment(Protocol):
    """An engine whose runs begin with attributes."""

    def read_environment(self, values: Mapping[str, Any], /) -> dict[str, str]:
        """The attributes as a run keeps them, without those that are None.

        Raises ValueError or TypeError where one cannot be kept.
        """


@runtime_checkable
class HeedsPeople(Protocol):
    """An engine whose runs depend on the directory of people."""

    def heeds_people(self, state: Any, /) -> str:
        """The signal that tells a run that the directory has changed; "" if that alters nothing."""


@runtime_checkable
class HasFailedParts(Protocol):
    """An engine whose runs go on although a part has failed, which then waits for a person."""

    def remedy(self, state: Any, error: int, option: str, /) -> str:
        """The remedy for a part that has failed and waits, by its error element; "" if there is none.

        `option` is what commands need to name the agent; "" for the home's own.
        """


@runtime_checkable
class Conceals(Protocol):
    """An engine whose runs keep something from those who look at them while they are under way (P27)."""

    def conceal(self, definition: Any, state: Any, line: dict[str, Any], /) -> dict[str, Any]:
        """A line of history as anybody may read it."""


def instead_of_retry(engine: Engine) -> str:
    """The advice that follows a refusal to begin a run again; "" if the kind gives none."""
    instead: str = getattr(engine, "instead_of_retry", "")
    return f": {instead}" if instead else ""


def instead_of_renewal(engine: Engine, run: int) -> str:
    """The advice that follows a refusal to begin a run anew; "" if the kind gives none."""
    instead: str = getattr(engine, "instead_of_renewal", "")
    return f"; {instead} {run}" if instead else ""


def tokens_of(engine: Engine) -> HasTokens:
    """The engine, if its runs move tokens. Raises RequestError."""
    if isinstance(engine, HasTokens):
        return engine
    raise RequestError(f"runs of kind {engine.kind} have no tokens")


def resumed_from(engine: Engine, state: Any) -> tuple[int, str] | None:
    """The run, and the part of it, from which this one was begun again; None if it was not."""
    retryable = _retryable(engine)
    return retryable.resumed_from(state) if retryable is not None else None


@cache
def _retryable(engine: Engine) -> Retryable | None:
    """The engine, if its runs can begin again: asked once, since a check against a protocol takes long."""
    return engine if isinstance(engine, Retryable) else None


@cache
def redefinable(engine: Engine) -> Redefinable | None:
    """The engine, if its runs may continue with another version; asked once."""
    return engine if isinstance(engine, Redefinable) else None


@cache
def with_failed_parts(engine: Engine) -> HasFailedParts | None:
    """The engine, if its runs go on although a part has failed; asked once."""
    return engine if isinstance(engine, HasFailedParts) else None


@cache
def concealing(engine: Engine) -> Conceals | None:
    """The engine, if its runs keep something from those who look; asked once."""
    return engine if isinstance(engine, Conceals) else None
