"""The kinds of simulations, by their words on the command line and in `seeds.txt`."""

from __future__ import annotations

from tests.simulator.daemons import Daemons
from tests.simulator.many_agents import ManyAgents
from tests.simulator.people import Peopled
from tests.simulator.simulation import Simulation
from tests.simulator.tasks import Tasked
from tests.simulator.wide import InMemory, Migrating, Wide

KINDS = {
    "wide": Wide,
    "in-memory": InMemory,
    "migrating": Migrating,
    "agents": ManyAgents,
    "daemons": Daemons,
    "people": Peopled,
    "tasks": Tasked,
}


def of(word: str | None = None) -> type[Simulation]:
    """The kind of simulation that a word means; the plain one without any."""
    return KINDS[word] if word is not None else Simulation
