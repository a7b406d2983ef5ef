"""Operations that list the loaded definitions, and the actions among them.

For each definition: how many of its runs are active, and how the last ones ended, at a bounded cost.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.lookup import files_of
from narval.ask.registry import operation
from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition
from narval.core.definitions.people.directory import Approval
from narval.core.definitions.suggestions import closest
from narval.core.engines.registry import run_kinds, standing_kinds
from narval.core.errors import Fault, NotFoundError
from narval.daemon.daemon import Daemon
from narval.files.found_files import ModuleText
from narval.files.shipped import is_shipped, shipped_modules
from narval.system.long_work import TimeSlice

_ATTRIBUTE = re.compile(r"@([\w.-]+)")


@operation("read")
async def definitions(daemon: Daemon) -> dict[str, Any]:
    """The definitions that are loaded, from which file, since when; and the faults of those that are not.

    For each, how many runs are active, how its last 20 among the newest 5,000 ended, and whether its file has
    faults now, so that the last good version is in use.
    """
    runs, loaded, faulty = await endings(daemon.agent), _loaded(daemon), _faulty(daemon)
    listed = sorted(daemon.agent.library, key=lambda definition: (definition.kind, definition.full_name))
    return {
        "definitions": [_row(definition, loaded, faulty, runs) for definition in listed],
        "faults": [json_forms.fault(fault) for fault in faults_of(daemon)],
    }


def faults_of(daemon: Daemon) -> Iterable[Fault]:
    """The faults of the files that apply to the addressed agent."""
    is_own = daemon.agent.store.is_own
    return daemon.files.faults if is_own else files_of(daemon).faults


def row_of(daemon: Daemon, definition: Definition, runs: Endings) -> dict[str, Any]:
    """One definition in the form of the listing."""
    return _row(definition, _loaded(daemon), _faulty(daemon), runs)


def _row(
    definition: Definition, loaded: Mapping[str, float | None], faulty: Container[str], runs: Endings
) -> dict[str, Any]:
    names = (definition.kind, definition.full_name)
    row = {
        "kind": definition.kind,
        "name": definition.full_name,
        "path": definition.path,
        "line": definition.line,
        "digest": definition.digest,
        "loaded": json_forms.moment(loaded.get(definition.path) or None),
        "description": json_forms.description(definition.descriptions),
        "faulty": definition.path in faulty,
        "active": runs.active[names],
        "ended": runs.phases(names),
    }
    custom_id = getattr(definition, "custom_id", "")
    return {**row, "custom_id": custom_id} if custom_id else row


def _loaded(daemon: Daemon) -> dict[str, float | None]:
    """The moment since when the loaded version of each file is active."""
    return {file.path: file.loaded for file in files_of(daemon).loaded.files}


def _faulty(daemon: Daemon) -> set[str]:
    """The files that have faults now."""
    return {fault.path for fault in faults_of(daemon) if not fault.warning}


@operation("read")
async def actions(daemon: Daemon, name: str = "", *, shipped: bool = False) -> list[dict[str, Any]]:
    """The actions, with their inputs and outputs, and whom the home asks first (P73). With `shipped`, all
    that ship instead, loaded or not, with the path of the module that replaces theirs, if any.

    With a `name`, that action, or those of that module, loaded or not, each with an `example` of a step that
    calls it. Raises RequestError if there is none of that name.
    """
    texts = files_of(daemon).loaded.texts
    if not name:
        return await asyncio.to_thread(_shipped, texts) if shipped else _loaded_actions(daemon)
    rows = [] if shipped else _named(name, _loaded_actions(daemon))
    if not rows:
        ships = await asyncio.to_thread(_shipped, texts)
        rows = _named(name, ships)
    if not rows:
        names = {row["name"] for row in (*(() if shipped else _loaded_actions(daemon)), *ships)}
        listed = closest(name, names) or "; `narval actions --shipped` lists those that ship"
        raise NotFoundError(f"there is no action {name!r:.80}{listed}")
    memory = daemon.agent.memory

    def is_there(element: str) -> bool:
        return any(eid not in memory.outdated for eid in memory.named([element]))

    return [{**row, "example": _example(row, is_there)} for row in rows]


def _named(name: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The action of a name, or those of the module of that name."""
    return [row for row in rows if row["name"] == name or row["name"].startswith(f"{name}.")]


