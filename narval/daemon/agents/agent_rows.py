"""The agents of a home besides its own, as a daemon counts them: their rows (G1), the memory that active
ones take (G6), and their open matters.

For an active agent, a query examines what is new since the last query, and what was open then. An agent
that becomes passive records its numbers, so that they are known while it is not in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from narval.agent.agent import AgentState
from narval.agent.incidents import ERROR, RUN, IncidentRows
from narval.agent.turn import Turn
from narval.core.agent_name import AT, peer_of, row_of_peer, stands_for_peer
from narval.core.definitions.suggestions import nearest
from narval.core.engines.registry import asking_kinds
from narval.core.errors import NotFoundError, RequestError
from narval.daemon.agents.agent_host import AgentHost
from narval.files.settings import CurrentSettings
from narval.store.batch import PASSIVE, SUSPENDED, AgentRow
from narval.store.store import Store

SHOWN = 20
"""The most names that a refusal lists."""


class AgentRows:
    """The rows of all agents but the home's `own`, whose present name is in the `settings`.

    On a store that daemons share, these are the agents that this daemon has. With `is_thin`, only the name
    and number of a passive agent are in memory: the store has the rest. Rows that represent peers are
    included, but are neither listed nor counted as agents.
    """

    def __init__(self, own: AgentRow, settings: CurrentSettings, store: Store, *, is_thin: bool) -> None:
        self._own, self._settings = own, settings
        self._store, self._is_thin = store, is_thin
        self._peers: set[str] = set()
        """The names of the rows that represent peers."""
        self._rows: dict[str, AgentRow | int] = {}
        """The agents by name; for a passive one only its number, if `is_thin`."""
        self.moments: list[tuple[float, str]] = []
        """The moments at which agents must be activated, as stored at the start, in no order. They are kept
        until the supervisor has taken them.
        """
        for row in store.agents() if store.leases is None else ():
            if row.agent != store.own:
                self.note(row)
                if row.wake_at is not None:
                    self.moments.append((row.wake_at, row.name))

    def __len__(self) -> int:
        return len(self._rows) - len(self._peers)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def __getitem__(self, name: str) -> AgentRow:
        row = self._rows[name]
        return row if isinstance(row, AgentRow) else self._store.of(row).identity()

    @property
    def own(self) -> AgentRow:
        """The home's own agent, under its present name."""
        return self._own._replace(name=self._settings.now.name)

    def has_any(self) -> bool:
        """True if there is an agent besides the home's own."""
        return len(self) > 0

    def get(self, name: str) -> AgentRow | None:
        """An agent besides the home's own; None if there is none of that name."""
        return self[name] if name in self._rows else None

    def all(self) -> list[AgentRow]:
        """The agents besides the home's own, by number."""
        return [row for row in self.with_peers() if row.name not in self._peers]

    def with_peers(self) -> list[AgentRow]:
        """All rows besides that of the home's own agent, by number."""
        thin = self._is_thin and any(isinstance(row_or_number, int) for row_or_number in self._rows.values())
        stored = {row.name: row for row in self._store.agents()} if thin else {}
        rows = ((name, row_or_number) for name, row_or_number in self._rows.items())
        return sorted(
            row_or_number if isinstance(row_or_number, AgentRow) else stored[name]
            for name, row_or_number in rows
        )

    def names(self) -> Iterator[str]:
        """The names of the agents besides the home's own."""
        return (name for name in self._rows if name not in self._peers)

    def peers(self) -> frozenset[str]:
        """The names of the rows that represent peers."""
        return frozenset(self._peers)

    def numbers(self) -> Iterator[tuple[str, int]]:
        """The rows besides that of the home's own agent, by name and number."""
        return ((name, _number(row)) for name, row in self._rows.items())

    def number(self, name: str) -> int | None:
        """The number of an agent besides the home's own; None if there is none of that name."""
        row = self._rows.get(name)
        return None if row is None else _number(row)

    def is_suspended(self, name: str) -> bool:
        """True for an agent that does nothing until it is resumed."""
        row = self._rows.get(name)
        return isinstance(row, AgentRow) and row.state == SUSPENDED

    def in_full(self) -> list[AgentRow]:
        """The rows that are in memory whole: active, active when the last daemon ended, or suspended."""
        return [row for row in self._rows.values() if isinstance(row, AgentRow)]

    def address(self, name: str) -> AgentRow | None:
        """An agent by name, including the home's own. For an agent of a peer, the peer's row with the agent's
        full name. None if there is none of that name.
        """
        if AT in name:
            row = None if stands_for_peer(name) else self.get(row_of_peer(peer_of(name)))
            return row._replace(name=name) if row is not None else None
        return self.own if name == self.own.name else self.get(name)

    def find(self, name: str) -> AgentRow:
        """An agent besides the home's own. Raises RequestError if there is none of that name."""
        row = self.get(name)
        if row is not None and not stands_for_peer(name):
            return row
        own = self.own.name
        if name == own:
            raise RequestError(f"{own} is the home's own agent, which is always active")
        there = [own, *self.names()]
        meant = f" (did you mean {near!r}?)" if (near := nearest(name, there)) is not None else ""
        more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
        what = f"there is no agent {name!r:.80} here{meant}"
        raise NotFoundError(f"{what}; this home has {', '.join(there[:SHOWN])}{more}")

    def note(self, row: AgentRow) -> None:
        """Record the present row of an agent; a passive one only after that is recorded in the store."""
        if stands_for_peer(row.name):
            self._peers.add(row.name)
        self._rows[row.name] = row.agent if self._is_thin and row.state == PASSIVE else row

    def forget(self, name: str) -> None:
        """Forget an agent."""
        self._rows.pop(name, None)
        self._peers.discard(name)


