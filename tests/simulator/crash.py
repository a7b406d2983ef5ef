"""A home whose daemons may be killed before or after any commit, and what is watched meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from narval.agent import loop, run, turn
from narval.agent.agent import AgentState
from narval.daemon import daemon as daemons
from narval.daemon import main_loop
from narval.store.batch import Batch
from narval.store.database import Database
from narval.system import stopwatch
from tests.daemon.at_work import Killed, Scene
from tests.simulator.interleave import InterleavedBook
from tests.simulator.invariants import Ledger

__all__ = ["Crashing", "Killed", "taken_apart"]


class Crashing(Scene):
    """A scene that keeps a ledger of what is committed."""

    def __init__(self, folder: Path, *, limit: int, settings: str, ledger: Ledger) -> None:
        super().__init__(folder, limit=limit, settings=settings)
        self.ledger = ledger
        self.crashes = 0

    def commit(self, write: Any, store: Database, batches: tuple[Batch, ...]) -> None:
        """As the scene has it, and counted."""
        try:
            super().commit(write, store, batches)
        except Killed:
            self.crashes += 1
            raise

    def _note(self, batches: tuple[Batch, ...]) -> None:
        self.ledger.note(batches)


@contextmanager
def taken_apart(
    scene: Crashing, chance: Random, executor: Callable[..., Any], recorded: Callable[[AgentState], None]
) -> Iterator[None]:
    """The daemon's own parts at work, but for the commit, the executor and what measures real time.

    `recorded` is called with its agent when a turn is recorded, before anything of it is performed.
    """
    write, perform = Database.commit, loop.Loop.perform
    ticks = Ticks(chance)

    def commit(store: Database, *batches: Batch) -> None:
        scene.commit(write, store, batches)

    def performed(self: loop.Loop, made: turn.Turn) -> None:
        recorded(self.agent)
        perform(self, made)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "commit", commit)
        patch.setattr(loop.Loop, "perform", performed)
        patch.setattr(stopwatch, "seconds", ticks)
        patch.setattr(run, "SNAPSHOT_AFTER", 3)
        patch.setattr(main_loop, "SLICE", 0.0)
        patch.setattr(daemons, "Executor", executor)
        patch.setattr(daemons, "CallBook", InterleavedBook)
        yield


class Ticks:
    """What a turn measures its own length by: now and then it takes long, and is cut short."""

    def __init__(self, chance: Random) -> None:
        self._chance, self._now = chance, 0.0

    def __call__(self) -> float:
        if self._chance.random() < 0.05:
            self._now += 2 * loop.SLICE
        return self._now
