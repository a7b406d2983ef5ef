"""Engines by kind: imported when the first definition of their kind is to run.

The rows are in `narval.core.kinds`. Worker programs see only events and import no engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import cast

from narval.core.definitions.library import Definition, Library, RunDefinition
from narval.core.engines.engine import Engine
from narval.core.kinds import KINDS


@cache
def engine_of(kind: str) -> Engine:
    """The engine of a kind of definitions, such as `recipe`. Raises KeyError if that kind is not run."""
    return _engine(KINDS[kind].engine)


@cache
def engine_of_run(run_kind: str) -> Engine:
    """The engine of a kind of runs, such as `plan`. Raises KeyError if there is none."""
    return _engine(next((kind.runs[run_kind] for kind in KINDS.values() if run_kind in kind.runs), ""))


def is_runnable(kind: str) -> bool:
    """True if definitions of a kind can be run; those of other kinds are called."""
    return kind in KINDS and bool(KINDS[kind].engine)


def runnable_kinds() -> Iterator[str]:
    """The kinds of definitions that can be run."""
    return (name for name, kind in KINDS.items() if kind.engine)


def run_kinds() -> Iterator[str]:
    """The kinds of runs, which are the names of their elements in memory."""
    return (run for kind in KINDS.values() for run in kind.runs)


def listed_kinds() -> Iterator[str]:
    """The kinds of runs in a listing without a given kind: items have a list of their own (P6), and service
    runs last as long as their definitions.
    """
    return (run for kind in KINDS.values() if not kind.asks for run in kind.runs if run != kind.standing)


def asking_kinds() -> Iterator[str]:
    """The kinds of runs that ask people: items of work."""
    return (run for kind in KINDS.values() if kind.asks for run in kind.runs)


def standing_kinds() -> dict[str, str]:
    """The kinds of service runs, by kind of definition."""
    return {name: kind.standing for name, kind in KINDS.items() if kind.standing}


def import_engines(library: Library) -> None:
    """Import the engines for all definitions of a library, before the first run waits for one."""
    for kind in runnable_kinds():
        for run_kind in KINDS[kind].runs if library.of(kind) else ():
            engine_of_run(run_kind)


def runnable(library: Library, name: str) -> Definition | None:
    """The runnable definition of that name; not an action of the same name, and work only if nothing else has
    the name.
    """
    definitions, asks = library.by_kind_and_name, None
    for kind, row in KINDS.items():
        if row.run and (definition := definitions.get((kind, name))) is not None:
            if not row.asks:
                return definition
            asks = definition
    return asks


def definition_kind(kind: str) -> str:
    """The kind of the definitions that runs of a kind follow; a kind of definitions maps to itself."""
    return next((name for name, row in KINDS.items() if kind in row.runs), kind)


def is_standing(run_kind: str) -> bool:
    """True for a kind of service runs."""
    if run_kind:  # a loop, not a generator: labels ask this often
        for kind in KINDS.values():
            if kind.standing == run_kind:
                return True
    return False


def undoing_kind(run_kind: str) -> str:
    """The kind of the runs that undo runs of a kind; "" if there is none."""
    return next((kind.undoes for kind in KINDS.values() if kind.run == run_kind), "")


def is_beside(run_kind: str) -> bool:
    """True for a kind of runs that is not the usual one of its definitions."""
    return any(run_kind in kind.besides for kind in KINDS.values())


def taking(library: Library, name: str) -> tuple[RunDefinition, str] | None:
    """The definition of that name that takes objects, and the kind of run that starts with one."""
    for kind, row in KINDS.items():
        if row.cases and (definition := library.by_kind_and_name.get((kind, name))) is not None:
            return cast("RunDefinition", definition), row.cases
    return None


@cache
def _engine(package: str) -> Engine:
    if not package:
        raise KeyError(package)
    return cast("Engine", import_module(f"{package}.engine"))
