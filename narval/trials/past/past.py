"""The past of an agent since a day: its memory of that day, and everything that arrived since then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Generator, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from lxml import etree

from narval.agent.declared import MEMORY
from narval.core.definitions.library import Library
from narval.core.definitions.unique import unique_value
from narval.core.elements.element import Element, Origin, Tree, identity, parse
from narval.core.elements.names import CONTROLS, STARTING
from narval.core.engines.registry import is_beside, runnable
from narval.core.kinds import KINDS
from narval.files.agents.senders import HOOK_ORIGIN as HOOK
from narval.store.batch import KeptElement, MarkRow, RunRow
from narval.trials.past.stores import Answers, PastStores
from narval.trials.simulate.memory_copy import Remembered

Row = TypeVar("Row")

ERROR = "error"
UNKNOWN = "?"
"""The way of an element whose run is forgotten: it may come from a source, or from any other step."""

FEW = 250
"""The arrivals played between two checks for an end of the play, and two reports of progress."""

_DEFINITIONS = frozenset(
    name for kind, of in KINDS.items() for name in (kind, *of.roots, *of.declared, *of.declarations)
)
"""The names of elements that are definitions: they came from files, not from outside."""

Stopped = Callable[[], bool]
"""A function that is True after the end is requested."""


class Coming(NamedTuple):
    """An element that came from outside, with its labels; `outdates` are the elements that it replaced,
    `counts` says that nothing has outdated it since.
    """

    at: float
    eid: int
    xml: bytes
    way: str
    origin: Origin | None
    outdates: tuple[int, ...]
    counts: bool
    labels: tuple[str, ...]


class Reach(msgspec.Struct):
    """The known part of the past, and the amount that is no longer known."""

    since: float
    """The day."""
    oldest: float | None = None
    """The moment of the oldest stored element that no file declares."""
    remembered: int = 0
    """The stored elements of that day."""
    forgotten_before: int = 0
    """Elements and runs from before that are no longer stored."""
    forgotten_since: int = 0
    """Elements and runs since then that are no longer stored."""
    unknown: int = 0
    """Elements that may have come from outside: their runs are forgotten."""
    came: Counter[str] = msgspec.field(default_factory=Counter)
    """The arrivals, by the way they came."""
    read_to_the_end: bool = True
    """False if the reading was ended early."""


class Past:
    """The past of an agent from a day on, according to its stores; `library` has the current definitions."""

    def __init__(
        self,
        stores: PastStores,
        library: Library,
        since: float,
        stopped: Stopped,
        told: Callable[[int], None],
    ) -> None:
        self._stores, self._library, self._stopped, self._told = stores, library, stopped, told
        self.reach = Reach(since)
        self.answers = Answers(stores.element, self._is_outside)
        self.at_work: list[str] = []
        """The definitions of that day's active runs that no other run had called."""
        self.memory = Remembered()
        """The memory of that day."""
        self.milestones: list[float] = []
        """The moments between which few things arrived."""
        self._runs: dict[int, tuple[str, float]] = {}
        self._labels: dict[int, tuple[str, ...]] = {}
        """The labels of elements and runs since that day."""
        self._declared = {
            identified: row.declared
            for row in stores.declared()
            if row.declared.startswith(MEMORY) and (identified := identity(row.element)) is not None
        }
        """The keys under which `data/memory.xml` declares elements, by the elements' identity."""
        self._declared_names = {row.element.name for row in stores.declared() if row.declared}
        self._source = lru_cache(1024)(self._source_of)
        self._read()

    def comings(self) -> Generator[Coming]:
        """The arrivals from outside, in order of time, each read when needed."""
        since = self.reach.since
        within = 0
        for row in self._stores.elements() if self.reach.read_to_the_end else ():
            element = row.element
            if element.eid <= within:
                continue  # a control element holds it, and adds it again
            if element.added >= since and (way := self._way(row)) not in ("", UNKNOWN):
                origin = element.origin
                outdates = origin.inputs if origin is not None and not origin.run else ()
                if element.name in STARTING:
                    within = element.eid + len(parse(element.xml))
                yield Coming(
                    element.added,
                    element.eid,
                    element.xml,
                    way,
                    _outer(origin),
                    outdates,
                    counts=not row.outdated,
                    labels=self._labels.get(element.eid, ()),
                )

    # --- reading --------------------------------------------------------------------------------------

    def _read(self) -> None:
        since = self.reach.since
        runs_before = 0
        for row in self._stores.runs():
            self._runs[row.eid] = row.name, row.started
            runs_before += row.started < since
            self._note_work(row)
        self.answers.read(self._counted(self._stores.journal(since)))
        self.answers.finish()
        elements_before, first, last = self._elements()
        self.reach.forgotten_before = max(0, first - 1 - elements_before - runs_before)
        numbers, there = last - first + 1, len(self._runs) - runs_before
        self.reach.forgotten_since = max(0, numbers - there - self._elements_since)
        days = {each.element.eid for each in self.memory.elements}
        marks = {mark for mark in self._stores.marks() if mark.eid in days and self._was_made(mark)}
        labels = self._read_labels(days)
        withdrawals = [row for row in self._stores.withdrawals() if row.eid in days and not row.doubtful]
        used: dict[str, Any] = {"withdrawals": withdrawals, "marks": sorted(marks), "labels": labels}
        self.memory = msgspec.structs.replace(self.memory, **used, next_eid=first)
        self.reach.read_to_the_end = not self._stopped()

    def _read_labels(self, days: Container[int]) -> list[tuple[int, str]]:
        """The labels of that day's elements; those of later ones are cached."""
        there, shared = set[tuple[int, str]](), dict[tuple[str, ...], tuple[str, ...]]()
        for eid, label in self._stores.labels():
            if eid in days:
                there.add((eid, label))
            elif label not in (labels := self._labels.get(eid, ())):
                labels = (*labels, label)
                self._labels[eid] = shared.setdefault(labels, labels)  # there are few distinct sets
        return sorted(there)

    def _counted(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Rows as they are read, until the end is requested."""
        for number, row in enumerate(rows):
            if number % 1_000 == 0:
                self._told(number)
                if self._stopped():
                    return
            yield row

    def _note_work(self, row: RunRow) -> None:
        since = self.reach.since
        if row.parent_run or is_beside(row.kind) or row.name in self.at_work:
            return
        if row.started < since and (row.ended is None or row.ended >= since):
            self.at_work.append(row.name)

    def _elements(self) -> tuple[int, int, int]:
        """Read the elements; returns the number of earlier ones, the first number since, and the last."""
        reach, since = self.reach, self.reach.since
        day: dict[int, KeptElement] = {}
        keys = _Keys(self._stores.keys())
        first, last, self._elements_since = 0, 0, 0
        for row in self._counted(self._stores.elements()):
            element = row.element
            last = element.eid
            if reach.oldest is None and not row.declared and element.name not in _DEFINITIONS:
                reach.oldest = element.added
            if element.added < since:
                day[element.eid] = row._replace(
                    outdated=row.outdated and element.eid not in self.answers.outdated
                )
                continue
            first = first or element.eid
            self._elements_since += 1
            keys.drop(element)
            way = self._way(row)
            if way == UNKNOWN:
                reach.unknown += 1
            elif way:
                reach.came[way] += 1
                if reach.came.total() % FEW == 0:
                    self.milestones.append(element.added)
                origin = element.origin
                for eid in origin.inputs if origin is not None and not origin.run else ():
                    if (old := day.get(eid)) is not None:  # it was current until this came
                        day[eid] = old._replace(outdated=False)
        first = first or last + 1
        first = min([first, *(eid for eid, (_, started) in self._runs.items() if started >= since)])
        last = max([last, *self._runs])
        self._declare(day)
        reach.remembered = len(day)
        self.memory = Remembered(list(day.values()), keys=list(keys.left))
        return len(day), first, last

    def _declare(self, day: dict[int, KeptElement]) -> None:
        """Give that day's elements the declaration that has since passed to their replacements."""
        there = {row.declared for row in day.values()}
        for eid, row in reversed(day.items()):
            key = "" if row.outdated or row.declared else self._key_of(row.element)
            if key and key not in there:
                there.add(key)
                day[eid] = row._replace(declared=key)

    def _key_of(self, element: Element) -> str:
        """The key under which `data/memory.xml` declares an element of that identity, or ""."""
        identified = identity(element) if element.name in self._declared_names else None
        return self._declared.get(identified, "") if identified is not None else ""

    def _was_made(self, mark: MarkRow) -> bool:
        """True if an element was used before that day, as far as known."""
        return self._runs.get(mark.run, ("", 0.0))[1] < self.reach.since

    # --- elements from outside ------------------------------------------------------------------------

    def _way(self, row: KeptElement) -> str:
        """The way an element came from outside; "" if it did not, or UNKNOWN."""
        element, origin = row.element, row.element.origin
        if row.declared or row.fault or (element.name in CONTROLS and element.name not in STARTING):
            return ""
        if origin is None:
            inner = element.name in _DEFINITIONS or element.name == ERROR or bool(self._key_of(element))
            return "" if inner else "by hand"
        if not origin.run:
            return _way_of(origin)
        if origin.run not in self._runs:
            return UNKNOWN
        return self._source(origin.run, origin.step)

    def _source_of(self, run: int, step: str) -> str:
        """The source that a step of a run watches; "" for any other step."""
        definition = runnable(self._library, self._runs[run][0])
        target = getattr(getattr(definition, "steps", {}).get(step), "target", "")
        action = self._library.get("action", target)
        return target if getattr(action, "where", "") == "source" else ""

    def _is_outside(self, name: str) -> bool:
        action = self._library.get("action", name)
        return action is not None and not getattr(action, "pure", False)


class _Keys:
    """The values of `unique` outputs, without those of elements that have not arrived yet."""

    def __init__(self, keys: Iterator[tuple[str, str, str]]) -> None:
        self.left = set(keys)
        self._expressions: dict[str, set[str]] = {}
        for name, expression, _ in self.left:
            self._expressions.setdefault(name, set()).add(expression)

    def drop(self, element: Element) -> None:
        """Remove those of an element."""
        for expression in self._expressions.get(element.name, ()):
            tree = Tree(element)
            with suppress(etree.XPathError):  # its namespaces are unknown: it stays
                attribute = expression.removeprefix("@")
                plain = expression.startswith("@") and attribute.isidentifier()
                value = tree.get(attribute) if plain else unique_value(expression, {}, tree)
                self.left.discard((element.name, expression, value or ""))


def _way_of(origin: Origin) -> str:
    if origin.step.startswith(HOOK):
        return origin.step
    if origin.step:
        return "inbox"
    return f"agent {origin.agent}" if origin.agent else "by hand"


def _outer(origin: Origin | None) -> Origin | None:
    """The part of an origin that does not depend on any run of the past."""
    return None if origin is None else msgspec.structs.replace(origin, run=0, call="", inputs=())
