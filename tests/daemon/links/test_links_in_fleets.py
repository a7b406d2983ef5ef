"""The link of a store that daemons share: one of those whose home names the peer has it."""

from __future__ import annotations

import pytest

from narval.core.errors import ElsewhereError
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
