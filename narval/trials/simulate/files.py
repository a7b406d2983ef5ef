"""Scenario files: those of `scenarios/` in a home, or any named by path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from narval.core.errors import DefinitionError, Fault, SettingsError
from narval.core.source.text import Source
from narval.files.home import SCENARIOS, Home
from narval.files.reading import load
from narval.files.schemas import Schemas
from narval.files.settings import Settings
from narval.system import regular_file
from narval.system.regular_file import unexpected
from narval.trials.simulate.parser import is_scenario, read_scenario
from narval.trials.simulate.scenario import Scenario
from narval.trials.simulate.simulated_home import SimulatedHome, simulated_home

SUFFIX = ".xml"


def scenario_files(home: Home) -> list[Path]:
    """The scenarios of a home."""
    files = (home.path / SCENARIOS).rglob(f"*{SUFFIX}")
    return sorted(path for path in files if path.is_file() and is_scenario_file(path))


def is_scenario_file(path: Path) -> bool:
    """True if the first element of a file is a scenario."""
    try:
        with path.open("rb") as file:
            return is_scenario(file.read(65536))
    except OSError:
        return False


def scenario_named(home: Home | None, name: str) -> Path | None:
    """The file of a name or path, None if there is none. A path is seen from here, or from the home; a name
    is that of a file in the home's folder.
    """
    paths = [Path(name)]
    if home is not None:
        folder = home.path / SCENARIOS
        paths += (
            home.path / name,
            *(folder / shape for shape in (name, f"{name}{SUFFIX}", f"{name}.scenario{SUFFIX}")),
        )
    for path in paths:
        if path.is_file() and path.suffix == SUFFIX:
            return path
    return None


def name_in(home: Home, path: Path) -> str:
    """The name of a scenario of a home in commands: its path in `scenarios/`, without its suffix."""
    inside = str(path.relative_to(home.path / SCENARIOS))
    return inside.removesuffix(SUFFIX).removesuffix(".scenario")


def read_file(here: SimulatedHome, path: Path) -> Scenario:
    """The scenario in a file, with its names resolved. Raises DefinitionError with all its faults."""
    source = _source(here.home, path)
    try:
        return read_scenario(source, here.known)
    except DefinitionError:
        raise
    except Exception as error:
        raise DefinitionError([unexpected(source.path, error)]) from error


def faults_of_scenarios(home: Home, paths: Sequence[Path]) -> list[Fault]:
    """The faults of scenarios of a home; nothing is played."""
    faults: list[Fault] = []
    if paths:
        here = _as_checked(home)
        for path in paths:
            try:
                read_file(here, path)
            except DefinitionError as error:
                faults += error.faults
    return faults


def _as_checked(home: Home) -> SimulatedHome:
    try:
        return simulated_home(home)
    except SettingsError:  # faults of settings are reported elsewhere
        return SimulatedHome(home, Settings(), load(home.path), Schemas(home.schemas), None)


def _source(home: Home | None, path: Path) -> Source:
    """The file, with its path relative to the home if it is within."""
    resolved, label = path.resolve(), str(path)
    if home is not None and resolved.is_relative_to(home.path.resolve()):
        label = str(resolved.relative_to(home.path.resolve()))
    read = regular_file.read_file(path, label)
    if isinstance(read, Fault):
        raise DefinitionError([read])
    return read
