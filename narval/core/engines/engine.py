"""The contract of an engine.

    advance(decision, event)
    change.apply(state) -> None

A `decision` has the definition, the state and the view, and records the changes and commands of one advance.
`advance` decides. Only changes alter a state, and only changes are stored, so recovery applies what was
recorded and never decides again. A decision applies each change and each inner command at once, so later ones
of the same advance see earlier ones. An engine reads no clock, draws no random number and opens no file;
moments and identifiers arrive in events.
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
from narval.core.engines.run_state import Migration
from narval.core.engines.story import Words
from narval.core.errors import RequestError
from narval.core.patterns.pattern import Bound


class Deaths(msgspec.Struct, frozen=True):
    """The times in a row that a part died and was started again; `until` then it counts as crashing."""

    times: int
    first: float
    last: float
    until: float
    text: str
    """The words for its last death."""


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing a run is waiting for."""

    id: str
    """The waiting part."""
    what: str
    """One of condition, time, call, try, again, input, join, signal, limit, person."""
    text: str = ""
    """The text for people."""
    conditions: tuple[Bound, ...] = ()
    """The conditions, each to be satisfied by an element."""
    scopes: tuple[MarkScope | None, ...] = ()
    """The scopes in which conditions mark what they use; elements marked there do not count."""
    calls: tuple[str, ...] = ()
    """The calls it waits for."""
    until: float | None = None
    """The moment it waits for."""
    lasting: tuple[float | None, ...] = ()
    """The seconds for which an element must match each condition; empty if there is no such condition."""
    reckoned: str = ""
    """The source of the computed date."""
    absent: tuple[bool, ...] = ()
    """True for each condition of absence; empty if there is none."""
    error: int = 0
    """The error element of a part that failed and waits for that reason; 0 for any other."""
    about: str = ""
    """The question a person is asked, on one line."""
    deaths: Deaths | None = None
    """The deaths of a running part that has died repeatedly."""
    given: tuple[int, ...] = ()
    """The elements that the calls to be tried again are given."""
    after: str = ""
    """The type of the error after which a call is to be tried again."""


Lookup = Callable[[int], Element | None]
"""The element of an eid, or None if it was forgotten."""

Find = Callable[[str, str], Any]
"""The current definition of a kind and name, or None."""


class Engine(Protocol):
    """The contract of each kind's module `engine`.

    Definitions and changes are the kind's own; its states derive from `RunState`. `Diagnoses`, `Retryable`,
    `HasEnvironment` and `HasTokens` are for the kinds that support them. A kind that is not retryable may
    name an alternative in `instead_of_retry`; one whose runs are not renewed, in `instead_of_renewal`.
    """

    def __hash__(self) -> int: ...

    @property
    def kind(self) -> str:
        """The kind of its runs."""

    @property
    def definition_kind(self) -> str:
        """The kind of the definitions they follow."""

    @property
    def changes(self) -> Any:
        """The union of its change types, used to decode the journal."""

    @property
    def state_type(self) -> Any:
        """The type of its states, used to decode a snapshot."""

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
        """The things the run is waiting for now; `watches` are those it has set."""

    def parts(self, definition: Any, state: Any, /) -> dict[str, list[dict[str, Any]]]:
        """The parts of the run with their states, as surfaces show them: each has an `id`.

        A part that waits for a moment may have `until`.
        """

    def graph(self, definition: Any, state: Any, /) -> Graph:
        """The run as nodes and edges, for drawing."""

    def explain(self, definition: Any, state: Any, identifier: str | None, /) -> Words | None:
        """The reason for a part's state, for people; None if there is no such part.

        Without an identifier, how the run as a whole ended; None if there is nothing to report.
        """


@runtime_checkable
class Diagnoses(Protocol):
    """An engine whose runs depend on elements of memory beyond those that they wait for now."""

    def diagnose(
        self, definition: Any, state: Any, identifier: str | None, element: Lookup, find: Find, /
    ) -> Iterator[Wait]:
        """The conditions that decide whether a part continues, to be judged now, even if it no longer waits.

        Without an identifier, those that kept a failed run from continuing. `find` finds the targets of
        steps.
        """


@runtime_checkable
class Retryable(Protocol):
    """An engine whose runs can be restarted from a part of an earlier one."""

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
        """Plan what a new run takes over from an earlier one, to restart from a part of it; or to continue
        after the part, if it was done and `gave` these elements.

        `reusable` are the inputs of the earlier run's calls. Raises RequestError if it is impossible.
        """

    def resumed_from(self, state: Any, /) -> tuple[int, str] | None:
        """The run, and its part, from which this one was restarted."""


