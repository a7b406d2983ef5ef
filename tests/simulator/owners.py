"""What must hold of the owners of agents, kept from what the server records alone (G47, G97)."""

from __future__ import annotations

from narval.store.batch import Batch
from tests.simulator.many_agents import AgentsLedger
from tests.simulator.server import Mark, Watch


class Owners(Watch):
    """Who has each agent, under which epoch, and how far it has come; what does not hold is in `broken`.

    An epoch has one owner; epochs and turns only rise; no former owner commits anything.
    """

    def __init__(self, ledger: AgentsLedger) -> None:
        self.broken: list[AssertionError] = []
        self.changes = 0
        """How often an agent has changed hands."""
        self._ledger = ledger
        self._owner: dict[int, int] = {}
        self._mark: dict[int, Mark] = {}

    def holds(self, daemon: int, agent: int, mark: Mark) -> None:
        """A daemon has an agent from now on."""
        before = self._mark.get(agent, Mark())
        self.say(mark.epoch > before.epoch, f"agent {agent} is given away under {mark} after {before}")
        self.say(mark.turn == before.turn, f"agent {agent} is at {mark}, and was at {before}")
        self.changes += self._owner.get(agent, daemon) != daemon
        self._owner[agent], self._mark[agent] = daemon, mark

    def commits(self, daemon: int, marks: dict[int, Mark], batches: tuple[Batch, ...]) -> None:
        """A daemon has committed turns of agents at these marks."""
        for agent, mark in marks.items():
            owner, known = self._owner.get(agent), self._mark.get(agent)
            self.say(owner == daemon, f"daemon {daemon} commits for agent {agent}, which {owner} has")
            self.say(known == mark, f"agent {agent} commits at {mark}, and is at {known}")
            self._mark[agent] = Mark(mark.epoch, mark.turn + 1)
        for agent in (agent for batch in batches for agent in batch.removed_agents):
            del self._owner[agent], self._mark[agent]
        try:
            self._ledger.note(batches)
        except AssertionError as error:
            self.broken.append(error)

    def performs(self, agent: int, daemon: int, *, is_over: bool) -> None:
        """A daemon begins a call of an agent; its time may be over, by the clock of the server."""
        owner = self._owner.get(agent)
        self.say(owner == daemon, f"daemon {daemon} performs for agent {agent}, which {owner} has")
        self.say(not is_over, f"daemon {daemon} performs for agent {agent} after its time was over")

    def say(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken.append(AssertionError(what))

    def check(self) -> None:
        """Raise the first AssertionError that there was."""
        if self.broken:
            raise self.broken[0]
