"""Breakdowns: an agent that broke down is made anew after a while, or suspended (G18)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from narval.agent.loop import Request
from narval.agent.waiting import Told
from narval.core.errors import NotFetchedError, StoreAwayError
from narval.daemon.agents.agent_rows import AgentRows, register
from narval.daemon.agents.detached_calls import DetachedCalls
from narval.daemon.agents.faults import Faults
from narval.store.batch import SUSPENDED

log = logging.getLogger("narval.daemon")

AGAIN = 1.0
"""Seconds after which an agent is restored again for which the store could not be asked."""


class Breakdowns:
    """The agents that broke down; `wait` has one looked after at a moment, as `now` gives them."""

    def __init__(
        self,
        rows: AgentRows,
        calls: DetachedCalls,
        now: Callable[[], float],
        wait: Callable[[str, float | None], None],
    ) -> None:
        self._rows, self._calls, self.faults = rows, calls, Faults()
        self._now, self._wait = now, wait

    def rest_or_suspend(self, name: str, error: Exception, suspects: Iterable[Told] = ()) -> None:
        """Have an agent made anew after a while, or suspend it where that was tried often enough (G18).

        That the store is away is no fault of the agent's (G52), nor that what it follows is not here yet: it
        goes on as soon as that is (G58).
        """
        now = self._now()
        if isinstance(error, NotFetchedError):
            return
        if isinstance(error, StoreAwayError):
            self._wait(name, now + AGAIN)
            return
        if (rest := self.faults.note(name, now, suspects)) is not None:
            log.error("agent %s is made anew in %g s: %s", name, rest, error)
            self._wait(name, now + rest)
            return
        row = self._rows[name]._replace(state=SUSPENDED, why=f"{self.faults.often}: {error}", wake_at=None)
        log.critical("agent %s is suspended: %s", name, row.why)
        self._rows.note(row)
        self._rows.own.post(Request(partial(register, row)))
        self._calls.end(row.id)

    def clock_was_set(self, by: float) -> None:
        """Have agents rest as long as before."""
        for name, until in self.faults.clock_was_set(by, self._now()):
            self._wait(name, until)
