"""The contract of an engine.

    advance(definition, state, event, view) -> changes, commands
    apply(state, change) -> None

`advance` decides; `apply` alone alters a state, and only changes are stored, so recovery applies what was
recorded and never decides again. `advance` works through a `Recorder`, which applies each change and lets each
inner command take effect at once: later decisions of the same advance see earlier ones. An engine reads no
clock, draws no random number and opens no file; moments and identifiers arrive in events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from narval.engines.commands import Command
from narval.engines.events import Caller, Event
from narval.memory.change import MarkScope
from narval.memory.element import Element
from narval.memory.match import Bound


class View(Protocol):
    """Memory and library as an engine may read them: live within the turn."""

    @property
    def next_eid(self) -> int:
        """The eid the next element will have."""

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

    def definition(self, kind: str, name: str) -> Any:
        """The current definition of that kind and name, or None."""

    def schema_fault(self, xml: bytes) -> str | None:
        """Why the schema of the element's name refuses it, or None (N7)."""

    def ask(self, function: str, arguments: tuple[Any, ...]) -> Any:
        """What user code answers; bounded in time; the question and the answer are recorded."""

    def take(self, command: Command) -> None:
        """For the recorder alone: an inner command takes effect."""


State = TypeVar("State")
Change = TypeVar("Change")


class Engine(Protocol[State, Change]):
    """What a module of `engines/` offers."""

    kind: str
    changes: Any
    """The union of the kind's change types, for the journal to read them back."""

    def begin(self, run: int, definition: Any) -> State:
        """A blank state."""

    def advance(
        self, definition: Any, state: State, event: Event, view: View
    ) -> tuple[list[Change], list[Command]]:
        """What follows from one event."""

    def apply(self, state: State, change: Change) -> None:
        """Alter the state as the change says."""

    def render(self, definition: Any, state: State) -> bytes:
        """The run as an XML element (N2)."""

    def word(self, state: State) -> str:
        """The kind's own word for the state of the run."""


class Recorder(Generic[State, Change]):
    """What one advance decided so far: `changes` and `commands`, in order."""

    __slots__ = ("_apply", "_event", "_ordinal", "_state", "_view", "changes", "commands")

    def __init__(self, state: State, apply: Callable[[State, Change], None], event: Event, view: View) -> None:
        self._state, self._apply, self._view = state, apply, view
        self._event, self._ordinal = event.id, 0
        self.changes: list[Change] = []
        self.commands: list[Command] = []

    def change(self, change: Change) -> None:
        """A fact decided: applied at once."""
        self._apply(self._state, change)
        self.changes.append(change)

    def command(self, command: Command) -> None:
        """A wish: an inner one takes effect at once."""
        self._view.take(command)
        self.commands.append(command)

    def identifier(self) -> str:
        """A new identifier, unique in the home, derived from the event's id and an ordinal."""
        self._ordinal += 1
        return f"{self._event}.{self._ordinal}"
