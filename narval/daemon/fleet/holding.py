"""Holding: agents become this daemon's, and the gate is open while it is sure that it still holds them
(G48). A requested agent may be another daemon's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from narval.core.errors import ElsewhereError, StoreAwayError, StoreError
from narval.daemon.agents.agent_rows import AgentRows
from narval.daemon.agents.supervisor import Supervisor
from narval.daemon.fleet.protocol import Membership, joined, may_work
from narval.store.batch import ACTIVE, AgentRow
from narval.store.postgresql.leases import DOUBTED, PORTION, DaemonRow, Leases
from narval.store.store import Store

log = logging.getLogger("narval.fleet")


class LeaseGate:
    """Closes by itself, by a clock that cannot be set, and opens with a renewal. It is closed at first.

    It closes at once when the store does not answer: a turn could then neither read nor be recorded.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.away: tuple[float, str] | None = None
        """The moment at which the store stopped answering, in seconds since 1970, and why; else None."""
        self.member: Membership = joined(monotonic() - DOUBTED)

    def follow(self, member: Membership) -> None:
        """Use the present state of the daemon's membership."""
        self.member = member

    def is_open(self) -> bool:
        """True if turns may begin, and recorded turns may be performed."""
        return self.away is None and may_work(self.member, self.monotonic())

    def store_is_away(self, now: float, error: StoreAwayError) -> None:
        """Record when the store stopped answering; log it once."""
        if self.away is None:
            log.warning("the store is away, and nothing is done until it is back: %s", error)
        self.away = self.away[0] if self.away else now, str(error)

    def store_is_back(self, now: float) -> None:
        """Record the moment at which the store answers again."""
        if self.away is not None:
            log.warning("the store is back after %.1f s", now - self.away[0])
        self.away = None


AT_ONCE = 25
"""The most agents that are read together."""

AT_WORK = 0.5
"""Seconds: as many agents are taken as can be restored within this time, by the recent cost of one."""

USUAL = 0.01
"""The assumed seconds to restore an agent, until they have been measured."""

ATTEMPTS = 3
"""The attempts to take an agent that no daemon holds, or that this one holds by mistake."""


class TakingOver:
    """Agents that this daemon continues one after another. Between two of them it proves that it is alive,
    and makes rounds. Agents that have nothing to do continue at once.

    `wake` is called when all of them have continued. Then the daemon renews at once (`hurry`) if it left
    wanted agents for later.
    """

    def __init__(
        self,
        store: Store,
        rows: AgentRows,
        supervisor: Supervisor,
        gate: LeaseGate,
        wake: Callable[[], None],
    ) -> None:
        self._store, self._rows, self._supervisor = store, rows, supervisor
        self._gate, self._wake = gate, wake
        self.hurry = asyncio.Event()
        """Set when the next renewal must not wait."""
        self._taken: dict[int, AgentRow] = {}
        self._waiting: deque[AgentRow] = deque()
        self._task: asyncio.Task[None] | None = None
        self.taken = 0
        """The number of agents that continue here after another daemon, or none, had them."""
        self._cost = USUAL
        """The seconds to restore one agent, including all work in between."""

    def is_under_way(self) -> bool:
        """True while some have not continued yet."""
        return bool(self._waiting)

    def room(self) -> int:
        """The number of further agents that can be restored soon; at least one if none waits."""
        soon = int(AT_WORK / max(self._cost, AT_WORK / PORTION))
        return max(soon, 1) - len(self._waiting) - len(self._taken)

    def expect(self, taken: Sequence[AgentRow]) -> int:
        """Record the rows of agents that are about to continue here; return the remaining room.

        Agents with work are taken first: after one without, the room is a whole portion.
        """
        self._taken.update((row.agent, row) for row in taken)
        return self.room() if all(row.state == ACTIVE for row in taken) else PORTION

    def take_over(self, agents: Iterable[int]) -> None:
        """Continue agents that this daemon holds from now on; they are known at once."""
        rows = [self._taken.pop(number) for number in agents]
        self.taken += len(rows)
        for row in rows:
            self._rows.note(row)
        self.go_on(rows)

    def go_on(self, rows: Iterable[AgentRow]) -> None:
        """Continue agents that this daemon has."""
        self._waiting.extend(row for row in rows if self._supervisor.begin(row, in_turn=True))
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._restore(), name="narval-takeover")

    async def close(self) -> None:
        """Stop taking over."""
        self._waiting.clear()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _restore(self) -> None:
        while self._waiting:
            began, part = self._gate.monotonic(), list(islice(self._waiting, AT_ONCE))
            try:
                await asyncio.to_thread(self._store.read_ahead, [row.agent for row in part])
            except StoreError as error:
                log.info("agents that were taken are read one by one: %s", error)
            except Exception:
                log.exception("agents that were taken are read one by one")
            for row in part:
                if row.name in self._rows:  # else it was lost since
                    self._begin(row)
                if self._waiting:
                    self._waiting.popleft()
                await asyncio.sleep(0)
            self._cost += ((self._gate.monotonic() - began) / len(part) - self._cost) / 2
        self._wake()
        if self._gate.member.wanted:
            self.hurry.set()

    def _begin(self, row: AgentRow) -> None:
        try:
            self._supervisor.need(row.name, at_once=True)
        except Exception:
            log.exception("agent %s could not be taken over", row.name)


def look_for(leases: Leases, name: str) -> AgentRow | tuple[AgentRow, ElsewhereError] | None:
    """An agent of the store by its name, taken if that is allowed; else the agent with the error that says
    why not. None if there is none of that name. Raises StoreError.
    """
    for _ in range(ATTEMPTS):
        if (taken := leases.claim(name)) is not None:
            return taken.row
        if (row_and_holder := leases.find(name)) is None:
            return None
        row, holder = row_and_holder
        if holder is not None and holder.daemon != leases.daemon:
            break
        if row.agent in leases.held():
            return row
    return row, at_work_elsewhere(name, holder)


def at_work_elsewhere(name: str, holder: DaemonRow | None) -> ElsewhereError:
    """The error for an agent that only another daemon can serve: `holder`, if one is running."""
    message = f"messages reach it from here as well (narval send {name} FILE)"
    if holder is None:
        where = "has its files in another home, where no daemon is running"
        return ElsewhereError(f"{name} {where}: start that (narval run); {message}")
    return ElsewhereError(f"{name} is active at home {holder.home} ({holder.address}): ask there; {message}")
