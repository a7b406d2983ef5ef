"""Operations that list the loaded definitions, and the actions among them."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping
from typing import Any

from narval.ask import json_forms
from narval.ask.definitions.endings import Endings, endings
from narval.ask.lookup import files_of
from narval.ask.registry import operation
from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition
from narval.core.definitions.people.directory import Approval
from narval.core.errors import Fault
from narval.daemon.daemon import Daemon
from narval.files.module_text import ModuleText
from narval.files.shipped import is_shipped, shipped_modules


@operation("read")
async def definitions(daemon: Daemon) -> dict[str, Any]:
    """The definitions that are loaded, from which file, since when; and the faults of those that are not.

    For each, how many runs are under way, how its last 20 among the newest 5,000 ended, and whether its file
    has faults now, so that the last good version is in use.
    """
    runs, loaded, faulty = await endings(daemon.agent), _loaded(daemon), _faulty(daemon)
    listed = sorted(daemon.agent.library, key=lambda definition: (definition.kind, definition.full_name))
    return {
        "definitions": [_row(definition, loaded, faulty, runs) for definition in listed],
        "faults": [json_forms.fault(fault) for fault in faults_of(daemon)],
    }


def faults_of(daemon: Daemon) -> Iterable[Fault]:
    """The faults of the files that count for the agent that is asked."""
    is_own = daemon.agent.store.is_own
    return daemon.files.faults if is_own else files_of(daemon).faults


def row_of(daemon: Daemon, definition: Definition, runs: Endings) -> dict[str, Any]:
    """One definition in the form of the listing."""
    return _row(definition, _loaded(daemon), _faulty(daemon), runs)


def _row(
    definition: Definition, loaded: Mapping[str, float | None], faulty: Container[str], runs: Endings
) -> dict[str, Any]:
    names = (definition.kind, definition.full_name)
    return {
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


def _loaded(daemon: Daemon) -> dict[str, float | None]:
    """The moment since when the loaded version of each file counts."""
    return {file.path: file.loaded for file in files_of(daemon).loaded.files}


def _faulty(daemon: Daemon) -> set[str]:
    """The files that have faults now."""
    return {fault.path for fault in faults_of(daemon) if not fault.warning}


@operation("read")
async def actions(daemon: Daemon, *, shipped: bool = False) -> list[dict[str, Any]]:
    """The actions, with their inputs and outputs, and whom the home asks first (P73). With `shipped`, all
    that ship instead, loaded or not, with the path of the module that replaces theirs, if any.
    """
    if shipped:
        return await asyncio.to_thread(_shipped, files_of(daemon).loaded.texts)
    listed = sorted(daemon.agent.library.of("action").items())
    rules = daemon.agent.lookup.people.approvals
    return [
        {**json_forms.action(action), "asks": [_rule(rule) for rule in rules if rule.action == name]}
        for name, action in listed
        if isinstance(action, Action)
    ]


def _rule(rule: Approval) -> str:
    """A rule of the home in words: the work that asks, and the inputs it is about."""
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
