"""Indexes over an agent that are kept between requests and updated by the news of its turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from narval.agent.agent import AgentState
from narval.daemon.agents.news import Changes
from narval.daemon.daemon import Daemon


class TurnIndex(ABC):
    """An index over an agent, as of turn `turn`."""

    def __init__(self, agent: AgentState) -> None:
        self._agent, self.turn = agent, 0

    @abstractmethod
    async def follow(self, changes: Changes) -> None:
        """Apply what changed since its turn; what changes meanwhile comes with the next changes."""


Index = TypeVar("Index", bound=TurnIndex)


async def up_to_date(daemon: Daemon, make: type[Index]) -> Index:
    """The index of the agent that is asked, as of the last recorded turn. The first use costs a pass over all
    that the agent has, later ones only what changed.
    """
    host = daemon.host
    index = host.listings.once(make)
    changes = host.waiters.news.since(index.turn, daemon.rounds.clock.now())
    if changes is not None:
        await index.follow(changes)
        index.turn = changes.turn
    return index
