"""Agent rows: which agents a home has besides its own, as its store has them (G1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING

from narval.agent.turn import Turn
from narval.core.agent_name import agent_name
from narval.core.definitions.suggestions import nearest
from narval.core.errors import RequestError
from narval.daemon.agents.agent_host import AgentHost
from narval.store.batch import PASSIVE, STORE, AgentRow, new_agent
from narval.store.store import Store

if TYPE_CHECKING:  # a store of one daemon has none
    from narval.store.postgresql.leases import Leases

SHOWN = 20
"""The most names that a refusal lists."""


class AgentRows:
    """The rows of all agents but `own`, whose turns write them; `own_name` is how that is called now.

    On a store that daemons share they are those of the agents that this daemon has. With `is_thin`, of
    those that are passive only name and number are in memory: the store has the rest.
    """

    def __init__(self, own: AgentHost, own_name: Callable[[], str], store: Store, *, is_thin: bool) -> None:
        self.own, self.own_name = own, own_name
        self._store, self._is_thin = store, is_thin
        self._rows: dict[str, AgentRow | int] = {}
        """The agents by name; of one that is passive its number alone, where they are `thin` (G8)."""
        self.moments: list[tuple[float, str]] = []
        """Moments at which agents are to be activated, as the store has them at the start; in no order."""
        for row in store.agents() if store.leases is None else ():
            if row.agent != store.own:
                self.note(row)
                if row.wake_at is not None:
                    self.moments.append((row.wake_at, row.name))
        self._last = 0
        """The highest number that was given, or that messages name: a number means one agent for ever."""
        self._changing: dict[str, AgentRow] = {}
        """The agents that are being registered or removed: their names and numbers are not free."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def __getitem__(self, name: str) -> AgentRow:
        known = self._rows[name]
        return known if isinstance(known, AgentRow) else self._store.of(known).identity()

    def get(self, name: str) -> AgentRow | None:
        """An agent besides the home's own; None where there is none of that name."""
        return self[name] if name in self._rows else None

    def all(self) -> list[AgentRow]:
        """The agents besides the home's own, by number."""
        thin = self._is_thin and any(isinstance(known, int) for known in self._rows.values())
        stored = {row.name: row for row in self._store.agents()} if thin else {}
        rows = ((name, known) for name, known in self._rows.items())
        return sorted(known if isinstance(known, AgentRow) else stored[name] for name, known in rows)

    def names(self) -> Iterator[str]:
        """The names of the agents besides the home's own."""
        return iter(self._rows)

    def numbers(self) -> Iterator[int]:
        """The numbers of the agents besides the home's own."""
        return map(_number, self._rows.values())

    def number(self, name: str) -> int | None:
        """The number of an agent besides the home's own; None where there is none of that name."""
        known = self._rows.get(name)
        return known.agent if isinstance(known, AgentRow) else known

    def in_full(self) -> list[AgentRow]:
        """The agents that are in memory whole: at work, also when the last daemon ended, or suspended."""
        return [known for known in self._rows.values() if isinstance(known, AgentRow)]

    def begun(self) -> None:
        """Forget the moments of the start: they are looked after."""
        self.moments = []

    def address(self, name: str) -> AgentRow | None:
        """An agent, the home's own among them; None where there is none of that name."""
        own = self.own.dispatcher.identity
        return own._replace(name=name) if name == self.own_name() else self.get(name)

    def find(self, name: str) -> AgentRow:
        """An agent besides the home's own. Raises RequestError where there is none of that name."""
        found = self.get(name)
        if found is not None:
            return found
        own = self.own_name()
        if name == own:
            raise RequestError(f"{own} is the home's own agent, which is always active")
        there = [own, *self._rows]
        meant = f" (did you mean {near!r}?)" if (near := nearest(name, there)) is not None else ""
        more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
        what = f"there is no agent {name!r:.80} here{meant}"
        raise RequestError(f"{what}; this home has {', '.join(there[:SHOWN])}{more}")

    async def add(self, name: str, state: str = PASSIVE) -> AgentRow:
        """Make an agent, which is in that state. Raises RequestError for a name that is none, or taken."""
        try:
            agent_name(name)
        except ValueError as error:
            raise RequestError(f"expected {error}, got {name!r:.80}") from None
        if name in self._rows or name in self._changing or name == self.own_name():
            raise RequestError(f"there is an agent {name} already")
        if self._store.leases is not None:
            return await self._make(self._store.leases, name, state)
        self._last = 1 + (self._last or self._highest())
        row = self._changing[name] = new_agent(self._last, name)._replace(state=state)
        try:  # nobody sends it anything before it is recorded
            await self.own.submit(lambda turn: register(row, turn))
        finally:
            del self._changing[name]
        self.note(row)
        return row

    async def _make(self, leases: Leases, name: str, state: str) -> AgentRow:
        """Make an agent of a store that daemons share, which numbers it."""
        self._changing[name] = AgentRow(STORE, "", name)
        try:
            made = await asyncio.to_thread(leases.make, name, state)
        finally:
            del self._changing[name]
        if made is None:
            raise RequestError(f"there is an agent {name} already, which another daemon of this store made")
        self.note(made.row)
        return made.row

    def _highest(self) -> int:
        """The highest number that an agent has, or that messages name."""
        changing = (row.agent for row in self._changing.values())
        named = self.own.mail.office.letters.last_correspondent()
        return max((self._store.own, named, *self.numbers(), *changing))

    async def put(self, row: AgentRow) -> AgentRow:
        """Register an agent as it is now."""
        await self.own.submit(lambda turn: register(row, turn))
        self.note(row)
        return row

    async def remove(self, row: AgentRow, tell: Callable[[Turn], None]) -> None:
        """Let an agent go with all that it has; `tell` says in the same turn to others that it is gone."""

        def leave(turn: Turn) -> None:
            turn.transaction.batch.removed_agents.append(row.agent)
            tell(turn)

        del self._rows[row.name]
        self._changing[row.name] = row
        try:
            await self.own.submit(leave)
        finally:
            del self._changing[row.name]

    def note(self, row: AgentRow) -> None:
        """Take note of how an agent is registered now; as passive not before it is recorded."""
        self._rows[row.name] = row.agent if self._is_thin and row.state == PASSIVE else row

    def forget(self, numbers: Container[int]) -> list[tuple[str, str | None]]:
        """Know agents no more that another daemon may have now: the name of each, and its id if it is whole
        in memory.
        """
        gone = [name for name, known in self._rows.items() if _number(known) in numbers]
        known = [self._rows.pop(name) for name in gone]
        ids = (row.id if isinstance(row, AgentRow) else None for row in known)
        return list(zip(gone, ids, strict=True))


def _number(known: AgentRow | int) -> int:
    return known if isinstance(known, int) else known.agent


def register(row: AgentRow, turn: Turn) -> None:
    """Have a turn register an agent."""
    turn.transaction.batch.agents.append(row)
