"""A daemon as a member of its fleet: it takes agents over, loses and gives them; its gate (G47 to G59)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest

from narval.core.errors import (
    CutOffError,
    FencedError,
    NarvalError,
    RequestError,
    StoreAwayError,
    StoreError,
)
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.store.postgresql.leases import DOUBTED, LEASE
from narval.store.store import Store
from narval.surfaces.cli.daemon import run
from narval.system.clock import SimulatedClock
from tests.daemon.at_work import in_a_loop
from tests.daemon.fleet.machines import LIGHT, Machines, ask, fleet_of, on_machines


@on_machines
async def test_G49_agents_of_a_daemon_that_is_lost_are_at_work_at_others(machines: Machines) -> None:
    attic = await machines.start("attic")
    for n in range(6):
        await ask(attic, "add_agent", name=f"a{n}")
        await ask(attic, "add", f"a{n}", elements=[f"<tick n='{n}'/>".encode()])
    await machines.start("barn", LIGHT)
    await machines.pass_time(4.0, "attic", "barn")
    assert all(machines.holders(f"a{n}") == ["attic"] for n in range(6)), "barn takes nothing from who lives"
    await machines.kill("attic")
    await machines.pass_time(2.5, "barn")
    assert not machines.holders("a0")
    await machines.pass_time(1.5, "barn")
    barn = machines.up["barn"]
    for n in range(6):
        assert machines.holders(f"a{n}") == ["barn"]
        [tick] = await ask(barn, "memory", f"a{n}", xpath="tick")
        assert f'n="{n}"' in tick["xml"]
    assert not machines.holders("attic"), "it is pinned to its home"


@on_machines
async def test_G48_a_daemon_that_cannot_renew_decides_and_performs_nothing_until_it_can(
    machines: Machines,
) -> None:
    attic = await machines.start("attic")
    machines.clock.advance(DOUBTED)
    working = asyncio.create_task(attic.main_loop.run())
    await asyncio.sleep(0)
    asked = asyncio.create_task(ask(attic, "add", elements=[b"<late/>"]))
    for _ in range(50):
        await asyncio.sleep(0)
    turns = attic.host.loop.turns
    assert not asked.done()
    assert attic.main_loop.is_idle()
    await fleet_of(attic).beat()
    await asked
    assert attic.host.loop.turns > turns
    attic.stop.request()
    await working


@on_machines
async def test_G48_what_was_recorded_when_the_gate_closed_is_performed_when_it_opens(
    machines: Machines,
) -> None:
    attic = await machines.start("attic")
    commit = attic.store.commit

    def slow(*batches: Any) -> None:
        commit(*batches)
        machines.clock.advance(DOUBTED)

    attic.store.commit = slow  # type: ignore[method-assign]
    asked = asyncio.create_task(ask(attic, "add", elements=[b"<late/>"]))
    while machines.clock.now() < 1_000_000.0 + DOUBTED:
        await asyncio.sleep(0.001)
    attic.store.commit = commit  # type: ignore[method-assign]
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert not asked.done(), "nobody is answered"
    await fleet_of(attic).beat()
    await asked


@on_machines
async def test_G47_one_whose_row_is_gone_records_nothing_and_ends_to_start_over(machines: Machines) -> None:
    attic, barn = await machines.start("attic"), await machines.start("barn")
    await ask(attic, "add_agent", name="ada")
    await ask(attic, "add", "ada", elements=[b"<before/>"])
    await machines.pass_time(LEASE + 1.0, "barn")
    assert "ada" in barn.agents.rows
    working = asyncio.create_task(attic.main_loop.run())
    with pytest.raises(FencedError):
        await fleet_of(attic).beat()
    with pytest.raises(FencedError):
        await working
    with pytest.raises(FencedError):
        await ask(attic, "add", "ada", elements=[b"<after/>"])
    machines.up.pop("attic")
    await attic.close()
    names = [row["name"] for row in await ask(barn, "memory", "ada")]
    assert "before" in names
    assert "after" not in names
    await machines.start("attic")


@on_machines
async def test_G47_an_agent_that_was_lost_is_dropped_and_the_rest_of_the_round_is_recorded(
    machines: Machines,
) -> None:
    attic, barn = await machines.start("attic"), await machines.start("barn")
    for name in ("ada", "bob"):
        await ask(attic, "add_agent", name=name)
        await ask(attic, "add", name, elements=[b"<before/>"])
    ada = attic.agents.rows["ada"].agent
    machines.server.give(attic.store.leases.daemon, {ada})  # type: ignore[union-attr]
    await machines.beat("barn")
    await machines.beat("barn")
    assert "ada" in barn.agents.rows
    working = asyncio.create_task(attic.main_loop.run())
    await asyncio.sleep(0)
    lost = asyncio.create_task(ask(attic, "add", "ada", elements=[b"<after/>"]))
    kept = asyncio.create_task(ask(attic, "add", "bob", elements=[b"<after/>"]))
    await kept
    with pytest.raises(NarvalError):
        await lost
    assert machines.holders("ada") == ["barn"]
    assert machines.holders("bob") == ["attic"]
    attic.stop.request()
    await working
    assert "after" not in [row["name"] for row in await ask(barn, "memory", "ada")]


@on_machines
async def test_G52_while_the_store_is_away_nothing_is_taken_from_anybody(machines: Machines) -> None:
    attic, barn = await machines.start("attic"), await machines.start("barn")
    await ask(attic, "add_agent", name="ada")
    links = [daemon.store.link for daemon in (attic, barn)]  # type: ignore[attr-defined]
    for link in links:
        link.is_away = True
    await machines.pass_time(60.0, "attic", "barn")
    for link in links:
        link.is_away = False
    await machines.pass_time(5.0, "barn", "attic")
    assert machines.holders("ada") == ["attic"]
    assert await ask(attic, "add", "ada", elements=[b"<after/>"])


@on_machines
async def test_G52_a_store_that_is_away_is_told_with_the_first_beat_that_fails_and_once_in_the_log(
    machines: Machines,
) -> None:
    attic = await machines.start("attic")
    assert (await ask(attic, "status"))["away"] is None
    attic.store.link.is_away = True  # type: ignore[attr-defined]
    log = StringIO()
    with written_to(log):
        for _ in range(3):
            await fleet_of(attic).beat()
            machines.clock.advance(0.5)
        away = (await ask(attic, "status"))["away"]
        assert away["why"].startswith("the server of the store does not answer")
        assert [item["what"] for item in await ask(attic, "attention")] == ["store"]
        attic.store.link.is_away = False  # type: ignore[attr-defined]
        await machines.beat()
        await machines.beat()
    assert (await ask(attic, "status"))["away"] is None
    told = log.getvalue().splitlines()
    assert [line.split(":")[0] for line in told] == [
        "the store is away, and nothing is done until it is back",
        "the store is back after 1.5 s",
    ]


@on_machines
async def test_G52_a_turn_of_the_homes_own_agent_that_needs_the_store_ends_the_daemon_to_start_over(
    machines: Machines,
) -> None:
    attic = await machines.start("attic")
    working = asyncio.create_task(attic.main_loop.run())
    attic.store.link.is_away = True  # type: ignore[attr-defined]
    with pytest.raises(StoreAwayError):
        await attic.host.submit(lambda turn: attic.host.mail.office.addresses.find("ada"))
    with pytest.raises(CutOffError, match="the home's own agent could not continue"):
        await working
    await machines.kill("attic")
    await machines.pass_time(LEASE + 0.5)
    attic = await machines.start("attic")
    assert await ask(attic, "add", elements=[b"<after/>"])


@in_a_loop
async def test_G52_a_daemon_that_was_cut_off_starts_over() -> None:
    async def ends(*ends: StoreError | None) -> str:
        left, lost = iter(ends), list[float]()

        async def work() -> str:
            if (error := next(left)) is not None:
                raise error
            return "done"

        done = str(await run.until_over(work, lost))
        assert len(lost) == len(ends) - 1
        return done

    cut_off = CutOffError("cut off")
    assert await ends(cut_off, FencedError("fenced", frozenset()), None) == "done"
    with pytest.raises(StoreError, match="broken"):
        await ends(cut_off, StoreError("broken"))


@contextmanager
def written_to(log: StringIO) -> Iterator[None]:
    """Have what daemons say of their fleet written there."""
    handler, logger = logging.StreamHandler(log), logging.getLogger("narval.fleet")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@on_machines
async def test_a_daemon_that_has_more_than_its_share_gives_agents_at_rest_to_others(
    machines: Machines,
) -> None:
    attic = await machines.start("attic")
    for n in range(20):
        await ask(attic, "add_agent", name=f"a{n}")
    barn = await machines.start("barn")
    await machines.pass_time(20.0, "attic", "barn")
    assert 8 <= len(barn.agents.rows) <= 12
    assert len(attic.agents.rows) + len(barn.agents.rows) == 20


@on_machines
async def test_G56_a_daemon_that_drains_gives_all_away_and_stops(machines: Machines) -> None:
    attic, barn = await machines.start("attic"), await machines.start("barn")
    for n in range(4):
        await ask(attic, "add_agent", name=f"a{n}")
        await ask(attic, "add", f"a{n}", elements=[b"<tick/>"])
    await ask(attic, "stop", drain=True)
    working = asyncio.create_task(attic.main_loop.run())
    while not working.done():
        await fleet_of(attic).beat()
        await asyncio.sleep(0.001)
    await machines.up.pop("attic").close()
    await machines.beat("barn")
    assert sorted(barn.agents.rows.names()) == ["a0", "a1", "a2", "a3"]
    assert len(await ask(barn, "memory", "a3", xpath="tick")) == 1


@on_machines
async def test_G56_a_daemon_that_drains_stops_in_time_though_its_store_is_away(machines: Machines) -> None:
    attic, _ = await machines.start("attic", "stop_grace = 0.01\n"), await machines.start("barn")
    await ask(attic, "add_agent", name="ada")
    attic.store.link.is_away = True  # type: ignore[attr-defined]
    await ask(attic, "stop", drain=True)
    working = asyncio.create_task(attic.main_loop.run())
    async with asyncio.timeout(30):
        while not working.done():
            await fleet_of(attic).beat()
            await asyncio.sleep(0.001)
    attic.store.link.is_away = False  # type: ignore[attr-defined]


@on_machines
async def test_G59_a_daemon_whose_clock_is_far_off_takes_nothing_and_says_so(machines: Machines) -> None:
    attic, barn = await machines.start("attic"), await machines.start("barn")
    await ask(attic, "add_agent", name="ada")
    await machines.beat()
    members = fleet_of(barn).members
    assert members.clocks.warning == ""
    machines.server.now = lambda: machines.clock.now() + 40.0
    await machines.beat()
    assert members.clocks.warning.startswith("the clock of this machine is 40 s behind that of the store")
    machines.server.give(attic.store.leases.daemon, {attic.agents.rows["ada"].agent})  # type: ignore[union-attr]
    await machines.beat("barn")
    assert "ada" not in barn.agents.rows
    machines.server.now = lambda: machines.clock.now() + 3.0
    await machines.beat("barn")
    await machines.beat("barn")
    assert members.clocks.warning.endswith("of the store")
    assert "ada" in barn.agents.rows


@on_machines
async def test_G59_a_daemon_whose_clock_is_far_off_is_given_nothing(machines: Machines) -> None:
    attic = await machines.start("attic")
    machines.server.now = lambda: machines.clock.now() + 40.0
    barn = await machines.start("barn")
    for n in range(6):
        await ask(attic, "add_agent", name=f"a{n}")
    await machines.beat("barn")
    fleet_of(attic).members.clocks.compare = lambda *_: None  # type: ignore[method-assign]
    fleet_of(attic).members.clocks.apart = 0.0
    await machines.pass_time(4.0, "attic", "barn")
    assert all(machines.holders(f"a{n}") == ["attic"] for n in range(6)), "they would wait there for ever"
    with pytest.raises(RequestError, match="takes no agents"):
        await ask(attic, "move_agent", name="a0", to="barn")
    numbers = [attic.agents.rows["a0"].agent]
    barn.store.leases.renew(draining=False)  # type: ignore[union-attr]
    attic.agents.supervisor.lose(frozenset(numbers))
    assert attic.store.leases.hand_over(numbers, barn.store.leases.daemon)  # type: ignore[union-attr]
    await machines.beat("barn")
    assert machines.holders("a0") == ["barn"], "what it was given before is its own"


@on_machines
async def test_G52_a_daemon_with_nothing_to_record_ends_too_when_its_patience_is_over(
    machines: Machines,
) -> None:
    attic = await machines.start("attic")
    attic.store.leases.patience = 6.0  # type: ignore[union-attr]
    attic.store.link.is_away = True  # type: ignore[attr-defined]
    working = asyncio.create_task(attic.main_loop.run())
    for _ in range(12):
        await fleet_of(attic).beat()
        await asyncio.sleep(0)
        machines.clock.advance(0.5)
        assert not working.done()
    machines.clock.advance(0.5)
    await fleet_of(attic).beat()
    with pytest.raises(StoreAwayError, match=r"given up after 6 seconds \(store_patience\)"):
        await working
    attic.store.link.is_away = False  # type: ignore[attr-defined]


@on_machines
async def test_G59_an_answer_that_comes_late_is_no_wrong_clock(machines: Machines) -> None:
    attic = await machines.start("attic")
    members, renew = fleet_of(attic).members, attic.store.leases.renew  # type: ignore[union-attr]

    def late(**given: Any) -> Any:
        machines.clock.advance(22.0)
        beat = renew(**given)
        machines.clock.advance(22.0)
        return beat

    attic.store.leases.renew = late  # type: ignore[union-attr, method-assign]
    await machines.beat("attic")
    assert members.clocks.warning == ""
    machines.server.now = lambda: machines.clock.now() - 25.0
    await machines.beat("attic")
    assert members.clocks.warning.startswith("the clock of this machine is 3 s ahead of that of the store")


@on_machines
async def test_G50_no_more_agents_are_taken_than_can_be_restored_in_half_a_second(machines: Machines) -> None:
    attic, barn = await machines.start("attic"), await machines.start("barn")
    for n in range(100):
        await ask(attic, "add_agent", name=f"a{n}")
        await ask(attic, "add", f"a{n}", elements=[b"<tick/>"])
    await machines.kill("attic")
    slow_down(barn, machines.clock, 0.02)
    await machines.pass_time(LEASE - 0.5, "barn")
    machines.clock.advance(0.5)
    taking_over = fleet_of(barn).taking_over
    portions: list[int] = []
    while len(barn.agents.rows) < 100:
        assert taking_over.room() > 0
        before = len(barn.agents.rows)
        await machines.beat("barn")
        portions.append(len(barn.agents.rows) - before)
    assert 33 >= max(portions[1:]) >= 20, "what takes half a second, once that was measured"
    assert all(barn.agents.supervisor.host(f"a{n}") is not None for n in range(100))


@on_machines
async def test_G50_agents_that_cannot_be_read_in_one_go_are_taken_over_one_by_one(machines: Machines) -> None:
    attic, barn = await machines.start("attic"), await machines.start("barn")
    await ask(attic, "add_agent", name="ada")
    await ask(attic, "add", "ada", elements=[b"<tick/>"])
    await machines.kill("attic")

    def broken(store: Store, agents: Collection[int]) -> None:
        raise ValueError("a fault")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "read_ahead", broken)
        await machines.pass_time(LEASE + 1.0, "barn")
    assert not fleet_of(barn).taking_over.is_under_way()
    assert barn.agents.supervisor.host("ada") is not None


@on_machines
async def test_G50_agents_with_folders_go_on_one_after_another_at_a_start(machines: Machines) -> None:
    for n in range(3):
        folder = machines.folder / "attic" / "agents" / f"a{n}"
        folder.mkdir(parents=True)
        (folder / "agent.toml").touch()
    attic = await machines.start("attic")
    for n in range(3):
        await ask(attic, "add", f"a{n}", elements=[b"<tick/>"])
    await machines.kill("attic")
    machines.clock.advance(LEASE)
    attic = machines.up["attic"] = await Daemon.open(Home(machines.folder / "attic"), clock=machines.clock)
    assert fleet_of(attic).taking_over.is_under_way(), "the event loop has its turn between two of them"
    await attic.main_loop.until_idle()
    assert all(attic.agents.supervisor.host(f"a{n}") is not None for n in range(3))


@on_machines
async def test_G52_a_store_that_is_slow_and_leases_that_were_lost_need_attention(machines: Machines) -> None:
    attic = await machines.start("attic")
    assert await ask(attic, "attention") == []
    renew = attic.store.leases.renew  # type: ignore[union-attr]

    def slow(**given: Any) -> Any:
        machines.clock.advance(1.5)
        return renew(**given)

    attic.store.leases.renew = slow  # type: ignore[union-attr, method-assign]
    await machines.beat("attic")
    fleet_of(attic).members.has_lost([machines.clock.now() - 100_000.0, machines.clock.now() - 60.0])
    [store, lost] = await ask(attic, "attention")
    assert store["text"].startswith("the store is slow: it answered the last heartbeat after 1.5 s")
    assert lost["text"].startswith("this daemon lost 1 lease within a day, and others took its agents")
    assert len((await ask(attic, "status"))["lost"]) == 2


@on_machines
async def test_G52_a_home_whose_daemon_is_gone_needs_attention_at_the_others(machines: Machines) -> None:
    await machines.start("attic")
    barn = await machines.start("barn")
    await machines.beat()
    assert await ask(barn, "attention") == []
    await machines.kill("attic")
    await machines.pass_time(5.0, "barn")
    [lost] = await ask(barn, "attention")
    assert (lost["what"], lost["text"]) == (
        "fleet",
        "the daemon of home attic is gone, and the agents of that home wait: start it there (narval run)",
    )
    await machines.start("attic")
    await machines.beat("barn")
    assert await ask(barn, "attention") == []


def slow_down(daemon: Daemon, clock: SimulatedClock, seconds: float) -> None:
    """Have it take so long to restore an agent."""
    need = daemon.agents.supervisor.need

    def slow(name: str, *, at_once: bool = False) -> None:
        clock.advance(seconds)
        need(name, at_once=at_once)

    daemon.agents.supervisor.need = slow  # type: ignore[method-assign]
