"""Simulations with more around them: files that are saved meanwhile, nights of summer time, no disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from narval.agent.agent import AgentState
from narval.daemon import daemon as daemons
from narval.daemon.daemon import Daemon
from narval.store.batch import Batch
from narval.store.memory import VolatileStore
from narval.system.clock import SimulatedClock
from tests.simulator import invariants
from tests.simulator.invariants import VolatileLedger
from tests.simulator.simulation import Simulation
from tests.simulator.world import FIELDS, MODULE, MORE, PATTERNS, World

NIGHTS = (
    ("Europe/Paris", "2026-03-28T22:00:00Z"),
    ("Europe/Paris", "2026-10-24T21:00:00Z"),
    ("America/New_York", "2026-03-08T03:00:00Z"),
    ("America/New_York", "2026-11-01T02:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T11:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T12:00:00Z"),
)
"""Evenings before clocks go forward or back; on Lord Howe by half an hour."""

FAULTY = "<cookbook><recipe group='w' name='outer'"


class NightWorld(World):
    """Recipes that wait for dates in the middle of the night, and for so long after their steps."""

    fields = (
        *FIELDS,
        "seconds='0' minutes='30' hours='2'",
        "seconds='0' minutes='15,45' hours='1-3'",
        "seconds='0' minutes='0,20,40'",
        "seconds='0' minutes='0' hours='3' weekdays='6'",
        "after='90m'",
        "after='1d 5m' weekdays='0-5'",
        "after='10m' missed='skip'",
    )
    dated = 0.4

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self.zone, self.evening = chance.choice(NIGHTS)

    def settings(self) -> str:
        """Its narval.toml, with the zone."""
        return super().settings() + f'timezone = "{self.zone}"\n'


class Wide(Simulation):
    """What changes while a daemon is running, on a night on which clocks are set."""

    option = "--wide "
    lengths = (1.0, 30.0, 400.0, 1_800.0, 5_400.0, 30_000.0)

    def __init__(self, seed: int, *rest: Any) -> None:
        super().__init__(seed, *rest)
        assert isinstance(self.world, NightWorld)
        self.scene.clock = SimulatedClock(self.world.evening)
        self._is_faulty = False

    def _new_world(self, chance: Random) -> World:
        return NightWorld(chance)

    def _ways(self) -> dict[Callable[[Daemon], Any], int]:
        return super()._ways() | {
            self._save_recipes: 2,
            self._save_module: 1,
            self._save_a_fault: 1,
        }

    # --- files that are saved -------------------------------------------------------------------------

    async def _save_recipes(self, daemon: Daemon) -> None:
        self._note("the recipes are saved")
        self._write_recipes()
        await self._reload(daemon)

    async def _save_module(self, daemon: Daemon) -> None:
        self._note("the module is saved")
        self.scene.write("modules/w.py", f"{MODULE}{MORE}# {self.chance.random()}\n")
        await self._reload(daemon)

    async def _save_a_fault(self, daemon: Daemon) -> None:
        self._note("recipes are saved that are none")
        self.scene.write("recipes/w.xml", FAULTY)
        self._is_faulty = True
        await self._reload(daemon)

    async def _reload(self, daemon: Daemon) -> None:
        await daemon.reloader.reload()
        self._check_faults(daemon)
        if self.chance.random() < 0.5:
            await self._rest(daemon)

    def _write_recipes(self) -> None:
        super()._write_recipes()
        self._is_faulty = False

    def _check_faults(self, daemon: Daemon) -> None:
        found = [str(fault) for fault in daemon.files.faults]
        assert bool(found) == self._is_faulty, found

    # --- what must hold of dates ----------------------------------------------------------------------

    async def _rest(self, daemon: Daemon) -> None:
        await super()._rest(daemon)
        if self.scene.alive is daemon and not daemon.host.loop.has_work() and not self._was_set:
            invariants.check_dates(daemon)


class Migrating(Wide):
    """Runs under way go on with other versions, most of which differ in one pattern, and back."""

    option = "--migrating "

    def __init__(self, seed: int, *rest: Any) -> None:
        self._text = ""
        super().__init__(seed, *rest)
        self.migrated = 0

    def _ways(self) -> dict[Callable[[Daemon], Any], int]:
        return super()._ways() | {self._migrate: 8}

    async def _migrate(self, daemon: Daemon) -> None:
        """All runs of some recipes go on with the newest version, or back; some have no place there."""
        how: dict[str, Any] = {"undo": True} if self.chance.random() < 0.3 else {}
        if not how:
            await self._save_recipes(daemon)
        if self.chance.random() < 0.1:
            how = {"names": {"s0": "s1"}}
        answer = await self._ask(daemon, "migrate", runs=["w.*"], **how)
        if answer is not None:
            self.migrated += sum(row["outcome"] == "migrated" for row in answer["runs"])
            await self._rest(daemon)

    def _write_recipes(self) -> None:
        waited = [pattern for pattern in PATTERNS if f"<match>{pattern}</match>" in self._text]
        if waited and self.chance.random() < 0.8:
            old, new = self.chance.choice(waited), self.chance.choice(PATTERNS)
            self._text = self._text.replace(f"<match>{old}</match>", f"<match>{new}</match>", 1)
        else:
            self._text = self.world.cookbook()
        self.scene.write("recipes/w.xml", self._text)
        self._is_faulty = False


class InMemory(Wide):
    """The same without a disk: who ends leaves nothing, and the next one begins anew."""

    option = "--in-memory "

    @contextmanager
    def apart(self) -> Any:
        """Stores that are in memory alone."""
        write = VolatileStore.commit

        def commit(store: VolatileStore, *batches: Batch) -> None:
            self.scene.commit(write, store, batches)  # type: ignore[arg-type]

        with super().apart(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(VolatileStore, "commit", commit)
            patch.setattr(daemons, "open_store", lambda *_: VolatileStore())
            yield

    def _ways(self) -> dict[Callable[[Daemon], Any], int]:
        left_out = {self._vanish, self._ask_without_a_daemon}
        return {way: often for way, often in super()._ways().items() if way not in left_out}

    def _doom(self, calm: bool) -> None:
        """Nobody is killed: there would be nothing left to look at."""

    async def _open(self, calm: bool) -> Daemon:
        self.calls += self.ledger.calls()
        self.ledger = self.scene.ledger = VolatileLedger()
        if self._is_faulty:  # there is no last good version of what was never read
            self._write_recipes()
        return await super()._open(calm)

    def _recorded(self, agent: AgentState) -> None:
        daemon = self.scene.alive
        if daemon is not None and self._looking.random() < self.often:
            self._compare(daemon.agent)

    async def _at_rest(self, daemon: Daemon) -> None:
        await self._rest(daemon)
        if self.scene.alive is daemon:
            self._compare(daemon.agent)

    def _compare(self, agent: AgentState) -> None:
        """The store is not read at a start, but each run can be rebuilt from it."""
        self.comparisons += 1
        invariants.check_rebuilt(agent)


__all__ = ["InMemory", "Migrating", "Wide"]
