"""What an engine may read: memory and library, live within the turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from narval.engines.commands import Call, Command, Watch
from narval.engines.events import Caller, Plain
from narval.memory.elements.changes import MarkScope
from narval.memory.elements.element import Element
from narval.memory.patterns.pattern import Bound


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

    def unique_seen(self, name: str, expression: str, value: str) -> bool:
        """Whether a unique output gave this value before (N37)."""

    def is_up_to_date(self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...]) -> bool:
        """Whether these files are there now, and none that is needed is newer (A9)."""

    def definition(self, kind: str, name: str) -> Any:
        """The current definition of that kind and name, or None."""

    def asked(self, call: str) -> Call | None:
        """A call that the run has under way, as it was asked."""

    def active_watch(self, watch: str) -> Watch | None:
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

    def apply(self, command: Command) -> None:
        """For the recorder alone: let an inner command take effect."""