def _number(row: AgentRow | int) -> int:
    return row if isinstance(row, int) else row.agent


def register(row: AgentRow, turn: Turn) -> None:
    """Make a turn register an agent."""
    turn.transaction.batch.agents.append(row)


# --- the memory of active agents ------------------------------------------------------------------------

_OF_AGENT, _OF_ELEMENT, _OF_RUN, _OF_ENDED = 24_000, 400, 4_000, 500
"""Bytes of an empty agent; bytes that an element, an active run and an ended run add."""

FREED = 0.9
"""The part of the limit to which the use is reduced when agents are made passive."""

_PHYSICAL = "SC_PHYS_PAGES"


def resident(agent: AgentState) -> int:
    """The bytes that an active agent takes, computed from its contents: nothing is measured.

    The result is within a factor of 1.5 for elements of some hundred bytes, and too low for larger ones.
    """
    runs, active = len(agent.runs), len(agent.runs.active)
    elements = len(agent.memory) - runs
    return _OF_AGENT + _OF_ELEMENT * elements + _OF_RUN * active + _OF_ENDED * (runs - active)


def half_of_the_machine() -> int:
    """Half of this machine's memory in bytes; 2 GB if the system does not report it."""
    if _PHYSICAL not in os.sysconf_names:
        return 2 << 30
    return os.sysconf(_PHYSICAL) * os.sysconf("SC_PAGE_SIZE") // 2


class ActiveMemory:
    """The bytes of the active agents, as of the last count of each."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[AgentHost, int] = {}
        self._half = half_of_the_machine()

    def count(self, host: AgentHost) -> None:
        """Count an agent as it is now."""
        now = resident(host.agent)
        self.total += now - self._of.get(host, 0)
        self._of[host] = now

    def leave(self, host: AgentHost) -> None:
        """Stop counting an agent."""
        self.total -= self._of.pop(host, 0)

    def over(self, limit: int | None, latest: AgentHost) -> Iterator[AgentHost]:
        """The agents to make passive, least recently used first, so that the others stay within `limit`.

        `limit` is in bytes; None is half of the machine's memory. `latest` is never among them.
        """
        most = self._half if limit is None else limit
        if self.total <= most:
            return
        left = float(self.total)
        for host in sorted(self._of, key=lambda host: host.last_used):
            if left <= FREED * most:
                return
            if host is not latest and not host.is_in_use:
                left -= self._of[host]
                yield host


# --- open matters ---------------------------------------------------------------------------------------

MOST = 200
"""The newest errors and failures of an agent that are examined first: a failed run has one of each."""

OPEN = "open"
"""The fact of an agent with the numbers that it recorded when it became passive."""


class Matters(NamedTuple):
    """The open matters of an agent: unsettled failed runs, other errors, and open items of work."""

    failed: int
    errors: int
    asked: int
    is_cut: bool = False
    """True if there may be more failed runs and errors: older ones were not examined."""


NOTHING_OPEN = Matters(0, 0, 0)


class OpenMatters:
    """The open matters of agents by name; those of passive agents as they left them."""

    def __init__(self) -> None:
        self._rows: dict[str, IncidentRows] = {}
        """The incidents of active agents that were queried."""
        self.left: dict[str, Matters] = {}
        """The matters of passive agents that have any."""

    def restore(self, name: str, recorded: str) -> None:
        """Restore the recorded matters of a passive agent."""
        failed, errors, asked, *cut = map(int, recorded.split())
        self._leave(name, Matters(failed, errors, asked, any(cut)))

    def of(self, name: str, agent: AgentState) -> Matters:
        """The present matters of an active agent."""
        rows = self._rows.setdefault(name, IncidentRows(agent))
        rows.drop_mended()
        for _ in rows.look(MOST):
            pass
        asked = sum(agent.runs.counts[kind, "active"] for kind in asking_kinds())
        return Matters(rows.count(RUN), rows.count(ERROR), asked, rows.is_cut)

    def record(self, name: str, agent: AgentState, turn: Turn) -> None:
        """Make a turn record the matters of an agent that becomes passive."""
        now = _recorded(self.of(name, agent))
        if now != agent.facts.get(OPEN, _recorded(NOTHING_OPEN)):
            turn.transaction.batch.meta.append((OPEN, now))

    def drop(self, name: str, agent: AgentState | None) -> None:
        """Keep the numbers of an agent that is no longer active. `agent` is None if it made no turn: its
        previous numbers are still right.
        """
        if agent is not None:
            self._leave(name, self.of(name, agent))
        self._rows.pop(name, None)

    def _leave(self, name: str, matters: Matters) -> None:
        self.left.pop(name, None)
        if any(matters):
            self.left[name] = matters


def _recorded(matters: Matters) -> str:
    """Matters in the stored form, which `restore` reads."""
    return " ".join(str(int(number)) for number in matters)
