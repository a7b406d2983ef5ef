"""One agent floods another: what others send, and what that one is asked, comes in between (G30, G31)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.at_work import Scene, in_a_loop
from tests.daemon.messages.test_messages import ask, memory, numbers, opened, send

FLOOD = 900


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, settings="timezone = 'UTC'\n")


@in_a_loop
async def test_G30_senders_take_turns_and_a_mailbox_does_not_starve_its_agent(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "flooder", "calm")
    await ask(daemon, "", "suspend", name="shop")
    await send(daemon, "shop", *(f"<order n='{n}'/>" for n in range(FLOOD)), by="flooder")
    await send(daemon, "shop", "<order n='calm'/>", by="calm")
    await ask(daemon, "", "resume", name="shop")
    async with daemon.of("shop") as seen:
        turns = seen.host.loop.turns
        await ask(daemon, "shop", "add", elements=[b"<order n='asked'/>"])
        assert seen.host.loop.turns - turns <= 3
    found = numbers(await memory(daemon, "shop", "order"))
    assert found.index("calm") <= 2
    assert found.index("asked") <= 300
    assert [n for n in found if n.isdecimal()] == list(map(str, range(FLOOD)))
    await scene.end()


@in_a_loop
async def test_G31_who_floods_waits_and_the_others_have_room(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "flooder", "calm")
    await ask(daemon, "", "suspend", name="shop")
    await send(daemon, "shop", *("<order n='0'/>" for _ in range(1000)), by="flooder")
    with pytest.raises(Exception, match="no room in the mailbox of shop"):
        await send(daemon, "shop", "<order n='1'/>", by="flooder")
    await send(daemon, "shop", "<order n='calm'/>", by="calm")
    await ask(daemon, "", "resume", name="shop")
    assert len(await memory(daemon, "shop", "order")) == 1001
    await scene.end()
