"""The link of a store that daemons share: one of those whose home names the peer has it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from narval.core.errors import ElsewhereError
from narval.daemon.daemon import Daemon
from narval.daemon.links.frame import decode
from tests.daemon.fleet.machines import Machines, ask, on_machines

PEER = f'[office]\ntoken_sha256 = "{"0" * 64}"\nagents = ["*"]\n'


@on_machines
async def test_a_home_that_names_the_peer_takes_over_the_link_of_one_that_is_gone(machines: Machines) -> None:
    for name in ("attic", "barn"):
        (machines.folder / name / "etc").mkdir(parents=True)
        (machines.folder / name / "etc/peers.toml").write_text(PEER)
    attic, barn, _ = [await machines.start(name) for name in ("attic", "barn", "cellar")]
    before = decode(await ask(attic, "exchange", peer="office"))
    await ask(attic, "send", to="shop@office", elements=[b"<order/>"])
    with pytest.raises(ElsewhereError):
        await ask(barn, "exchange", peer="office")
    await machines.kill("attic")
    await machines.pass_time(4.0, "barn", "cellar")
    assert machines.holders("@office") == []
    after = decode(await ask(barn, "exchange", peer="office"))
    assert machines.holders("@office") == ["barn"]
    assert after.link == before.link
    [link] = await ask(barn, "links")
    assert (link["messages"], link["sent"]) == (1, 1)


@on_machines
async def test_a_home_that_drops_the_peer_leaves_the_link_to_another_that_names_it(
    machines: Machines,
) -> None:
    for name in ("attic", "barn"):
        (machines.folder / name / "etc").mkdir(parents=True)
        (machines.folder / name / "etc/peers.toml").write_text(PEER)
    attic, barn = [await machines.start(name) for name in ("attic", "barn")]
    before = decode(await ask(attic, "exchange", peer="office"))
    await ask(attic, "send", to="shop@office", elements=[b"<order/>"])
    (machines.folder / "attic/etc/peers.toml").write_text("")
    await ask(attic, "reload")
    assert machines.holders("@office") == []
    after = decode(await ask(barn, "exchange", peer="office"))
    assert (machines.holders("@office"), after.link) == (["barn"], before.link)
    [link] = await ask(barn, "links")
    assert link["messages"] == 1
    (machines.folder / "barn/etc/peers.toml").write_text("")  # nobody names it any more
    await ask(barn, "reload")
    await machines.pass_time(1.0, "attic", "barn")
    [error] = await ask(attic, "memory", xpath="error[@type='undelivered']")
    assert "the link with office was removed" in error["xml"]


def names_peer(machines: Machines, *names: str) -> None:
    for name in names:
        (machines.folder / name / "etc").mkdir(parents=True, exist_ok=True)
        (machines.folder / name / "etc/peers.toml").write_text(PEER)


async def drops_peer(machines: Machines, name: str) -> None:
    (machines.folder / name / "etc/peers.toml").write_text("")
    await ask(machines.up[name], "reload")


async def undelivered(daemon: Daemon) -> int:
    return len(await ask(daemon, "memory", xpath="error[@type='undelivered']"))


@on_machines
async def test_a_link_is_not_left_to_a_home_that_is_not_at_work(machines: Machines) -> None:
    names_peer(machines, "attic", "barn")
    attic, _ = [await machines.start(name) for name in ("attic", "barn")]
    await ask(attic, "send", to="shop@office", elements=[b"<order/>"])
    await machines.kill("barn")
    await machines.pass_time(4.0, "attic")
    await drops_peer(machines, "attic")
    assert await undelivered(attic) == 1
    assert machines.holders("@office") == []


async def leaves_and_drops(machines: Machines, *, is_up: bool) -> None:
    names_peer(machines, "attic", "barn")
    attic, _ = [await machines.start(name) for name in ("attic", "barn")]
    await ask(attic, "send", to="shop@office", elements=[b"<order/>"])
    await drops_peer(machines, "attic")
    assert machines.holders("@office") == [], "barn has not been asked to exchange anything yet"
    if is_up:
        await drops_peer(machines, "barn")
    else:
        await machines.kill("barn")
        (machines.folder / "barn/etc/peers.toml").write_text("")
        await machines.pass_time(4.0, "attic")
        await machines.start("barn")
    await machines.pass_time(1.0, *machines.up)
    assert await undelivered(attic) == 1


@on_machines
async def test_a_link_that_was_left_to_a_home_is_removed_by_it_once_it_names_the_peer_no_more(
    machines: Machines,
) -> None:
    await leaves_and_drops(machines, is_up=True)


@on_machines
async def test_so_it_is_if_that_home_has_dropped_the_peer_while_it_was_not_at_work(
    machines: Machines,
) -> None:
    await leaves_and_drops(machines, is_up=False)


@on_machines
async def test_a_link_that_the_other_home_drops_as_it_is_left_to_it_is_removed(machines: Machines) -> None:
    names_peer(machines, "attic", "barn")
    attic, _ = [await machines.start(name) for name in ("attic", "barn")]
    await ask(attic, "send", to="shop@office", elements=[b"<order/>"])
    leases, loop = attic.store.leases, asyncio.get_running_loop()
    assert leases is not None
    give = leases.give

    def give_late(agents: Iterable[int]) -> None:
        asyncio.run_coroutine_threadsafe(drops_peer(machines, "barn"), loop).result(60.0)
        give(agents)

    leases.give = give_late  # type: ignore[method-assign]
    await drops_peer(machines, "attic")
    assert await undelivered(attic) == 1
    assert machines.holders("@office") == []
