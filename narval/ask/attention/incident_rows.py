"""Rows of incidents: alike ones are one, whatever numbers and quoted texts their messages have (M52)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import msgspec

from narval.agent.agent import AgentState
from narval.agent.transaction import ERRORS
from narval.core.elements.element import Element
from narval.core.elements.error_element import read_error
from narval.core.elements.failure_element import FAILURE, read_failure
from narval.core.source.secrets import without_secrets
from narval.daemon.agents.news import News
from narval.daemon.daemon import Daemon
from narval.system.time_slice import TimeSlice

RUN, ERROR, FILE = "run", "error", "file"
"""Sorts of incidents: a run that failed, an error element outside runs, a file with faults."""

NAMES = (FAILURE, *ERRORS)

_QUOTED = re.compile(r"""(?<!\w)(['"`]).*?\1(?!\w)|“[^”]*”|«[^»]*»""", re.DOTALL)
_NUMBER = re.compile(r"\w*\d[\w.,:+-]*")


def alike(message: str) -> str:
    """A message without what differs between alike ones: its numbers and quoted texts."""
    return _NUMBER.sub("#", _QUOTED.sub("…", message))


class Incident(msgspec.Struct, frozen=True):
    """One element's story: a run, an error or a file; the kind of the run, the definition or file, the
    part, the type of the error and its message.
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


class IncidentRow(msgspec.Struct):
    """Alike incidents: the newest of them, and each one's moment and run (0: none) by the element."""

    newest: Incident
    of: dict[int, tuple[float, int]] = msgspec.field(default_factory=dict)


class IncidentRows:
    """Incidents by rows."""

    def __init__(self) -> None:
        self.rows: dict[str, IncidentRow] = {}
        """The rows by identifier."""
        self._row_of: dict[int, str] = {}

    @property
    def eids(self) -> Iterable[int]:
        """The elements that tell of the incidents."""
        return self._row_of

    def put(self, agent: AgentState, element: Element) -> None:
        """Know an element that tells of an incident; any other is passed over."""
        found = incident(agent, element)
        if found is None or element.eid in self._row_of:
            return
        row = self.rows.get(found.id)
        if row is None:
            row = self.rows[found.id] = IncidentRow(found)
        elif element.eid > next(reversed(row.of)):  # they come in order, this way or that
            row.newest = found
        run = element.origin.run if element.origin is not None and found.what == RUN else 0
        row.of[element.eid], self._row_of[element.eid] = (element.added, run), found.id

    def drop(self, eid: int) -> None:
        """Know one no more."""
        id = self._row_of.pop(eid)
        del self.rows[id].of[eid]
        if not self.rows[id].of:
            del self.rows[id]


class OpenIncidents(IncidentRows):
    """The incidents of an agent that no one has dealt with: those whose elements count still.

    To look costs nothing while no element comes or goes; else what is new since the last look, and what is
    open.
    """

    def __init__(self, agent: AgentState) -> None:
        super().__init__()
        self._agent, self._seen, self._turn = agent, 0, 0

    async def look(self, news: News, now: float) -> dict[str, IncidentRow]:
        """Their rows as of the last turn that is recorded."""
        changes = news.since(self._turn, now)
        if changes is not None:
            if changes.elements:
                await self._follow()
            self._turn = changes.turn
        return self.rows

    async def _follow(self) -> None:
        memory, time_slice = self._agent.memory, TimeSlice()
        new: list[int] = []
        for eid in memory.index.newest_named(NAMES):
            if eid <= self._seen:
                break
            new.append(eid)
        for eid in reversed(new):
            await time_slice.yield_if_due()
            if eid <= self._seen:  # another has looked meanwhile
                continue
            self._seen = eid
            element = memory.element(eid) if eid not in memory.outdated else None
            if element is not None:
                self.put(self._agent, element)
        for eid in [eid for eid in self.eids if eid in memory.outdated or eid not in memory]:
            self.drop(eid)


async def open_rows(daemon: Daemon) -> dict[str, IncidentRow]:
    """The open incidents by row."""
    host = daemon.host
    return await host.listings.kept(OpenIncidents).look(host.waiters.news, daemon.rounds.clock.now())


def incident(agent: AgentState, element: Element) -> Incident | None:
    """The incident that an element tells of; None for an error that a run has to do with by itself, and for
    a `failure` that is not narval's own.
    """
    origin = element.origin
    run = agent.runs.get(origin.run) if origin is not None and origin.run else None
    if element.name == FAILURE:
        if run is None or run.phase != "failed" or run.caller is not None or (origin and origin.call):
            return None
        kind, name, step, cause, message = read_failure(element)
        return Incident(RUN, kind, name, step, cause, message)
    if run is not None:
        made = origin.call if origin is not None else ""
        if made or agent.memory.contexts.holds(run.eid, element.eid):
            return None
    elif origin is not None and origin.run:
        return None
    cause, message, step = read_error(element)
    about = element.attributes.get("path") or (run.name if run is not None else "")
    is_file = cause == "bad-file" and origin is None
    return Incident(FILE if is_file else ERROR, "", about, step, cause, without_secrets(message))
