"""A simulation from within a program that has an agent open: on its definitions and its memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from narval.definitions.reading.vocabulary import one_of
from narval.errors import RequestError
from narval.operations.lookup import files_of
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.home.agents.collections import AGENTS
from narval.runtime.home.memory_file import SHOWN as MEMORY
from narval.runtime.store.batch import HOME_AGENT, KeptElement, MarkRow
from narval.simulation import files
from narval.simulation.memory_copy import Remembered
from narval.simulation.parser import read_date, read_scenario, read_when
from narval.simulation.scenario import Scenario, scenario_of
from narval.simulation.simulated_home import SimulatedHome
from narval.simulation.simulation import play_scenario, start_of
from narval.source.text import Source
from narval.surfaces.cli.render.simulation import json_form
from narval.surfaces.python.runner import Runner

_READERS = {"at": read_date, "until": read_when, "memory": one_of("new", "now", "empty")}


def simulate(
    daemon: Daemon, runner: Runner, what: str | Path, *, at: str | None, until: str | None, memory: str | None
) -> dict[str, Any]:
    """The report of a simulation, in the form of `narval simulate --json`."""
    counts = files_of(daemon)
    here = SimulatedHome(
        daemon.home,
        daemon.files.settings,
        counts.loaded,
        counts.schemas,
        ZoneInfo(daemon.agent.clockwork.zone),
        lambda: _remembered(daemon),
        _memory_file(daemon),
    )
    given = {"at": at, "until": until, "memory": memory}
    stated = {name: _read(name, text) for name, text in given.items() if text is not None}
    scenario = msgspec.structs.replace(_scenario(here, what), **stated)
    start = daemon.rounds.clock.now() if scenario.at is None else start_of(here, scenario)
    with _unlogged(daemon):
        return json_form(runner.run(play_scenario(here, scenario, start)))


def _scenario(here: SimulatedHome, what: str | Path) -> Scenario:
    if isinstance(what, str) and what.lstrip().startswith("<"):
        return read_scenario(Source.of_text("scenario", what), here.loaded.library, here.schemas)
    path = files.scenario_named(here.home, str(what))
    if path is not None:
        return files.read_file(here, path)
    if isinstance(what, Path):
        raise RequestError(f"there is no scenario {what}")
    return scenario_of(what)


def _memory_file(daemon: Daemon) -> Path | None:
    """The file that declares elements for the agent that is asked; None where there is none."""
    if daemon.home is None or daemon.agent.store.agent == HOME_AGENT:
        return daemon.home.memory if daemon.home is not None else None
    has_one = daemon.name in daemon.files.followers.folders
    return daemon.home.path / AGENTS / daemon.name / MEMORY if has_one else None


def _remembered(daemon: Daemon) -> Remembered:
    """The memory of the agent as it is now, without its runs."""
    memory = daemon.agent.memory
    found = ((eid, memory.element(eid)) for eid in memory if not memory.is_run(eid))
    return Remembered(
        [
            KeptElement(element, memory.declared.get(eid, ""), eid in memory.outdated)
            for eid, element in found
            if element is not None
        ],
        [MarkRow(*scope, *use) for scope, uses in memory.marks.items() for use in uses.items()],
        list(memory.unique_values),
        memory.next_eid,
    )


@contextmanager
def _unlogged(daemon: Daemon) -> Iterator[None]:
    """Keep a simulation out of the log of the home."""
    logger = logging.getLogger("narval")
    is_attached = daemon.logbook in logger.handlers
    logger.removeHandler(daemon.logbook)
    try:
        yield
    finally:
        if is_attached:
            logger.addHandler(daemon.logbook)


def _read(name: str, text: str) -> Any:
    try:
        return _READERS[name](text)
    except ValueError as error:
        raise RequestError(f"expected {name} to be {error.args[0]}, got {text!r}") from None
