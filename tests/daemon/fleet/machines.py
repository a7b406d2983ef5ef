"""Daemons of several homes on one simulated server, for tests of what they are to one another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import NarvalError
from narval.daemon import daemon as daemons
from narval.daemon.daemon import Daemon
from narval.daemon.fleet.fleet import Fleet
from narval.files.home import Home
from narval.system.clock import SimulatedClock
from tests.daemon.at_work import in_a_loop
from tests.simulator.server import Server
from tests.simulator.shared_store import SharedStore

LIGHT = "fleet_weight = 1\n"
"""The settings of a daemon whose share are few agents, so that it is given none."""


class Machines:
    """Daemons of several homes on one server, on one clock; each beats when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.clock = SimulatedClock(1_000_000.0)
        self.server = Server(folder / "server.db", self.clock.now)
        self.folder = folder
        self.up: dict[str, Daemon] = {}

    async def start(self, name: str, settings: str = "") -> Daemon:
        folder = self.folder / name
        for part in ("etc", "recipes", "data"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "etc/narval.toml").write_text(f'name = "{name}"\n{settings}')
        daemon = self.up[name] = await Daemon.open(Home(folder), clock=self.clock)
        await daemon.main_loop.until_idle()
        return daemon

    async def beat(self, *names: str) -> None:
        for name in names or self.up:
            await fleet_of(self.up[name]).beat()
            await self.up[name].main_loop.until_idle()

    async def pass_time(self, seconds: float, *beating: str) -> None:
        """Let time pass in which some daemons renew."""
        for _ in range(round(seconds / 0.5)):
            self.clock.advance(0.5)
            await self.beat(*beating) if beating else None

    async def kill(self, name: str) -> None:
        daemon = self.up.pop(name)
        daemon.store.refuse("killed")  # type: ignore[attr-defined]
        daemon.store.leases.daemon = 0  # type: ignore[union-attr]
        with suppress(NarvalError):
            await daemon.close()

    async def close(self) -> None:
        for daemon in self.up.values():
            await daemon.close()
        self.server.close()

    def holders(self, agent: str) -> list[str]:
        """The daemons that have an agent."""
        return [name for name, daemon in self.up.items() if agent in daemon.agents.rows]


def fleet_of(daemon: Daemon) -> Fleet:
    assert daemon.fleet is not None
    return daemon.fleet


async def ask(daemon: Daemon, operation: str, agent: str = "", /, **given: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent) if agent else PROGRAM, operation, given)


def on_machines(test: Callable[[Machines], Awaitable[None]]) -> Callable[..., None]:
    """A test that is given machines."""

    def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        @in_a_loop
        async def body() -> None:
            machines = Machines(tmp_path)
            monkeypatch.setattr(daemons, "open_store", lambda *_: SharedStore(machines.server))
            await test(machines)
            await machines.close()

        body()

    run.__name__ = test.__name__
    return run
