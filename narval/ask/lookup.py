"""Finding the run and the definition that a request names, and the errors for missing ones."""

from __future__ import annotations

import difflib
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.history import past
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.ask.text import article
from narval.core.definitions.library import Definition, ModuleDefinition
from narval.core.engines.engine import Migratable, instead_of_renewal
from narval.core.engines.registry import definition_kind, is_runnable, runnable, standing_kinds
from narval.core.errors import NotFoundError, RequestError
from narval.core.kinds import ASKING
from narval.daemon.daemon import Daemon
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
    raise NotFoundError(nothing_at(daemon, eid, "run"))


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


def find_definition(daemon: Daemon, name: str, kind: str | None) -> Definition:
    """The loaded definition of a name: of a kind (of definitions or of runs) if one is named, else the one
    that `start` starts if several have the name. Raises RequestError.
    """
    library = daemon.agent.library
    if kind is not None:
        definition = library.get(definition_kind(kind), name)
        if definition is None:
            listed = f"`{command(daemon, 'definitions')}` lists what is loaded"
            raise NotFoundError(f"there is no {kind} {name}; {listed}")
        return definition
    if (begun := runnable(library, name)) is not None:
        return begun
    several = [definition for definition in library if definition.full_name == name]
    if not several:
        raise no_definition(daemon, name)
    if len(several) > 1:
        kinds = ", ".join(definition.kind for definition in several)
        raise RequestError(f"several definitions are called {name}; name the kind of one: {kinds}")
    return several[0]


def nothing_at(daemon: Daemon, eid: int, sort: str = "element") -> str:
    """The message for an eid that no element or run has any more, or ever had."""
    if 0 < eid < daemon.agent.memory.next_eid:
        gone = f"there is no element or run {eid} any more: it was forgotten, and nothing is kept of it"
        return f"{gone}; `narval log` may tell of it"
    listing = command(daemon, "runs" if sort == "run" else "memory")
    return f"there is no {sort} {eid}; `{listing}` lists them"


def no_definition(daemon: Daemon, name: str) -> RequestError:
    """The error for a name that cannot be started: the fault of its file, its kind, or the nearest name."""
    if (fault := load_fault(daemon, name)) or daemon.agent.library.find(name) is not None:
        return RequestError(fault or _unknown(daemon, name))
    return NotFoundError(_unknown(daemon, name))


def load_fault(daemon: Daemon, name: str) -> str:
    """The fault of the file expected to have a definition; "" without one."""
    return files_of(daemon).loaded.why_missing(name)


def fault_of_file(daemon: Daemon, definition: Definition) -> str:
    """The sentence on the file of a loaded definition that has faults by now; "" if it has none."""
    faults = files_of(daemon).loaded.faults
    if not any(fault.path == definition.path and not fault.warning for fault in faults):
        return ""
    return f"{definition.path} has faults, so its last good version runs; see the faults: narval check"


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


def files_of(daemon: Daemon) -> AgentFiles:
    """The files that apply to the addressed agent."""
    return daemon.files.of(daemon.host)
