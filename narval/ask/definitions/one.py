"""The operation `definition`: the details of one definition (M41)."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.agent.timers import StartRun
from narval.ask import json_forms
from narval.ask.definitions.endings import endings, key
from narval.ask.definitions.inputs import inputs_of
from narval.ask.definitions.listing import faults_of, row_of
from narval.ask.definitions.texts import text_of
from narval.ask.json_forms import moment
from narval.ask.lookup import command, files_of, no_definition
from narval.ask.registry import operation
from narval.core.definitions.library import Definition, Library, named_by
from narval.core.definitions.prototype import Prototype
from narval.core.engines.engine import HasEnvironment
from narval.core.engines.registry import definition_kind, engine_of, is_runnable, runnable
from narval.core.errors import Fault, RequestError
from narval.daemon.daemon import Daemon
from narval.system.regular_file import read_file
from narval.system.time_slice import TimeSlice

DATES = 20
"""The most upcoming moments in the answer."""

JOBS = 100
"""The most upcoming timers that are searched for a run that starts again."""

_EVERY = frozenset(Definition.__struct_fields__)


@operation("read")
async def definition(daemon: Daemon, name: str, kind: str | None = None) -> dict[str, Any]:
    """One definition, in the form of `definitions`, with its source, its current file with its faults, its
    prototype, the inputs with which a run may be started, its settings, whom it calls and who calls it, its
    active runs and the last ended ones, and the moments for which its runs wait.

    `kind` chooses one if several kinds have the name; by default it is the one that `start` starts. Raises
    RequestError.
    """
    found, agent = find_definition(daemon, name, kind), daemon.agent
    of = (found.kind, found.full_name)
    runs = await endings(agent, of)
    prototype = getattr(found, "prototype", None)
    fields = set(found.__struct_fields__) - _EVERY
    settings = {field: getattr(found, field) for field in sorted(fields)}
    return {
        **row_of(daemon, found, runs),
        "source": text_of(found.kind, found.path, found.xml),
        "file": await _file(daemon, found),
        "prototype": json_forms.prototype(prototype) if isinstance(prototype, Prototype) else None,
        "takes": inputs_of(found, agent.library),
        "has_environment": is_runnable(found.kind) and isinstance(engine_of(found.kind), HasEnvironment),
        "settings": {field: value for field, value in settings.items() if isinstance(value, _PLAIN)},
        "calls": _distinct(_calls(agent.library, found)),
        "called_by": _distinct([row async for row in _callers(agent.library, found)]),
        "lately": [json_forms.run(agent, run) for run in runs.over.get(of, ())],
        "dates": list(_dates(agent, found)) if is_runnable(found.kind) else [],
    }


_PLAIN = (str, int, float, bool)


def find_definition(daemon: Daemon, name: str, kind: str | None) -> Definition:
    """The loaded definition of a name: of a kind (of definitions or of runs) if one is named, else the one
    that `start` starts if several have the name. Raises RequestError.
    """
    library = daemon.agent.library
    if kind is not None:
        found = library.get(definition_kind(kind), name)
        if found is None:
            listed = f"`{command(daemon, 'definitions')}` lists what is loaded"
            raise RequestError(f"there is no {kind} {name}; {listed}")
        return found
    if (begun := runnable(library, name)) is not None:
        return begun
    several = [found for found in library if found.full_name == name]
    if not several:
        raise no_definition(daemon, name)
    if len(several) > 1:
        kinds = ", ".join(found.kind for found in several)
        raise RequestError(f"several definitions are called {name}; name the kind of one: {kinds}")
    return several[0]


async def _file(daemon: Daemon, definition: Definition) -> dict[str, Any] | None:
    """The text of its file and the faults in it: a module as loaded, any other file as it is now; None
    without a file.
    """
    faults = [json_forms.fault(fault) for fault in faults_of(daemon) if fault.path == definition.path]
    for text in files_of(daemon).loaded.texts.values():
        for source in text.files.values():
            if source.path == definition.path:
                return {"text": source.data.decode("utf-8", "replace"), "faults": faults}
    if daemon.home is None:
        return None
    read = await asyncio.to_thread(read_file, daemon.home.path / definition.path, definition.path)
    if isinstance(read, Fault):
        return {"text": "", "faults": [json_forms.fault(read)]}
    return {"text": read.data.decode("utf-8", "replace"), "faults": faults}


def _calls(library: Library, definition: Definition) -> Iterator[dict[str, Any]]:
    """The definitions that one names, also missing ones, each with the place of its first mention."""
    for reference in definition.references:
        target, _ = named_by(reference, library)
        kind = target.kind if target is not None else reference.kind or None
        name = target.full_name if target is not None else reference.target
        yield {"kind": kind, "name": name, "what": reference.what, "line": reference.line}


async def _callers(library: Library, definition: Definition) -> Any:
    """The definitions that name one, each with the place of the first mention."""
    time_slice = TimeSlice()
    for caller in library:
        await time_slice.yield_if_due()
        for reference in caller.references:
            if reference.target.endswith(definition.name) and named_by(reference, library)[0] is definition:
                row = {"kind": caller.kind, "name": caller.full_name}
                yield row | {"what": reference.what, "line": reference.line}


def _distinct(rows: Any) -> list[dict[str, Any]]:
    """The first row for each definition."""
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        first.setdefault((row["kind"], row["name"]), row)
    return list(first.values())


def _dates(agent: AgentState, definition: Definition) -> Iterator[dict[str, Any]]:
    """The moments for which its runs wait, soonest first, with the part that waits and for what; and the
    moment at which one starts again.
    """
    names = definition.kind, definition.full_name
    runs = [run for run in agent.runs.active.values() if key(run) == names]
    waits = ((wake.at, run.eid) for run in runs for wake in run.wakes.values())
    begins = ((at, 0) for at, _, job in agent.clockwork.timers.soonest(JOBS) if _begins(job, definition))
    for at, eid in heapq.nsmallest(DATES, {*waits, *begins}):
        row = {"at": moment(at), "run": eid or None, "part": None, "text": "another run begins"}
        yield row if not eid else row | _part_waiting(agent, agent.runs[eid], at)


def _part_waiting(agent: AgentState, run: Run, at: float) -> dict[str, Any]:
    """The part of a run that waits for a moment, and for what."""
    waits = run.engine.waiting_for(definition_of(agent, run), state_of(agent, run), run.watches)
    wait = next((wait for wait in waits if wait.until == at), None)
    return {"part": wait.id, "text": wait.text} if wait is not None else {"text": ""}


def _begins(job: object, definition: Definition) -> bool:
    return isinstance(job, StartRun) and job.name == definition.full_name
