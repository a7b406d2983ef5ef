"""The view of an engine: memory, the run and the library, live within the turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

from narval.core.definitions.library import Library
from narval.core.definitions.people.directory import Directory
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element
from narval.core.engines.commands import Call, Command, Watch
from narval.core.engines.events import Caller, Plain
from narval.core.memory.labels import Labels, MadeOf
from narval.core.patterns.pattern import Bound, Pattern


class GuardVerdict(NamedTuple):
    """The verdict of a guard: whether it `holds`, and the labels of what decided it."""

    holds: bool
    labels: tuple[str, ...] = ()


def verdict_of(eids: Iterable[int]) -> GuardVerdict:
    """The verdict of a guard that holds if there is an element, in a memory without labels."""
    return GuardVerdict(next(iter(eids), None) is not None)


class MemoryView(Protocol):
    """Memory as an engine may read it."""

    @property
    def next_eid(self) -> int:
        """The eid of the next element."""

    def element(self, eid: int) -> Element | None:
        """The element, or None if it was forgotten."""

    @property
    def labels(self) -> Labels:
        """The labels of elements and runs."""

    def matching(self, bound: Bound, scope: MarkScope | None, *, newest_first: bool = False) -> Iterator[int]:
        """All elements that match and may be taken (not marked in `scope`), oldest first or newest first."""

    def among(self, eids: Iterable[int], bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        """The elements of `eids` that match and may be taken, in their order."""

    def fits(self, element: Element, bound: Bound) -> bool:
        """True if an element matches, whether it is in memory or not yet."""

    def judge(self, eids: Iterable[int], bound: Bound) -> GuardVerdict:
        """The verdict of a guard, which takes nothing: it holds if `eids`, all of which match, has an
        element. An engine that decides by elements it does not take must call this, so that its run gets the
        labels of the guard; the verdict passes them to a run that decides for others.
        """

    def reserved(self, bound: Bound, scope: MarkScope | None) -> bool:
        """True if some element would match if an active call had not reserved it."""

    def unique_seen(self, name: str, expression: str, value: str) -> bool:
        """True if a unique output has given this value before."""

    def schema_fault(self, xml: bytes) -> str | None:
        """The reason why the schema for the element's name refuses it, or None."""


FileTimes = dict[tuple[str, str], tuple[int, int]]
"""By folder and pattern, the first and last modification of a matching file, in nanoseconds; negative if
none.
"""


class RunView(Protocol):
    """The run and its surroundings as its engine may read them."""

    library: Library
    """The library that is searched first for definitions."""

    @property
    def zone(self) -> str:
        """The name of the home's time zone."""

    @property
    def up_since(self) -> float:
        """The moment since which the daemon has run without a break: dates before it were missed."""

    def was_missed(self, moment: float) -> bool:
        """True if the daemon was not running at a moment: an appointment then was missed."""

    def fits_since(self, eid: int, bound: Bound, scope: MarkScope | None, known: float = inf) -> float:
        """The moment when a matching element was added, or the first of those that it replaced.

        It replaced the elements it was made from that are outdated, matched and were not used in `scope`.
        Forgotten replaced elements are unknown; `known` is the moment returned before they were forgotten.
        """

    def current(self, eid: int) -> int | None:
        """The element that is valid in place of another: itself, or what replaced it, or None."""

    def text_of(self, expression: Pattern, elements: Mapping[str, Sequence[Element]]) -> str:
        """The value of an expression as text, given the elements of its variables."""

    def context(self, run: int) -> Iterable[int]:
        """The eids a run holds, oldest first."""

    def caller(self, run: int) -> Caller | None:
        """The run and step that called a run."""

    def name_of(self, run: int) -> str | None:
        """The full name of a run's definition, or None if the run was forgotten."""

    def definition(self, kind: str, name: str) -> Any:
        """The current definition of a kind and name, or None."""

    def note_sources(self, eid: int, made_of: MadeOf, /) -> None:
        """Give the parts of a new element the labels of their sources."""

    def pending_call(self, call: str) -> Call | None:
        """An active call of the run, as it was requested."""

    def active_watch(self, watch: str) -> Watch | None:
        """A watch of the run, as it was set."""

    def is_up_to_date(
        self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...], times: FileTimes, /
    ) -> bool:
        """True if these files exist now, and no needed file is newer (A9).

        `times` are those of files already checked within the event; new ones are added.
        """

    def apply(self, run: int, command: Command, /) -> None:
        """Apply an inner command of a run; only for the recorder."""


class PeopleView(Protocol):
    """People as an engine may ask about them."""

    @property
    def people(self) -> Directory:
        """The current directory of people; decisions based on it are recorded."""

    def answered_at(self, run: int, step: str) -> Iterable[str]:
        """The people who answered other items of a step in the top-level run of a run, or in one that it
        retries (P29).
        """

    def started_by(self, run: int) -> str:
        """The person who started the top-level run of a run; "" if unknown."""


class CodeView(Protocol):
    """The user's code as an engine may ask it."""

    @property
    def listeners(self) -> Mapping[str, int]:
        """The listeners of every process, each with the bits of the events it listens to."""

    def ask(self, function: str, arguments: Mapping[str, Plain], /) -> Plain:
        """The answer of the user's code, for a decision; bounded in time.

        `function` is KIND:NAME. Question and answer must be recorded in a change: a replay does not ask
        again. Raises ActionError if there is no such function, or it raises, or it takes too long.
        """


class View(MemoryView, RunView, PeopleView, CodeView, Protocol):
    """Everything that an engine may read, live within the turn."""
