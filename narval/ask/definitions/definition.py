"""The operations `definition` and `tell`: the details of one definition, and what it does in sentences.

Its inputs are the elements that its parts take and that nothing within it produces. The text of a version
comes from its stored bytes. Two tellings are compared sentence by sentence.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Container, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.agent.timers import StartRun
from narval.ask import json_forms
from narval.ask.definitions.listing import endings, faults_of, key, row_of
from narval.ask.json_forms import moment
from narval.ask.lookup import files_of, find_definition
from narval.ask.registry import Form, operation
from narval.ask.text import Row
from narval.core.definitions.library import Definition, Library, RunDefinition, named_by
from narval.core.definitions.prototype import Input, Prototype
from narval.core.definitions.telling.sentence import tell as sentences_of
from narval.core.elements.element import parse
from narval.core.engines.engine import HasEnvironment
from narval.core.engines.registry import engine_of, is_runnable
from narval.core.errors import Fault
from narval.core.kinds import KINDS
from narval.core.trust.flow import CallFlow, GivenBy, InMemory, Taken, TheArgument, flow_of
from narval.daemon.daemon import Daemon
from narval.files.found_files import ModuleText
from narval.system.long_work import TimeSlice
from narval.system.regular_file import read_file

DATES = 20
"""The most upcoming moments in the answer."""

JOBS = 100
"""The most upcoming timers that are searched for a run that starts again."""

_NO_SETTINGS = frozenset({*Definition.__struct_fields__, "column", "inputs_by_digest"})
"""The fields of definitions that are no settings: those of every kind, and what only its engine needs."""


@operation("read")
async def definition(daemon: Daemon, name: str, kind: str | None = None) -> dict[str, Any]:
    """One definition, in the form of `definitions`, with its source, its current file with its faults, its
    prototype, the inputs with which a run may be started, its settings, whom it calls and who calls it, its
    active runs and the last ended ones, and the moments for which its runs wait.

    `kind` chooses one if several kinds have the name; by default it is the one that `start` starts. Raises
    RequestError.
    """
    the_definition, agent = find_definition(daemon, name, kind), daemon.agent
    of = (the_definition.kind, the_definition.full_name)
    runs = await endings(agent, of)
    prototype = getattr(the_definition, "prototype", None)
    fields = set(the_definition.__struct_fields__) - _NO_SETTINGS
    settings = {field: getattr(the_definition, field) for field in sorted(fields)}
    return {
        **row_of(daemon, the_definition, runs),
        "source": text_of(the_definition.kind, the_definition.path, the_definition.xml),
        "file": await _file(daemon, the_definition),
        "prototype": json_forms.prototype(prototype) if isinstance(prototype, Prototype) else None,
        "takes": inputs_of(the_definition, agent.library),
        "has_environment": is_runnable(the_definition.kind)
        and isinstance(engine_of(the_definition.kind), HasEnvironment),
        "settings": {field: value for field, value in settings.items() if isinstance(value, _PLAIN)},
        "calls": _distinct(_calls(agent.library, the_definition)),
        "called_by": _distinct([row async for row in _callers(agent.library, the_definition)]),
        "lately": [json_forms.run(agent, run) for run in runs.over.get(of, ())],
        "dates": list(_dates(agent, the_definition)) if is_runnable(the_definition.kind) else [],
    }


_PLAIN = (str, int, float, bool)


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
    begins = (
        (at, 0)
        for at, _, job in agent.clockwork.timers.soonest(JOBS)
        if isinstance(job, StartRun) and job.name == definition.full_name
    )
    for at, eid in heapq.nsmallest(DATES, {*waits, *begins}):
        row = {"at": moment(at), "run": eid or None, "part": None, "text": "another run begins"}
        yield row if not eid else row | _part_waiting(agent, agent.runs[eid], at)


def _part_waiting(agent: AgentState, run: Run, at: float) -> dict[str, Any]:
    """The part of a run that waits for a moment, and for what."""
    waits = run.engine.waiting_for(definition_of(agent, run), state_of(agent, run), run.watches)
    wait = next((wait for wait in waits if wait.until == at), None)
    return {"part": wait.id, "text": wait.text} if wait is not None else {"text": ""}


# --- inputs -------------------------------------------------------------------------------------------------


MOST_NESTED = 4
"""The deepest nesting of runs that is looked into."""


def inputs_of(definition: Definition, library: Library) -> list[dict[str, Any]]:
    """The elements with which a run may be started: for each the patterns that it must match (`match`, all of
    them), and the `parts` that take it, as `part` and `input`.

    With `list` it takes several, with `optional` possibly none. An element that the run is not given, it
    takes from memory if it is there. The definitions that it calls are searched too, except those at other
    agents.
    """
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for part, name, match, slot in _inputs(definition, library, "", MOST_NESTED):
        row = rows.setdefault(match, {"match": list(match), "list": False, "optional": True, "parts": []})
        row["list"] = row["list"] or (slot is not None and slot.list)
        row["optional"] = row["optional"] and (slot is None or slot.optional)
        if (taking := {"part": part, "input": name}) not in row["parts"]:
            row["parts"].append(taking)
    return list(rows.values())


Found = tuple[str, str, tuple[str, ...], Input | None]
"""A part, its input, the patterns of the input, and its declaration."""


def _inputs(definition: Definition, library: Library, within: str, deeper: int) -> Iterator[Found]:
    if not isinstance(definition, RunDefinition):
        return
    if (prototype := _prototype_of(definition)) is not None:
        yield from (
            (within, slot.id, slot.match, slot) for slot in prototype.inputs if not slot.condition.variables
        )
        return
    giving: set[str] = set()
    for call in flow_of(definition, library).calls:
        part = f"{within}/{call.part}" if within else call.part
        yield from ((part, *taking) for taking in _of_call(call, giving))
        if call.prototype.outputs:
            giving.add(call.part)
        called = library.get(call.kind, call.target)
        if called is not None and _prototype_of(called) is None and not call.agent and deeper:
            yield from _inputs(called, library, part, deeper - 1)


def _prototype_of(definition: Definition) -> Prototype | None:
    """The inputs and outputs that a definition itself declares: they say what its call takes."""
    prototype = getattr(definition, "prototype", None)
    return prototype if isinstance(prototype, Prototype) else None


def _of_call(call: CallFlow, giving: Container[str]) -> Iterator[tuple[str, tuple[str, ...], Input | None]]:
    """The inputs of a call that neither an argument nor the outputs of earlier parts provide."""
    declared = {slot.id: slot for slot in call.prototype.inputs}
    for name, taken in call.inputs.items():
        origins = [each.origin for each in taken]
        if any(isinstance(each, TheArgument) for each in origins):
            continue
        if any(isinstance(each, GivenBy) and each.part in giving for each in origins):
            continue
        slot = declared.get(name)
        is_sure = slot is not None and not slot.condition.variables
        if match := slot.match if slot is not None and is_sure else _patterns(taken):
            yield name, match, slot


def _patterns(taken: Iterable[Taken]) -> tuple[str, ...]:
    """The patterns that can be evaluated without the run: those that led to the part."""
    conditions = [
        each.origin.condition for each in taken if isinstance(each.origin, InMemory) and not each.fallback
    ]
    patterns = [pattern for one in conditions if one is not None for pattern in one.patterns]
    return tuple(dict.fromkeys(pattern.text for pattern in patterns if not pattern.variables))


# --- sentences ----------------------------------------------------------------------------------------------


@operation("read")
async def tell(daemon: Daemon, name: str, kind: str | None = None) -> list[Form]:
    """The sentences that say what a definition does, made from it alone: `{"definition", "kind", "file",
    "line", "column", "depth", "text"}`, where a sentence of greater depth details the one before it.

    The words for what it calls come from the loaded definitions. `kind` chooses one if several kinds have the
    name. Raises RequestError.
    """
    return told(find_definition(daemon, name, kind), daemon.agent.library)


def told(definition: Definition, library: Library) -> list[Form]:
    """The sentences about a definition, in the form of answers."""
    of = {"definition": definition.full_name, "kind": definition.kind, "file": definition.path}
    return [{**of, **sentence._asdict()} for sentence in sentences_of(definition, library)]


def changes(old: Iterable[Row], new: Iterable[Row]) -> Iterator[Form]:
    """The sentences that only one of two tellings has, each with `change`: "added" or "taken away".

    Definitions are compared by kind and name, their sentences in their order.
    """
    before, after = _by_definition(old), _by_definition(new)
    for which in dict.fromkeys((*after, *before)):
        yield from differences(before.get(which, []), after.get(which, []), "depth", "text")


def differences(before: Sequence[Row], after: Sequence[Row], *keys: str) -> Iterator[Form]:
    """The rows that only one of two lists has, compared by these keys, each with `change`: "added" or "taken
    away".
    """
    old, new = ([tuple(row[key] for key in keys) for row in rows] for rows in (before, after))
    for tag, first, last, start, end in SequenceMatcher(None, old, new, False).get_opcodes():
        if tag != "equal":
            yield from ({"change": "taken away", **row} for row in before[first:last])
            yield from ({"change": "added", **row} for row in after[start:end])


def _by_definition(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    by_definition: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_definition.setdefault((row["kind"], row["definition"]), []).append(row)
    return by_definition


# --- the text -----------------------------------------------------------------------------------------------


MODULE = "module"
"""The kind under which the store keeps whole modules."""


def text_of(kind: str, path: str, data: bytes) -> str:
    """The text of a version: XML, the text of a kind that is not XML, or a module, file after file."""
    if kind == MODULE:
        module = ModuleText.of(path, data)
        files = [(name, source.data.decode("utf-8", "replace")) for name, source in module.files.items()]
        return "\n".join(f"# --- {path}/{name}\n{text}" if name else text for name, text in sorted(files))
    row = KINDS.get(kind)
    if row is not None and row.suffixes and not row.roots:
        return parse(data).text or ""
    return data.decode("utf-8", "replace")
