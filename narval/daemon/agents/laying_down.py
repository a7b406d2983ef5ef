"""Laying down: an agent that has nothing to do is recorded as passive, and then let go (G6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.core.elements.control_elements import ACTED
from narval.core.elements.element import parse
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agent_rows import AgentRows, register
from narval.daemon.waiters import future, settle
from narval.store.batch import ACTIVE, PASSIVE, SUSPENDED, AgentRow


class LayingDown:
    """Makes agents passive in a turn of theirs; `let_go` is given host and row of one that is recorded so.

    It is not possible where the store is gone with the program: it gives nothing back.
    """

    def __init__(
        self, rows: AgentRows, let_go: Callable[[AgentHost, AgentRow], None], *, is_possible: bool
    ) -> None:
        self._rows, self._let_go, self._is_possible = rows, let_go, is_possible
        self._under_way: dict[str, asyncio.Future[None]] = {}
        """The agents of which it is being recorded."""

    async def settled(self, name: str) -> None:
        """Wait until an agent that is about to become passive is, or is not."""
        while (waiting := self._under_way.get(name)) is not None:
            await asyncio.wait([waiting])

    def request(self, name: str, host: AgentHost) -> Request:
        """The request that makes an agent passive in its next turn, if it has nothing to do then; it results
        in its row, or None.
        """

        def work(turn: Turn) -> AgentRow | None:
            if host.is_in_use or not (self._is_possible and _is_at_rest(host, turn)):
                return None
            self._under_way[name] = future()
            row, calls = self._rows[name], host.dispatcher.in_flight
            if row.state != SUSPENDED:  # the next daemon has to make calls again
                state = ACTIVE if len(calls) else PASSIVE
                row = row._replace(state=state, wake_at=host.loop.next_moment())
                register(row, turn)
            return row

        def recorded(row: AgentRow | None, error: BaseException | None) -> None:
            if (waiting := self._under_way.pop(name, None)) is not None:
                settle(waiting)
            if row is not None and error is None:
                self._let_go(host, row)

        return Request(work, recorded)


def _is_at_rest(host: AgentHost, turn: Turn) -> bool:
    """True if nothing is left to do after what is done in this turn already, until a moment comes."""
    is_last = len(host.loop.intake.waiting) <= 1
    has_work = turn.transaction.outer or host.agent.queue or _needs_memory(host) or host.mail.waiting
    return is_last and not (has_work or host.settings.always_active or _acts_at_start(host))


def _needs_memory(host: AgentHost) -> bool:
    """True while the code of a process works on what is in memory alone (section 8)."""
    is_kept = any(run.transient for run in host.agent.runs.active.values())
    return is_kept or host.dispatcher.in_flight.need_memory()


def _acts_at_start(host: AgentHost) -> bool:
    """True if something in an agent acts at each start of a daemon: it stays active, to be found then."""
    memory = host.agent.memory
    acted = (memory.element(eid) for eid in memory.marks.get(ACTED, ()) if eid not in memory.outdated)
    return any(element is not None and parse(element.xml).get("at") == "start" for element in acted)
