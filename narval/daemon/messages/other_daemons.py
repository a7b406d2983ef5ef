"""Other daemons: agents of the same store that are held elsewhere, as addressed from here (G30)."""

from __future__ import annotations

from collections.abc import Callable

from narval.core.agent_name import peer_of, row_of_peer, stands_for_peer
from narval.store.batch import AgentRow
from narval.store.postgresql.leases import Leases


class OtherDaemons:
    """The agents of a store that are held by other daemons, or by none: each is looked up there once."""

    def __init__(self, leases: Leases) -> None:
        self._tell: Callable[[int], None] = lambda agent: None
        self._leases = leases
        self._known: dict[str, AgentRow] = {}
        self._numbers: set[int] = set()

    def __contains__(self, number: object) -> bool:
        return number in self._numbers

    def tell(self, agent: int) -> None:
        """Notify the holder of an agent that a message for it is recorded; otherwise a heartbeat will."""
        self._tell(agent)

    def tell_by(self, tell: Callable[[int], None]) -> None:
        """Use `tell` for that; it returns at once."""
        self._tell = tell

    def find(self, name: str) -> AgentRow | None:
        """An agent by its name, as stored. Raises StoreError."""
        if stands_for_peer(name):
            return None
        row = self._find(row_of_peer(peer)) if (peer := peer_of(name)) else self._find(name)
        return row._replace(name=name) if row is not None else None

    def forget(self, name: str) -> None:
        """Forget an agent, so that it is looked up in the store again."""
        if (row := self._known.pop(name, None)) is not None:
            self._numbers.discard(row.agent)

    def forget_all(self) -> None:
        """Forget all agents, so that they are looked up in the store again: some may have another holder."""
        self._known.clear()
        self._numbers.clear()

    def _find(self, name: str) -> AgentRow | None:
        row = self._known.get(name)
        if row is None and (row_and_holder := self._leases.find(name)) is not None:
            row = self._known[name] = row_and_holder[0]
            self._numbers.add(row.agent)
        return row
