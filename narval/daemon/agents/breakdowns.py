"""Breakdowns: an agent that broke down is made anew after a while, or suspended if it often did (G18)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from narval.agent.loop import Loop, Request
from narval.agent.waiting import Told
from narval.core.errors import NotFetchedError, StoreAwayError
from narval.daemon.agents.agent_rows import AgentRows, register
from narval.daemon.agents.detached_calls import DetachedCalls
from narval.store.batch import SUSPENDED

log = logging.getLogger("narval.daemon")

AGAIN = 1.0
"""Seconds after which an agent is restored again for which the store could not be asked."""


MOST, WITHIN = 5, 600.0
"""An agent that broke down so often within so many seconds is not made anew by itself any more."""

FIRST, LONGEST = 1.0, 300.0
"""Seconds for which an agent rests: twice as long each time."""


TWICE = 2
"""An event with which an agent broke down so often is told no more."""


class Faults:
    """The moments at which agents broke down, by name, and what they were told then."""

    often = f"it broke down {MOST} times in {WITHIN / 60:.0f} minutes"
    """The reason for which an agent is suspended."""

    def __init__(self) -> None:
        self._moments: dict[str, list[float]] = {}
        self._until: dict[str, float] = {}
        self._told: dict[str, Counter[Told]] = {}

    def note(self, name: str, now: float, suspects: Iterable[Told] = ()) -> float | None:
        """Note that an agent broke down, by one of `suspects`; the seconds for which it is to rest, None if
        that is enough.
        """
        moments = self._moments[name] = [at for at in self._moments.get(name, ()) if at > now - WITHIN]
        if not moments:
            self._told.pop(name, None)
        moments.append(now)
        self._told.setdefault(name, Counter()).update(suspects)
        if len(moments) >= MOST:
            self.forget(name)
            return None
        rest = float(min(LONGEST, FIRST * 2 ** (len(moments) - 1)))
        self._until[name] = now + rest
        return rest

    def rest(self, name: str, now: float) -> float | None:
        """The seconds for which an agent still rests; None if it does not."""
        until = self._until.get(name, now)
        return until - now if until > now else None

    def clock_was_set(self, by: float, now: float) -> list[tuple[str, float]]:
        """Let agents rest as long as before though the clock was set; those that do, and until when."""
        self._until = {name: until + by for name, until in self._until.items()}
        self._moments = {name: [at + by for at in moments] for name, moments in self._moments.items()}
        return [(name, until) for name, until in self._until.items() if until > now]

    def caution(self, name: str, now: float, loop: Loop) -> None:
        """Let an agent that broke down of late have one event a turn, so that it is known which it was, and
        not the events that brought it down twice.
        """
        if self._moments.get(name, [now - WITHIN])[-1] > now - WITHIN:
            loop.set_limit(1)
            loop.distrust(told for told, times in self._told[name].items() if times >= TWICE)

    def forget(self, name: str) -> None:
        """Count from the beginning."""
        self._told.pop(name, None)
        self._moments.pop(name, None)
        self._until.pop(name, None)


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
