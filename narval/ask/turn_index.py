"""Indexes over an agent that are kept between requests and updated by the changes of its turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from narval.agent.agent import AgentState
from narval.daemon.daemon import Daemon
from narval.daemon.news import Changes


class TurnIndex(ABC):
    """An index over an agent, as of turn `turn`."""

    def __init__(self, agent: AgentState) -> None:
        self._agent, self.turn = agent, 0

    @abstractmethod
    async def follow(self, changes: Changes) -> None:
        """Apply what changed since its turn; later changes come with the next call."""


Index = TypeVar("Index", bound=TurnIndex)


async def up_to_date(daemon: Daemon, make: type[Index]) -> Index:
    """The index of the addressed agent, as of the last recorded turn. The first use costs a pass over
    everything that the agent has, later ones only the changes.
    """
    host = daemon.host
    index = host.listings.once(make)
    changes = host.waiters.news.since(index.turn, daemon.rounds.clock.now())
    if changes is not None:
        await index.follow(changes)
        index.turn = changes.turn
    return index
