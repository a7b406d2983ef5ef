"""A simulation in a program with an open agent: on its definitions and its memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from narval.agent.agent import AgentState
from narval.ask.lookup import files_of
from narval.core.definitions.reading.vocabulary import one_of
from narval.core.errors import RequestError
from narval.core.memory.memory import Memory
from narval.core.source.text import Source
from narval.daemon.daemon import Daemon
from narval.files.agents.collections import AGENTS
from narval.files.memory_file import SHOWN as MEMORY
from narval.store.batch import SUSPENDED, AgentRow, KeptElement, MarkRow, WithdrawalRow
from narval.surfaces.cli.render.simulation import json_form
from narval.surfaces.python.runner import Runner
from narval.trials.simulate import files
from narval.trials.simulate.memory_copy import Remembered, stored
from narval.trials.simulate.parser import read_date, read_scenario, read_when
from narval.trials.simulate.scenario import Scenario, scenario_of
from narval.trials.simulate.simulated_home import OtherAgent, SimulatedHome, with_all_settings
from narval.trials.simulate.simulation import play_scenario, start_of

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
        lambda: _remembered(daemon.agent),
        _memory_file(daemon),
        dict(_others(daemon)),
    )
    options = {"at": at, "until": until, "memory": memory}
    stated = {name: _read(name, text) for name, text in options.items() if text is not None}
    scenario = msgspec.structs.replace(_scenario(here, what), **stated)
    start = daemon.rounds.clock.now() if scenario.at is None else start_of(here, scenario)
    with _unlogged(daemon):
        return json_form(runner.run(play_scenario(here, scenario, start)))


def _scenario(here: SimulatedHome, what: str | Path) -> Scenario:
    if isinstance(what, str) and what.lstrip().startswith("<"):
        return read_scenario(Source.of_text("scenario", what), here.known)
    path = files.scenario_named(here.home, str(what))
    if path is not None:
        return files.read_file(here, path)
    if isinstance(what, Path):
        raise RequestError(f"there is no scenario {what}")
    return scenario_of(what)


def _memory_file(daemon: Daemon) -> Path | None:
    """The file that declares elements for the asked agent; None if there is none."""
    if daemon.home is None or daemon.agent.store.is_own:
        return daemon.home.memory if daemon.home is not None else None
    has_one = daemon.name in daemon.files.snapshot.agents
    return daemon.home.path / AGENTS / daemon.name / MEMORY if has_one else None


def _others(daemon: Daemon) -> Iterator[tuple[str, OtherAgent]]:
    """The agents of the home except the asked one."""
    files, own = daemon.files, daemon.agents.own
    if daemon.host is not own:
        counts = with_all_settings(files.snapshot.own, files.settings.own)
        yield files.settings.name, OtherAgent(counts, partial(_remembered, own.agent), is_at_work=True)
    for row in daemon.agents.rows.all():
        if row.name != daemon.name:
            of, settings = files.of_other(row.name), files.settings_of(row.name)
            has_one, is_suspended = row.name in files.snapshot.agents, row.state == SUSPENDED
            yield (
                row.name,
                OtherAgent(
                    with_all_settings(of, settings), partial(_recalled, daemon, row), has_one, is_suspended
                ),
            )


def _recalled(daemon: Daemon, row: AgentRow) -> Remembered:
    host = daemon.agents.supervisor.host(row.name)
    return stored(daemon.store.of(row.agent)) if host is None else _remembered(host.agent)


def _remembered(agent: AgentState) -> Remembered:
    """The memory of an agent as it is now, without its runs."""
    memory = agent.memory
    elements = ((eid, memory.element(eid)) for eid in memory if not memory.is_run(eid))
    return Remembered(
        [
            KeptElement(element, memory.declared.get(eid, ""), eid in memory.outdated)
            for eid, element in elements
            if element is not None
        ],
        [MarkRow(*scope, *use) for scope, uses in memory.marks.items() for use in uses.items()],
        _withdrawals(memory),
        list(memory.labels.all()),
        list(memory.unique_values),
        memory.next_eid,
    )


def _withdrawals(memory: Memory) -> list[WithdrawalRow]:
    withdrawn = [WithdrawalRow(eid, why, False) for eid, why in memory.withdrawn.items()]
    return withdrawn + [WithdrawalRow(eid, "", True) for eid in sorted(memory.doubtful)]


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
