"""Holding: agents become this daemon's; one that is asked for may be another's."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from narval.core.errors import ElsewhereError, StoreError
from narval.daemon.agents.agent_rows import AgentRows
from narval.daemon.agents.supervisor import Supervisor
from narval.store.batch import ACTIVE, AgentRow
from narval.store.postgresql.leases import DaemonRow, Leases
from narval.store.store import Store

log = logging.getLogger("narval.fleet")

AT_ONCE = 25
"""So many agents are read in one go."""

ATTEMPTS = 3
"""The number of times that an agent is tried to take which nobody holds, or this daemon by mistake."""


class TakingOver:
    """Agents that go on at this daemon one after another: between two of them it renews, and makes rounds.

    `wake` is called when all of them do.
    """

    def __init__(
        self, store: Store, rows: AgentRows, supervisor: Supervisor, wake: Callable[[], None]
    ) -> None:
        self._store, self._rows, self._supervisor, self._wake = store, rows, supervisor, wake
        self._taken: dict[int, AgentRow] = {}
        self._waiting: deque[AgentRow] = deque()
        self._task: asyncio.Task[None] | None = None

    def is_under_way(self) -> bool:
        """True while some are to go on."""
        return bool(self._waiting)

    def expect(self, taken: Iterable[AgentRow]) -> None:
        """Have the rows of agents that are about to go on."""
        self._taken.update((row.agent, row) for row in taken)

    def go_on(self, agents: Iterable[int]) -> None:
        """Have agents go on that this daemon holds from now on; they are known at once."""
        for number in agents:
            row = self._taken.pop(number)
            self._rows.note(row)
            self._waiting.append(row)
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._go_on(), name="narval-takeover")

    async def close(self) -> None:
        """Take over no more."""
        self._waiting.clear()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _go_on(self) -> None:
        while self._waiting:
            part = list(islice(self._waiting, AT_ONCE))
            try:
                wanted = [row.agent for row in part if row.state == ACTIVE]
                if wanted:
                    await asyncio.to_thread(self._store.read_ahead, wanted)
            except StoreError as error:
                log.info("agents that were taken are read one by one: %s", error)
            for row in part:
                if row.name in self._rows:  # else it was lost meanwhile
                    self._begin(row)
                if self._waiting:
                    self._waiting.popleft()
                await asyncio.sleep(0)
        self._wake()

    def _begin(self, row: AgentRow) -> None:
        try:
            self._supervisor.begin(row)
        except Exception:
            log.exception("agent %s could not be taken over", row.name)


def look_for(leases: Leases, name: str) -> AgentRow | tuple[AgentRow, ElsewhereError] | None:
    """An agent of the store by its name, taken if it may be; one that may not be, and why; None where there
    is none of that name. Raises StoreError.
    """
    for _ in range(ATTEMPTS):
        if (taken := leases.claim(name)) is not None:
            return taken.row
        if (found := leases.find(name)) is None:
            return None
        row, holder = found
        if holder is not None and holder.daemon != leases.daemon:
            break
        if row.agent in leases.held():
            return row
    return row, at_work_elsewhere(name, holder)


def at_work_elsewhere(name: str, holder: DaemonRow | None) -> ElsewhereError:
    """The error that an agent is asked for what only another daemon can do: `holder`, if it is at work."""
    message = f"messages reach it from here as well (narval send {name} FILE)"
    if holder is None:
        where = "has its files in another home, where no daemon is at work"
        return ElsewhereError(f"{name} {where}: start that (narval run); {message}")
    return ElsewhereError(f"{name} is at work at home {holder.home} ({holder.address}): ask there; {message}")
