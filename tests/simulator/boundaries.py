"""One short run, killed once at each of its commits, before it is written and after."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from narval.daemon.daemon import Daemon
from tests.simulator.simulation import OFTEN, Report, Simulation


class Boundary(Simulation):
    """A run in which a daemon is killed at one commit, and at no other."""

    happenings = (5, 10)
    option = "--every-commit "

    def __init__(self, seed: int, folder: Path, often: float, tell: Any, at: tuple[int, bool] | None) -> None:
        super().__init__(seed, folder, often, tell)
        self.at = at
        self._note(f"to be killed at {at}")

    def _doom(self, calm: bool) -> tuple[int, bool] | None:
        return self.at if self.at is not None and self.scene.commits < self.at[0] else None

    def _spare(self) -> None:
        """The commit may come when all goes well."""

    async def _vanish(self, daemon: Daemon) -> None:
        """Not at other times."""


def every_boundary(
    seed: int,
    kind: type[Boundary] = Boundary,
    *,
    often: float = OFTEN,
    tell: Callable[[str], None] | None = None,
) -> Iterator[Report]:
    """The run without a crash, then once for each commit and side of it. Raises BrokenError."""

    def lived(at: tuple[int, bool] | None) -> Report:
        with tempfile.TemporaryDirectory() as folder:
            return kind(seed, Path(folder), often, tell, at).run()

    whole = lived(None)
    yield whole
    for commit in range(1, whole.commits + 1):
        for is_written in (False, True):
            yield lived((commit, is_written))


__all__ = ["Boundary", "every_boundary"]
