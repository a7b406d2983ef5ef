"""Stage: what a simulation sees of a home, which it only reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from zoneinfo import ZoneInfo

import msgspec

from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.runtime.home.schemas import Schemas
from narval.runtime.home.settings import Settings
from narval.runtime.system.zone import machine_zone
from narval.simulation.memory_copy import Remembered, remembered


class SimulatedHome(msgspec.Struct, frozen=True):
    """A home as a simulation sees it: its definitions, its settings, its schemas; None stands for no home.

    `recall` gives the memory of the home as it is now.
    """

    home: Home | None
    settings: Settings
    loaded: Loaded
    schemas: Schemas
    zone: tzinfo | None
    recall: Callable[[], Remembered] = Remembered


def simulated_home(home: Home | None) -> SimulatedHome:
    """A home as a simulation sees it. Raises SettingsError."""
    if home is None:
        return SimulatedHome(None, Settings(), Loaded(), Schemas(None), None)
    settings = Settings.load(home.path)
    zone = ZoneInfo(settings.timezone or machine_zone())
    recall = partial(remembered, home, settings)
    return SimulatedHome(home, settings, Loader(home.path).load(), Schemas(home.schemas), zone, recall)
