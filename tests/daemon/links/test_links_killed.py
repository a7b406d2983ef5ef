"""Daemons on both sides of a link are killed before and after their commits: each message once (G41)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import NarvalError
from narval.store.batch import Batch
from narval.store.database import Database
from tests.daemon.at_work import Killed, in_a_loop
from tests.daemon.links.test_links import MODULE, RECIPES, SHOP
from tests.daemon.links.two_homes import OTHER, TwoHomes

WRITE = Database.commit


class Kills:
    """Kills the daemon that makes a commit, of all those that both homes make, before it or after it."""

    def __init__(self, homes: TwoHomes) -> None:
        self._homes = homes
        self.commits = 0
        self.at: tuple[int, bool] | None = None
        self.dead = ""

    def commit(self, store: Database, *batches: Batch) -> None:
        """What stands in the place of `Database.commit`."""
        self.commits += 1
        if self.at is None or self.commits != self.at[0]:
            WRITE(store, *batches)
            return
        if self.at[1]:
            WRITE(store, *batches)
        store.refuse("killed")
        self.dead = next(name for name, one in self._homes.daemons.items() if one.store is store)
        raise Killed

    async def go_on(self) -> None:
        """Start the daemon anew that was killed."""
        if self.dead:
            name, self.dead, self.at = self.dead, "", None
            await self._homes.close(name)
            await self._homes.open(name)


async def story(homes: TwoHomes, kills: Kills) -> None:
    """Messages there, a call and its return; whoever is killed goes on."""
    frame: bytes | None = None
    asking = "home"
    for _ in range(40):
        try:
            for _ in range(4):
                frame = await homes.frame(asking, frame)
                asking = OTHER[asking]
                await homes.rest()
        except (Killed, NarvalError):
            pass
        if kills.dead:
            await kills.go_on()
            frame, asking = None, "home"
        elif await is_over(homes):
            return
    raise AssertionError("it does not come to rest")


async def is_over(homes: TwoHomes) -> bool:
    runs = await homes.ask("home", "runs")
    return all(run["state"] == "done" for run in runs) and not await homes.ask("home", "letters")


async def begun(folder: Path) -> TwoHomes:
    homes = TwoHomes(folder)
    for name in OTHER:
        homes.write(name, "recipes/m.xml", RECIPES)
        homes.write(name, "modules/m.py", MODULE)
    homes.write("office", "agents/shop/agent.toml", SHOP)
    await homes.open()
    await homes.ask("home", "add", elements=[b"<order n='1'/>", b"<order n='2'/>"])
    await homes.ask("home", "start", name="m.awaits")
    await homes.ask("home", "start", name="m.asks")
    await homes.rest()
    return homes


async def outcome(homes: TwoHomes) -> Any:
    orders = [order["xml"].partition('n="')[2][0] for order in await homes.memory("office", "order", "shop")]
    invoices = len(await homes.memory("home", "invoice"))
    return orders, invoices, len(await homes.ask("office", "runs", "shop"))


@in_a_loop
async def test_G41_each_side_may_be_killed_before_and_after_each_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = await begun(tmp_path / "whole")
    kills = Kills(homes)
    monkeypatch.setattr(Database, "commit", lambda store, *batches: kills.commit(store, *batches))
    await story(homes, kills)
    whole, many = await outcome(homes), kills.commits
    assert (sorted(whole[0]), whole[1:]) == (["1", "1", "2"], (1, 1))
    await homes.close()
    assert many > 8, many
    for number in range(1, many + 1):
        for is_written in (False, True):
            kills.at = None
            homes = await begun(tmp_path / f"{number}{is_written}")
            kills = Kills(homes)
            kills.at = number, is_written
            await story(homes, kills)
            assert kills.at is None, f"commit {number} was not made"
            assert await outcome(homes) == whole, f"killed at commit {number}, written: {is_written}"
            await homes.close()
