"""A home that is opened again and again, at moments of a clock that stands still meanwhile."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import narval
from narval import SimulatedClock
from narval.surfaces.python.agent import Agent


class HomeInTime:
    """A home in a zone, and its clock."""

    def __init__(
        self, folder: Path, start: str, files: dict[str, str], zone: str = "UTC", settings: str = ""
    ) -> None:
        self.path, self.clock = folder / "home", SimulatedClock(start)
        for name, text in files.items():
            self.write(name, text)
        self.zone(zone, settings)

    def write(self, name: str, text: str) -> None:
        """A file of the home."""
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)

    def zone(self, name: str, settings: str = "") -> None:
        """Move the home to another zone."""
        self.write("etc/narval.toml", f'timezone = "{name}"\n{settings}')
        self.known = ZoneInfo(name)

    def shown(self, moment: float, form: str = "%Y-%m-%dT%H:%M") -> str:
        """A moment as the clock on the wall shows it there."""
        return datetime.fromtimestamp(moment, self.known).strftime(form)

    def open(self) -> Agent:
        return narval.open(self.path, clock=self.clock)
