"""Incidents of an agent, in rows: those that differ only in numbers and quoted texts share a row (M52).

An error of a run is read here too: what it is, and which of the run's own parts raised it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import NamedTuple

import msgspec

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.transaction import ERRORS
from narval.core.elements.element import Element
from narval.core.elements.own_elements import FAILURE, read_error, read_failure
from narval.core.engines.engine import with_failed_parts
from narval.core.engines.story import part_word_of
from narval.core.source.secrets import without_secrets


class RunError(NamedTuple):
    """The error element of a run, read."""

    element: Element
    kind: str
    message: str
    step: str
    """The part of the run, its step or state, that failed; "" if none did, or none is known."""
    where: str
    """The part in words, such as ` in step send`; "" for none."""


def error_of(agent: AgentState, run: Run) -> RunError | None:
    """The error of a run; None if it has none, or the error was forgotten.

    For an error of a called run, the step is the one that called it, not a step of that run.
    """
    element = agent.memory.element(run.error) if run.error is not None else None
    if element is None:
        return None
    kind, message, named = read_error(element)
    origin = element.origin
    step = named or (origin.step if origin is not None else "")
    if origin is not None and origin.run != run.eid:
        step = _calling_step(agent, run, origin.run)
    part = f"{part_word_of(run.engine)} {step}".strip() if step else ""
    return RunError(element, kind, message, step, f" in {part}" if part else "")


def remedy_of(agent: AgentState, eid: int, by: int) -> str:
    """The remedy for an error that keeps a part of an active run `by` from continuing; "" for none."""
    run = agent.runs.active.get(by)
    engine = with_failed_parts(run.engine) if run is not None and run.state is not None else None
    if run is None or engine is None:
        return ""
    return engine.remedy(run.state, eid, agent.option)


def _calling_step(agent: AgentState, run: Run, within: int) -> str:
    """The step of a run that called another, directly or through other runs; "" if none did."""
    called = agent.runs.get(within)
    while called is not None and called.caller is not None:
        if called.caller.run == run.eid:
            return called.caller.step
        called = agent.runs.get(called.caller.run)
    return ""


RUN, ERROR, FILE = "run", "error", "file"
"""The sorts of incidents: a failed run, an error element outside runs, a file with faults."""

NAMES = (FAILURE, *ERRORS)

_QUOTED = re.compile(r"""(?<!\w)(['"`]).*?\1(?!\w)|“[^”]*”|«[^»]*»""", re.DOTALL)
_NUMBER = re.compile(r"\w*\d[\w.,:+-]*")


def alike(message: str) -> str:
    """A message without numbers and quoted texts, the parts in which similar messages differ."""
    return _NUMBER.sub("#", _QUOTED.sub("…", message))


class Incident(msgspec.Struct, frozen=True):
    """The incident that one element reports: its sort, the kind of the run, the definition or file, the part,
    the type of the error and its message.
    """

    what: str
    kind: str
    definition: str
    part: str
    type: str
    message: str

    @property
    def id(self) -> str:
        """The identifier of the row that it belongs to."""
        key = (self.what, self.definition, self.part, self.type, alike(self.message))
        return hashlib.sha256("\0".join(key).encode("utf-8", "replace")).hexdigest()[:8]


MOST_LEFT = 10_000
"""The most skipped elements that one look records."""


class IncidentRow(msgspec.Struct):
    """Similar incidents: the newest, and the moment and run (0: none) of each by its element."""

    newest: Incident
    of: dict[int, tuple[float, int]] = msgspec.field(default_factory=dict)


class IncidentRows:
    """The incidents of an agent, in rows, as of the last look at memory."""

    def __init__(self, agent: AgentState) -> None:
        self._agent, self._seen = agent, 0
        self.rows: dict[str, IncidentRow] = {}
        """The rows by identifier."""
        self._row_of: dict[int, str] = {}
        self._left: list[int] = []
        """The newest of the elements that looks have skipped."""
        self._of_parts: set[int] = set()
        """The elements for parts that failed in runs that continue."""

    def look(self, most: int | None = None) -> Iterator[int]:
        """Read the errors added since the last look (the newest `most`) and drop incidents that are closed.

        A generator that pauses before each element: run it to its end.
        """
        memory = self._agent.memory
        new = takewhile(lambda eid: eid > self._seen, memory.index.newest_named(NAMES))
        newest = list(islice(new, most))
        self._left += islice(new, MOST_LEFT)
        for eid in reversed(newest):
            yield eid
            if eid <= self._seen:  # another look was faster
                continue
            self._seen = eid
            element = memory.element(eid) if eid not in memory.outdated else None
            if element is not None:
                self.put(element)
        for eid in [eid for eid in self._row_of if eid in memory.outdated or eid not in memory]:
            self.drop(eid)

    @property
    def is_cut(self) -> bool:
        """True if looks have skipped incidents that are still open."""
        memory = self._agent.memory
        while self._left:
            eid = self._left[-1]
            element = memory.element(eid) if eid not in memory.outdated else None
            if element is not None and incident(self._agent, element) is not None:
                return True
            self._left.pop()
        return False

    def count(self, what: str) -> int:
        """The number of incidents of a sort."""
        return sum(len(row.of) for row in self.rows.values() if row.newest.what == what)

    def drop_mended(self) -> None:
        """Drop the elements of parts that no longer wait for a person."""
        for eid in tuple(self._of_parts):
            element = self._agent.memory.element(eid)
            if element is None or not _remedy(self._agent, element):
                self.drop(eid)

    def put(self, element: Element) -> None:
        """Add an element that reports an incident; ignore any other."""
        fresh = incident(self._agent, element)
        if fresh is None or element.eid in self._row_of:
            return
        row = self.rows.get(fresh.id)
        if row is None:
            row = self.rows[fresh.id] = IncidentRow(fresh)
        elif element.eid > next(reversed(row.of)):  # they come in ascending or descending order
            row.newest = fresh
        run = element.origin.run if element.origin is not None and fresh.what == RUN else 0
        row.of[element.eid], self._row_of[element.eid] = (element.added, run), fresh.id
        if fresh.what == ERROR and _remedy(self._agent, element):
            self._of_parts.add(element.eid)

    def drop(self, eid: int) -> None:
        """Forget an element."""
        id = self._row_of.pop(eid)
        self._of_parts.discard(eid)
        del self.rows[id].of[eid]
        if not self.rows[id].of:
            del self.rows[id]


def incident(agent: AgentState, element: Element) -> Incident | None:
    """The incident that an element reports. None for an error that a run itself handles, for an error of a
    source, which is transient, and for a `failure` that narval did not make. A part that waits for a person
    because of its error is reported: the run does not handle that error.

    A run does not hold what a source gave. An error of a source that has a `key` is about one thing, such as
    a mail, and is not transient.
    """
    origin = element.origin
    run = agent.runs.get(origin.run) if origin is not None and origin.run else None
    if element.name == FAILURE:
        if run is None or run.phase != "failed" or run.caller is not None or (origin and origin.call):
            return None
        kind, name, step, cause, message = read_failure(element)
        return Incident(RUN, kind, name, step, cause, message)
    if run is not None:
        passes = origin is not None and origin.call and not element.attributes.get("key")
        is_held = agent.memory.contexts.holds(run.eid, element.eid)
        if (passes or is_held) and not _remedy(agent, element):
            return None
    elif origin is not None and origin.run:
        return None
    cause, message, step = read_error(element)
    about = run.name if run is not None else element.attributes.get("path") or ""
    is_file = cause == "bad-file" and origin is None
    step = step or (origin.step if origin is not None and run is not None else "")
    return Incident(FILE if is_file else ERROR, "", about, step, cause, without_secrets(message))


def _remedy(agent: AgentState, element: Element) -> str:
    """The remedy for the error of a failed part in a run that continues; "" for any other."""
    return remedy_of(agent, element.eid, element.origin.run) if element.origin is not None else ""
