"""The contract of an engine.

    advance(definition, state, event, view) -> changes, commands
    apply(state, change) -> None

`advance` decides; `apply` alone alters a state, and only changes are stored, so recovery applies what was
recorded and never decides again. `advance` works through a `Recorder`, which applies each change and lets
each inner command take effect at once: later decisions of the same advance see earlier ones. An engine reads
no clock, draws no random number and opens no file; moments and identifiers arrive in events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from narval.engines.commands import Call, Command, Outer, Watch
from narval.engines.events import Again, Caller, Event, Plain, Resume
from narval.memory.change import MarkScope
from narval.memory.element import Element
from narval.memory.match import Bound


class View(Protocol):
    """Memory and library as an engine may read them: live within the turn."""

    @property
    def next_eid(self) -> int:
        """The eid the next element will have."""

    @property
    def zone(self) -> str:
        """The name of the zone whose calendar the home keeps (N25)."""

    @property
    def since(self) -> float:
        """Since when somebody has been at work without a break: what was due before that was missed."""

    def element(self, eid: int) -> Element | None:
        """The element, or None when it was forgotten."""

    def matching(self, bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        """All of memory that fits and may be taken (not marked in `scope`), oldest first."""

    def among(self, eids: Iterable[int], bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        """Those of `eids` that fit and may be taken, in their order."""

    def fits(self, element: Element, bound: Bound) -> bool:
        """Whether an element, in memory or not yet, fits."""

    def context(self, run: int) -> Iterable[int]:
        """The eids a run holds, oldest first."""

    def caller(self, run: int) -> Caller | None:
        """Who called a run."""

    def reserved(self, bound: Bound, scope: MarkScope | None) -> bool:
        """Whether some element would fit if it were not reserved by a call now under way."""

    def keyed(self, name: str, expression: str, value: str) -> bool:
        """Whether a unique output gave this value before (N37)."""

    def is_up_to_date(self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...]) -> bool:
        """Whether these files are there now, and none that is needed is newer (A9)."""

    def definition(self, kind: str, name: str) -> Any:
        """The current definition of that kind and name, or None."""

    def asked(self, call: str) -> Call | None:
        """A call that the run has under way, as it was asked."""

    def watched(self, watch: str) -> Watch | None:
        """A watch that the run has set, as it was set."""

    def schema_fault(self, xml: bytes) -> str | None:
        """Why the schema of the element's name refuses it, or None (N7)."""

    @property
    def listeners(self) -> Mapping[str, int]:
        """Who hears of every process, and the bits of the events they hear of."""

    def ask(self, function: str, arguments: Mapping[str, Plain], /) -> Plain:
        """What the user's code says now, for a decision to go by; bounded in time.

        `function` is KIND:NAME. Question and answer are to be recorded in a change, so that nobody is asked
        again. Raises ActionError where there is no such function, where it raises, or takes too long.
        """

    def take(self, command: Command) -> None:
        """For the recorder alone: an inner command takes effect."""


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing a run waits for: `what` is one of condition, time, call, try, input, join, signal,
    person.

    `until` is a moment or None; `conditions` and `scopes` go together, as in `Watch`.
    """

    id: str
    what: str
    text: str = ""
    conditions: tuple[Bound, ...] = ()
    scopes: tuple[MarkScope | None, ...] = ()
    calls: tuple[str, ...] = ()
    until: float | None = None


Lookup = Callable[[int], Element | None]
"""The element of an eid, or None when it was forgotten."""

Find = Callable[[str, str], Any]
"""The current definition of that kind and name, or None."""

State = TypeVar("State")
Change = TypeVar("Change")


class Engine(Protocol):
    """What a module of `engines/` offers; definitions, states and changes are the kind's own."""

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

    def begin(self, run: int, definition: Any, /) -> Any:
        """A blank state."""

    def advance(
        self, definition: Any, state: Any, event: Event, view: View, /
    ) -> tuple[list[Any], list[Command]]:
        """What follows from one event: changes and commands."""

    def apply(self, state: Any, change: Any, /) -> None:
        """Alter the state as the change says."""

    def broken(
        self, definition: Any, state: Any, event: Event, view: View, error: int, /
    ) -> tuple[list[Any], list[Command]]:
        """What ends a run whose `advance` raised; `error` is the eid of the error element."""

    def render(self, definition: Any, state: Any, context: Iterable[int], /) -> bytes:
        """The run as an XML element (N2)."""

    def waits(self, definition: Any, state: Any, watches: dict[str, Watch], /) -> Iterator[Wait]:
        """What the run waits for now; `watches` are those it has set."""

    def parts(self, definition: Any, state: Any, /) -> dict[str, list[dict[str, Any]]]:
        """The parts of the run with their states, as surfaces show them: each has an `id`."""

    def reason(self, definition: Any, state: Any, identifier: str | None, /) -> str | None:
        """Why a part is in the state it is in, for people; None when there is none of that id.

        With no identifier, how the run as a whole came to its end; None when there is nothing to tell.
        """

    def judged(
        self, definition: Any, state: Any, identifier: str | None, element: Lookup, find: Find, /
    ) -> Iterator[Wait]:
        """What decides whether a part goes on, to be judged now, though it may not wait for it any more.

        With no identifier, what kept a failed run from going on. `find` knows what steps call.
        """

    def resumption(
        self, definition: Any, before: Any, part: str | None, given: Iterable[Again], element: Lookup, /
    ) -> Resume:
        """What a new run takes over from the state of an earlier one, to begin again from a part of it.

        `given` is what the calls of the earlier run were given. Raises RequestError where it cannot be done.
        """

    def resumed(self, state: Any, /) -> tuple[int, str] | None:
        """The run, and the part of it, from which this one was begun again."""

    def word(self, state: Any, /) -> str:
        """The kind's own word for the state of the run."""


class Recorder(msgspec.Struct, Generic[State, Change], eq=False):
    """What one advance decided so far: `changes` and `commands`, in order.

    `apply` is the engine's table of what each type of change does to a state.
    """

    state: State
    apply: Mapping[type, Callable[[State, Any], None]]
    event: Event
    view: View
    ordinal: int = 0
    changes: list[Change] = []
    commands: list[Command] = []

    def change(self, change: Change) -> None:
        """A fact decided: applied at once."""
        self.apply[type(change)](self.state, change)
        self.changes.append(change)

    def command(self, command: Command) -> None:
        """A wish: an inner one takes effect at once."""
        self.view.take(command)
        self.commands.append(command)

    def ask(self, command: Outer) -> None:
        """A wish that somebody outside performs, once the turn is recorded."""
        self.commands.append(command)

    def identifier(self) -> str:
        """A new identifier, unique in the home, derived from the event's id and an ordinal."""
        self.ordinal += 1
        return f"{self.event.id}.{self.ordinal}"