def _example(row: dict[str, Any], is_there: Callable[[str], bool]) -> str:
    """A step that calls an action, with the elements that its author would write: without those that memory
    has, and those that come from the step before.
    """
    step = row["name"].partition(".")[2] or row["name"]
    written = [_argument(slot) for slot in row["inputs"] if slot["reads"] and not slot["optional"]]
    if any(one["required"] for one in row.get("arguments", ())):
        written = [_of_tool(row)]
    arguments = [f"    {xml}\n" for name, xml in written if not is_there(name)]
    head = f'<step id="{step}" type="action" target="{row["name"]}"'
    if not arguments:
        return f"{head}/>"
    return f"{head}>\n  <arguments>\n{''.join(arguments)}  </arguments>\n</step>"


def _of_tool(row: dict[str, Any]) -> tuple[str, str]:
    """The name of the element of a tool's arguments, and the element with those that it requires."""
    name = row["inputs"][0]["match"][0]
    needed = [one for one in row["arguments"] if one["required"]]
    head = " ".join([name, *(f'{one["name"]}="…"' for one in needed if not one["is_child"])])
    inner = "".join(f"<{one['name']}>…</{one['name']}>" for one in needed if one["is_child"])
    return name, f"<{head}>{inner}</{name}>" if inner else f"<{head}/>"


def _argument(slot: dict[str, Any]) -> tuple[str, str]:
    """The name of the element that an input takes, and the element with the attributes that it must have."""
    pattern = slot["match"][0]
    name = pattern.partition("[")[0]
    must = _ATTRIBUTE.findall(pattern.partition(" or ")[0]) or slot["reads"][:1]
    attributes = [f'{attribute}="…"' for attribute in must]
    return name, f"<{' '.join([name, *attributes])}/>"


def _loaded_actions(daemon: Daemon) -> list[dict[str, Any]]:
    listed = sorted(daemon.agent.library.of("action").items())
    rules = daemon.agent.lookup.people.approvals
    return [
        {**json_forms.action(action), "asks": [_rule(rule) for rule in rules if rule.action == name]}
        for name, action in listed
        if isinstance(action, Action)
    ]


def _rule(rule: Approval) -> str:
    """A rule of the home in words: the work that asks, and the inputs it concerns."""
    return f"{rule.work} if {rule.match}" if rule.match else rule.work


def _shipped(texts: Mapping[str, ModuleText]) -> list[dict[str, Any]]:
    ships = shipped_modules()
    loaded = ships.load(ships.names).modules
    shipped = (action for group in sorted(loaded) for action in loaded[group].found)
    return [
        {**json_forms.action(action), "replaced_by": _replacing(texts.get(action.group))}
        for action in sorted(shipped, key=lambda action: action.full_name)
        if isinstance(action, Action)
    ]


def _replacing(counts: ModuleText | None) -> str | None:
    """The path of a module that replaces one that ships."""
    return None if counts is None or is_shipped(counts.path) else counts.path


# --- how runs ended -------------------------------------------------------------------------------------

LAST = 20
"""The most ended runs of a definition that are counted, the last ones."""
RUNS_LOOKED_AT = 5000
"""The most runs, newest first, that are searched for them."""

Key = tuple[str, str]
"""The kind and the full name of a definition."""


class Endings(NamedTuple):
    """The active runs, counted, and the last ended ones, newest first, by definition."""

    active: Counter[Key]
    over: dict[Key, list[Run]]

    def phases(self, key: Key) -> dict[str, int]:
        """The number of the last runs of a definition that ended in each phase."""
        return dict(Counter(run.phase for run in self.over.get(key, ())))


async def endings(agent: AgentState, only: Key | None = None) -> Endings:
    """The runs of all definitions, or of one; without service runs."""
    standing, time_slice = set(standing_kinds().values()), TimeSlice()
    active = Counter(key(run) for run in agent.runs.active.values() if run.kind not in standing)
    over: defaultdict[Key, list[Run]] = defaultdict(list)
    kinds = [kind for kind in run_kinds() if kind not in standing]
    for eid in islice(agent.memory.index.newest_named(kinds), RUNS_LOOKED_AT):
        await time_slice.yield_if_due()
        run = agent.runs.get(eid)
        if run is None or run.active or only not in (None, key(run)):
            continue
        runs_of_one = over[key(run)]
        if len(runs_of_one) < LAST:
            runs_of_one.append(run)
        elif only is not None:
            break
    return Endings(active, dict(over))


def key(run: Run) -> Key:
    """The kind and name of the definition that a run follows."""
    return run.engine.definition_kind, run.name
