"""Messages between many agents: what a random world sends, and the ledger of it all (G24, G25).

Each message is numbered in its pair without a gap, taken once and in order, and is then an element of the
receiver or a dead letter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from narval.daemon.messages.envelope import ELEMENT
from narval.store.batch import Batch, MessageRow
from tests.simulator.world import World

OWN = "narval"
OFFERS = '[agent.offers]\n"w.leaf" = ["*"]\n"w.inner" = ["*"]\n'
"""The home's own agent answers calls of the others."""


class PostalWorld(World):
    """A world of several agents: its recipes send and call."""

    receivers = (OWN, "a0", "a1", "a2", "a9")

    def settings(self) -> str:
        """Its narval.toml, with what others may call."""
        return super().settings() + OFFERS

    def letter(self) -> bytes:
        """An element to be sent; its `n` tells it from all others."""
        return self.arrival().replace(b"start-plan", b"mail")

    def _step(self, at: int, others: tuple[str, ...]) -> str:
        chance = self.chance
        way = chance.random()
        if way < 0.15:
            to = " ".join(chance.sample(self.receivers, chance.choice((1, 1, 2))))
            awaited = chance.choice(("", "", " await='taken' timeout='40'"))
            kind = chance.choice(("mail", "note", "gift"))  # one a run: else they would multiply
            letters = f"<input id='message' use='yes'><match>{kind}</match></input>"
            return f"<step id='s{at}' type='send' to='{to}'{awaited}>{letters}</step>"
        if way < 0.25:
            target, limit = chance.choice(("leaf", "leaf", *others)), chance.choice(("15", "1h"))
            agent = chance.choice((OWN, OWN, OWN, "a0"))
            return f"<step id='s{at}' type='recipe' target='w.{target}' agent='{agent}' timeout='{limit}'/>"
        return super()._step(at, others)


Pair = tuple[str, str]
"""The ids of a receiver and a sender."""


class Letters:
    """All messages that were ever recorded; `id_of` gives the id of the agent that has a number now."""

    def __init__(self, id_of: Callable[[int], str]) -> None:
        self.many, self._id_of = 0, id_of
        self._sent: defaultdict[Pair, list[MessageRow]] = defaultdict(list)
        self._taken: defaultdict[Pair, int] = defaultdict(int)
        self._dead: set[str] = set()
        self._arrived: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        """The elements that an agent got by a message."""
        self._latest: dict[Pair, int] = {}
        """The element that a pair's last message has become."""

    def note(self, batch: Batch) -> None:
        """A batch was committed."""
        self._dead.update(row.id for row in batch.dead_letters)
        for row in batch.messages:
            sent = self._sent[self._id_of(row.agent), self._id_of(row.sender)]
            self.many += 1
            assert row.number == len(sent) + 1, f"message {row.number} follows upon {len(sent)} of its pair"
            sent.append(row)
        receiver = self._id_of(batch.agent)
        for added in batch.elements:
            origin = added.element.origin
            if origin is not None and origin.message:
                self._arrived[receiver, origin.message].append(added.element.eid)
        for taken in batch.taken:
            pair = self._id_of(taken.agent), self._id_of(taken.sender)
            before, self._taken[pair] = self._taken[pair], taken.number
            assert before < taken.number <= len(self._sent[pair]), f"{taken} is taken after {before}"
            for row in self._sent[pair][before : taken.number]:
                self._check_arrived(pair, row, self._arrived[pair[0], row.id])

    def _check_arrived(self, pair: Pair, row: MessageRow, eids: list[int]) -> None:
        if row.kind != ELEMENT or row.id in self._dead:
            return
        assert len(eids) == 1, f"message {row.id} is taken, and is the elements {eids}"
        assert eids[0] > self._latest.get(pair, 0), f"message {row.id} is out of order"
        self._latest[pair] = eids[0]

    def left(self, there: set[str]) -> set[MessageRow]:
        """All that was sent and is not taken yet; `there` are the ids of the agents that there are."""
        return {
            row for pair, sent in self._sent.items() if pair[0] in there for row in sent[self._taken[pair] :]
        }

    def check_taken(self, there: set[str]) -> None:
        """All that was sent is taken, or dead; `there` are the ids of the agents that there are."""
        assert not (left := self.left(there)), f"not taken: {left}"
