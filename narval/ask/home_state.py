"""The state of a home and its agents in answers: what is away, suspended, withheld, unconfined, without
effect.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from narval.ask.lookup import files_of
from narval.calls.confining import unconfined
from narval.core.definitions.library import Library, RunDefinition
from narval.core.errors import ElsewhereError, Fault
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.daemon import Daemon
from narval.daemon.dropped.drop_folder import standing
from narval.files.agents.collections import AGENTS
from narval.files.agents.folders import settings_without_effect
from narval.files.agents.settings import SETTINGS
from narval.files.grants import ASK


def standing_of(daemon: Daemon) -> dict[str, Any]:
    """The state of the addressed agent, and why it is suspended; nothing for the home's own."""
    if daemon.agent.store.is_own:
        return {}
    row = daemon.agent.store.identity()
    return {
        "agent_state": daemon.agents.state_of(row),
        "agent_why": row.why or why_elsewhere(daemon.host),
    }


def store_away(daemon: Daemon) -> tuple[float, str] | None:
    """Since when the server of the store does not answer (seconds since 1970), and why; None while it does.

    A waiting commit, a failed heartbeat, or one unanswered for long reveals it.
    """
    leases, fleet = daemon.store.leases, daemon.fleet
    outages = [daemon.store.away, fleet.members.gate.away if fleet is not None else None]
    if causes := [away for away in outages if away is not None]:
        return min(causes)
    if fleet is None or leases is None or leases.latest is None:
        return None
    from narval.store.postgresql.leases import LEASE  # here: only a shared store has leases

    answered = leases.latest.at + fleet.members.clocks.apart
    is_late = daemon.rounds.clock.now() - answered > LEASE
    return (answered, "no heartbeat is answered") if is_late else None


def why_elsewhere(host: AgentHost) -> str | None:
    """The daemon, for people, of an agent shown from the store's rows; None for any other."""
    gone = host.loop.intake.gone
    return str(gone) if isinstance(gone, ElsewhereError) else None


def without_effect(daemon: Daemon) -> list[Fault]:
    """The faults of the settings of agents in the store, which apply only in a shared store."""
    if daemon.home is None or daemon.store.is_shared or not len(daemon.agents.rows):
        return []
    return settings_without_effect(daemon.home.path, daemon.store.facts(SETTINGS))


def inbox_of(daemon: Daemon) -> dict[str, Any] | None:
    """The inbox folder of the addressed agent in its current state; None if it has none."""
    place = daemon.home.path if daemon.home is not None else None
    if place is not None and not daemon.agent.store.is_own:
        place = place / AGENTS / daemon.name if daemon.name in daemon.files.snapshot.agents else None
    return standing(place)._asdict() if place is not None else None


def unconfined_in(daemon: Daemon) -> dict[str, list[str]]:
    """The names of unconfined definitions from collections, by where they run."""
    return unconfined(files_of(daemon).loaded.library, asks=daemon.files.settings.grants == ASK)


def withheld_in(daemon: Daemon) -> list[RunDefinition]:
    """The definitions of the addressed agent that may not start until their needs are granted, without
    rejected ones.
    """
    return _withheld(daemon.agent.library) if daemon.files.settings.grants == ASK else []


def withheld_of_others(daemon: Daemon) -> list[dict[str, Any]]:
    """The definitions that other agents here follow and that wait for a grant, if the home's own agent is
    asked: `{"agent", "others", "withheld"}`, once for all agents that follow the same ones.
    """
    if daemon.files.settings.grants != ASK or not daemon.agent.store.is_own:
        return []
    agents: dict[int, list[str]] = {}
    libraries: dict[int, Library] = {}
    for host in daemon.agents.supervisor.hosts:
        library = host.agent.library
        libraries[id(library)] = library
        agents.setdefault(id(library), []).append(host.dispatcher.identity.name)
    return [
        {
            "agent": min(agents[key]),
            "others": len(agents[key]) - 1,
            "withheld": [one.full_name for one in withheld],
        }
        for key, library in libraries.items()
        if library is not daemon.agent.library and (withheld := _withheld(library))
    ]


def _withheld(library: Library) -> list[RunDefinition]:
    runnable = (definition for definition in library if isinstance(definition, RunDefinition))
    return sorted(
        (one for one in runnable if one.withheld is not None and not one.withheld.is_rejected),
        key=attrgetter("full_name"),
    )
