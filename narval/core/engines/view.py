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
    """The verdict of a guard: whether it `holds`, and the labels of what decided that."""

    holds: bool
    labels: tuple[str, ...] = ()


def verdict_of(eids: Iterable[int]) -> GuardVerdict:
    """The verdict of a guard that holds if there is an element, where nothing has labels."""
    return GuardVerdict(next(iter(eids), None) is not None)


class MemoryView(Protocol):
    """Memory as an engine may read it."""

    @property
    def next_eid(self) -> int:
        """The eid the next element will have."""

    def element(self, eid: int) -> Element | None:
        """The element, or None when it was forgotten."""

    @property
    def labels(self) -> Labels:
        """The labels of elements and runs."""

    def matching(self, bound: Bound, scope: MarkScope | None, *, newest_first: bool = False) -> Iterator[int]:
        """All of memory that fits and may be taken (not marked in `scope`), oldest first or newest."""

    def among(self, eids: Iterable[int], bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        """The elements of `eids` that fit and may be taken, in their order."""

    def fits(self, element: Element, bound: Bound) -> bool:
        """True if an element, in memory or not yet, fits."""

    def judge(self, eids: Iterable[int], bound: Bound) -> GuardVerdict:
        """The verdict of a guard, which takes nothing: it holds if there is an element of `eids`, which all
        fit. An engine that decides by what it does not take must ask this, so that its run gets the labels of
        the guard; the verdict gives them to a run that decides for others.
        """

    def reserved(self, bound: Bound, scope: MarkScope | None) -> bool:
        """True if some element would fit if it were not reserved by a call now under way."""

    def unique_seen(self, name: str, expression: str, value: str) -> bool:
        """True if a unique output gave this value before."""

    def schema_fault(self, xml: bytes) -> str | None:
        """Why the schema of the element's name refuses it, or None."""


FileTimes = dict[tuple[str, str], tuple[int, int]]
"""By folder and pattern, the first and the last moment at which a file that fits was altered, in nanoseconds;
less than 0 where none does."""


class RunView(Protocol):
    """The run and its surroundings as its engine may read them."""

    library: Library
    """The library in which definitions are looked for first."""

    @property
    def zone(self) -> str:
        """The name of the zone whose calendar the home keeps."""

    @property
    def up_since(self) -> float:
        """The moment since which the daemon has been at work without a break: dates before it were missed."""

    def was_missed(self, moment: float) -> bool:
        """True if the daemon was not at work at a moment: an appointment then was missed."""

    def fits_since(self, eid: int, bound: Bound, scope: MarkScope | None, known: float = inf) -> float:
        """The moment when an element that fits was added, or the first of those that it replaced.

        It replaced what it was made from, where that is outdated now, fitted and was not used in `scope`.
        What was replaced and is forgotten is no longer known; `known` is the moment told before it was.
        """

    def current(self, eid: int) -> int | None:
        """The element that counts in place of another: itself, or what replaced it, or None."""

    def text_of(self, expression: Pattern, elements: Mapping[str, Sequence[Element]]) -> str:
        """The text that an expression gives of the elements that its variables stand for."""

    def context(self, run: int) -> Iterable[int]:
        """The eids a run holds, oldest first."""

    def caller(self, run: int) -> Caller | None:
        """The run and step that called a run."""

    def name_of(self, run: int) -> str | None:
        """The full name of the definition that a run follows, or None when it was forgotten."""

    def definition(self, kind: str, name: str) -> Any:
        """The current definition of that kind and name, or None."""

    def note_sources(self, eid: int, made_of: MadeOf, /) -> None:
        """Give the parts of a new element the labels of what they say something of."""

    def pending_call(self, call: str) -> Call | None:
        """A call that the run has under way, as it was asked."""

    def active_watch(self, watch: str) -> Watch | None:
        """A watch that the run has set, as it was set."""

    def is_up_to_date(
        self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...], times: FileTimes, /
    ) -> bool:
        """True if these files are there now, and none that is needed is newer (A9).

        `times` are those of files that were looked at before within the event; new ones are added.
        """

    def apply(self, run: int, command: Command, /) -> None:
        """Let an inner command of a run take effect; for the recorder alone."""


class PeopleView(Protocol):
    """People as an engine may ask about them."""

    @property
    def people(self) -> Directory:
        """The directory of people as it is now; what is decided by it is recorded."""

    def answered_at(self, run: int, step: str) -> Iterable[str]:
        """The people who answered other items of a step in the top-level run that a run belongs to, or in one
        that this is a retry of (P29).
        """

    def started_by(self, run: int) -> str:
        """The person who started the top-level run that a run belongs to; "" if that is not known."""


class CodeView(Protocol):
    """The user's code as an engine may ask it."""

    @property
    def listeners(self) -> Mapping[str, int]:
        """The listeners of every process, and the bits of the events they hear of."""

    def ask(self, function: str, arguments: Mapping[str, Plain], /) -> Plain:
        """The answer of the user's code, for a decision to go by; bounded in time.

        `function` is KIND:NAME. Question and answer are to be recorded in a change: a replay does not ask
        again. Raises ActionError where there is no such function, where it raises, or takes too long.
        """


class View(MemoryView, RunView, PeopleView, CodeView, Protocol):
    """All that an engine may read, live within the turn."""