@runtime_checkable
class Redefinable(Protocol):
    """An engine whose runs follow a newer version of their definition as long as they have taken nothing.

    `advance` receives `Redefined`.
    """

    def is_untouched(self, definition: Any, state: Any, find: Find, /) -> bool:
        """True while a run waits at its beginning: it has used no element and made no call with effects.

        `find` finds the definitions that the run uses.
        """


@runtime_checkable
class Renewable(Protocol):
    """An engine that chooses the elements with which a renewed run starts; for any other engine these are the
    first context.
    """

    def begun_anew(
        self, definition: Any, state: Any, newest: Any, /
    ) -> tuple[tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]]:
        """The elements, and those of inputs, for a run of the newest version. Raises RequestError if the run
        would not do what is intended.
        """


@runtime_checkable
class Migratable(Protocol):
    """An engine whose runs can continue from where they are with another version of their definition.

    `advance` receives `Migrated`.
    """

    def migrated(self, old: Any, new: Any, state: Any, names: Mapping[str, str], /) -> Migration:
        """Plan the migration of a run to another version; `names` maps renamed parts."""


@runtime_checkable
class HasTokens(Protocol):
    """An engine whose runs move tokens that are shown to the user's code."""

    def token_view(self, definition: Any, state: Any, token: int | None, /) -> dict[str, Any]:
        """A token as plain data; None: only the run."""


@runtime_checkable
class HasDates(Protocol):
    """An engine whose parts wait for recurring dates."""

    def dates_of(self, definition: Any, part: str, /) -> tuple[Time, ...]:
        """The dates that a part waits for; empty if it waits for none."""


@runtime_checkable
class HasEnvironment(Protocol):
    """An engine whose runs begin with attributes."""

    def read_environment(self, values: Mapping[str, Any], /) -> dict[str, str]:
        """The attributes as a run stores them, without those that are None.

        Raises ValueError or TypeError if one cannot be stored.
        """


@runtime_checkable
class HeedsPeople(Protocol):
    """An engine whose runs depend on the directory of people."""

    def heeds_people(self, state: Any, /) -> str:
        """The signal that tells a run that the directory has changed; "" if that does not affect it."""


@runtime_checkable
class HasFailedParts(Protocol):
    """An engine whose runs continue although a part has failed, which then waits for a person."""

    def remedy(self, state: Any, error: int, option: str, /) -> str:
        """The remedy for a part that has failed and waits, by its error element; "" if there is none.

        `option` is the command-line option that names the agent; "" for the home's own.
        """


@runtime_checkable
class Conceals(Protocol):
    """An engine that hides part of an active run from readers (P27)."""

    def conceal(self, definition: Any, state: Any, line: dict[str, Any], /) -> dict[str, Any]:
        """A line of history as shown to any reader."""


def instead_of_retry(engine: Engine) -> str:
    """The advice that follows a refusal to retry a run; "" if the kind gives none."""
    instead: str = getattr(engine, "instead_of_retry", "")
    return f": {instead}" if instead else ""


def instead_of_renewal(engine: Engine, run: int) -> str:
    """The advice that follows a refusal to renew a run; "" if the kind gives none."""
    instead: str = getattr(engine, "instead_of_renewal", "")
    return f"; {instead} {run}" if instead else ""


def tokens_of(engine: Engine) -> HasTokens:
    """The engine, if its runs move tokens. Raises RequestError."""
    if isinstance(engine, HasTokens):
        return engine
    raise RequestError(f"runs of kind {engine.kind} have no tokens")


def resumed_from(engine: Engine, state: Any) -> tuple[int, str] | None:
    """The run, and its part, from which this one was restarted; None if it was not."""
    retryable = _retryable(engine)
    return retryable.resumed_from(state) if retryable is not None else None


@cache
def _retryable(engine: Engine) -> Retryable | None:
    """The engine, if its runs can be restarted; cached, since checking a protocol is slow."""
    return engine if isinstance(engine, Retryable) else None


@cache
def redefinable(engine: Engine) -> Redefinable | None:
    """The engine, if its runs may continue with another version; cached."""
    return engine if isinstance(engine, Redefinable) else None


@cache
def with_failed_parts(engine: Engine) -> HasFailedParts | None:
    """The engine, if its runs continue although a part has failed; cached."""
    return engine if isinstance(engine, HasFailedParts) else None


@cache
def concealing(engine: Engine) -> Conceals | None:
    """The engine, if it hides part of an active run from readers; cached."""
    return engine if isinstance(engine, Conceals) else None
