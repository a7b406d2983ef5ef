"""Finding the run and the definition that a request names, and the errors for missing ones."""

from __future__ import annotations

import difflib
from operator import attrgetter
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.history import past
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.ask.text import article
from narval.calls.confining import unconfined
from narval.core.definitions.library import Library, ModuleDefinition, RunDefinition
from narval.core.engines.engine import Migratable, instead_of_renewal
from narval.core.engines.registry import is_runnable, standing_kinds
from narval.core.errors import ElsewhereError, Fault, RequestError
from narval.core.kinds import ASKING
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.daemon import Daemon
from narval.daemon.dropped.drop_folder import standing
from narval.files.agents.collections import AGENTS
from narval.files.agents.folders import settings_without_effect
from narval.files.agents.settings import SETTINGS
from narval.files.grants import ASK
from narval.files.snapshot import AgentFiles


def find_run(daemon: Daemon, eid: int) -> Run:
    """The run of that number. Raises RequestError."""
    run = daemon.agent.runs.get(eid)
    if run is not None:
        return run
    element = daemon.agent.memory.element(eid)
    if element is not None:
        hint = f"`{command(daemon, f'why {eid}')}` tells what happened to it"
        raise RequestError(f"{eid} is an element ({element.name}), not a run; {hint}")
    raise RequestError(f"there is no run {eid}; `{command(daemon, 'runs')}` lists those there are")


def command(daemon: Daemon, words: str) -> str:
    """A command as a user types it for the addressed agent."""
    return f"narval {words}" + ("" if daemon.agent.store.is_own else f" --agent {daemon.name}")


def active_run(daemon: Daemon, eid: int) -> Run:
    """The active run of that number. Raises RequestError."""
    run = find_run(daemon, eid)
    if not run.active:
        raise RequestError(f"run {eid} of {run.name} is over already: it is {run.status}")
    return run


MOST_NAMED = 10
"""The most runs that are named as choices."""


def active_run_of(daemon: Daemon, name: str) -> Run:
    """The only active run of a definition. Raises RequestError if there is none, or several."""
    active = [run for run in daemon.agent.runs.active.values() if run.name == name]
    if len(active) == 1:
        return active[0]
    listing = f"`{command(daemon, f'runs --name {name} --state active')}`"
    if active:
        eids = ", ".join(str(run.eid) for run in active[:MOST_NAMED]) + (", …" if active[MOST_NAMED:] else "")
        raise RequestError(
            f"{len(active)} runs of {name} are active: {eids}; name one by its number ({listing})"
        )
    names = {run.name for run in daemon.agent.runs.active.values()}
    near = difflib.get_close_matches(name, sorted(names), 1)
    hint = (
        f"; did you mean {near[0]}?"
        if near
        else f"; `{command(daemon, 'runs --state active')}` lists those that are"
    )
    raise RequestError(f"no run of {name} is active{hint}")


def definition_and_state(daemon: Daemon, run: Run, at: int | None = None) -> tuple[Any, Any]:
    """The definition that a run began with and its state, now or after line `at` of its history.

    The current state has the progress of its active calls, if they report it.
    """
    agent = daemon.agent
    if at is None:
        return definition_of(agent, run), _live(daemon, run, state_of(agent, run))
    then = past(agent, run, at)
    return then.definition, then.state


def _live(daemon: Daemon, run: Run, state: Any) -> Any:
    """A state with the progress of its run's active calls; the same state if none reports any."""
    for call in run.calls:
        record = daemon.host.dispatcher.find(call)
        if record is not None and record.live is not None:
            state = record.live(state)
    return state


def stays(run: Run) -> str:
    """The reason why a run cannot be migrated to another version, and the next step; "" if it can."""
    engine, kind = run.engine, run.engine.state_type.KIND
    if isinstance(engine, Migratable):
        return ""
    if engine.definition_kind == ASKING:
        why = "people answer the text that they were shown"
        return f"it is {article(kind)} {kind}, and {why}; `narval renew {run.eid}` offers it again"
    keeps = f"it is {article(kind)} {kind}, which keeps the version with which it began"
    if engine.definition_kind in standing_kinds():
        instead = instead_of_renewal(engine, run.eid)
        return f"{keeps}; what begins of {run.name} from now on has the newest{instead}"
    return f"{keeps}; `narval renew {run.eid}` restarts it"


def newer_code(agent: AgentState, run: Run) -> list[str]:
    """The files of modules that are newer than the versions an active run keeps of them."""
    if run.library is None or run.library is agent.library or run.definition is None:
        return []
    files = dict[str, None]()
    for reference in run.definition.references:
        own = run.library.get(reference.kind, reference.target)
        newest = agent.library.get(reference.kind, reference.target)
        if isinstance(own, ModuleDefinition) and newest is not None and newest.digest != own.digest:
            files[newest.path] = None
    return list(files)


def no_element(daemon: Daemon, eid: int) -> str:
    """The message for an eid that no element has, or ever had."""
    return f"there is no element {eid}; `{command(daemon, 'memory')}` lists those there are"


def no_definition(daemon: Daemon, name: str) -> RequestError:
    """The error for a name that cannot be started: the fault of its file, its kind, or the nearest name."""
    return RequestError(load_fault(daemon, name) or _unknown(daemon, name))


def load_fault(daemon: Daemon, name: str) -> str:
    """The fault of the file expected to have a definition; "" without one."""
    return files_of(daemon).loaded.why_missing(name)


def _unknown(daemon: Daemon, name: str) -> str:
    library = daemon.agent.library
    other = library.find(name)
    if other is not None:
        return f"{name} is {article(other.kind)} {other.kind}: it is called by a step, not started"
    names = [definition.full_name for definition in library if is_runnable(definition.kind)]
    near = difflib.get_close_matches(name, names, 1)
    hint = (
        f"; did you mean {near[0]}?" if near else f"; `{command(daemon, 'definitions')}` lists what is loaded"
    )
    return f"there is no definition {name}{hint}"


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
            "withheld": [one.full_name for one in found],
        }
        for key, library in libraries.items()
        if library is not daemon.agent.library and (found := _withheld(library))
    ]


def _withheld(library: Library) -> list[RunDefinition]:
    runnable = (definition for definition in library if isinstance(definition, RunDefinition))
    return sorted(
        (one for one in runnable if one.withheld is not None and not one.withheld.is_rejected),
        key=attrgetter("full_name"),
    )


def files_of(daemon: Daemon) -> AgentFiles:
    """The files that apply to the addressed agent."""
    return daemon.files.of(daemon.host)
