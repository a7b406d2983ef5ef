"""W12 over a link: from the step that sends to the watch that is told in another home (G38).

    python -m bench.link_messages [pairs | calm]

Both homes are on the disk, and both daemons in this program; frames go from one to the other as the program
that has the connection carries them, two exchanges under way, without the connection itself. `pairs`: in each
of a hundred pairs a step of an agent of one home sends twenty elements, and in the other home a plan waits
for each. `calm`: one pair, and one message after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bench.agents import ask
from bench.measure import argument, emit, home, now, percentile, scratch
from bench.messages import EACH, MODULE, PAIRS, RECIPES, SENDS, WAITS
from narval.daemon.daemon import Daemon
from narval.files.home import Home

CALM = 200
PEER = '[{0}]\ntoken_sha256 = "{1}"\nagents = ["*"]\n'
RECEIVES = """idle_after = '1h'
always_active = true
receives = [{from = "*@here", elements = ["order"]}]
"""
WAIT = 5.0
"""Seconds for which an exchange waits for something to say."""


async def opened(folder: Path, pairs: int, each: int) -> tuple[Daemon, Daemon]:
    """The daemons of two homes that are linked; the receivers have so many plans that wait."""
    sends = "".join(
        SENDS.format(f"r{number}").replace(f'to="r{number}"', f'to="r{number}@there"')
        for number in range(pairs)
    )
    for name, other, token in (("here", "there", "0"), ("there", "here", "1")):
        home(
            folder / name, module=MODULE, recipes=RECIPES.format(sends, WAITS), settings="idle_after = '1h'\n"
        )
        (folder / name / "etc/peers.toml").write_text(PEER.format(other, token * 64))
    for number in range(pairs):
        place = folder / f"there/agents/r{number}"
        place.mkdir(parents=True)
        (place / "agent.toml").write_text(RECEIVES)
    here, there = await Daemon.open(Home(folder / "here")), await Daemon.open(Home(folder / "there"))
    for number in range(pairs):
        await ask(here, "", "add_agent", name=f"s{number}")
        await ask(here, f"s{number}", "count")
        for _ in range(each):
            await ask(there, f"r{number}", "start", name="m.waits")
    for daemon in (here, there):
        await daemon.main_loop.until_idle()
    return here, there


async def carry(here: Daemon, there: Daemon, answer: bytes, waits_here: bool) -> None:
    """Carry frames there and back after the first answer; one side waits for something to say."""
    while True:
        waits = {"wait": WAIT}
        frame = await ask(here, "", "exchange", peer="there", frame=answer, **(waits if waits_here else {}))
        answer = await ask(there, "", "exchange", peer="here", frame=frame, **({} if waits_here else waits))


class Linked:
    """Two daemons at work, and what goes between them, while one measures."""

    def __init__(self, here: Daemon, there: Daemon) -> None:
        self._daemons = here, there
        self._tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> None:
        here, there = self._daemons
        self._tasks = [asyncio.create_task(daemon.main_loop.run()) for daemon in self._daemons]
        frame = await ask(here, "", "exchange", peer="there")
        begun = await ask(there, "", "exchange", peer="here", frame=frame)
        self._tasks += [asyncio.create_task(carry(here, there, begun, waits)) for waits in (True, False)]
        await asyncio.sleep(0.5)

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks[2:]:
            task.cancel()
        for daemon in self._daemons:
            daemon.stop.request()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for daemon in self._daemons:
            await daemon.close()


async def between_pairs(folder: Path) -> dict[str, Any]:
    """The messages a second between all pairs."""
    here, there = await opened(folder, PAIRS, EACH)
    orders = [b"<order n='%d'/>" % number for number in range(EACH)]
    receivers = [there.agents.supervisor.host(f"r{number}") for number in range(PAIRS)]
    async with Linked(here, there):
        began = now()
        starts = (
            ask(here, f"s{number}", "start", name=f"m.r{number}", elements=orders) for number in range(PAIRS)
        )
        await asyncio.gather(*starts)
        while any(host is None or host.agent.runs.active for host in receivers):
            await asyncio.sleep(0.001)
        seconds = now() - began
    return {"n": PAIRS * EACH, "seconds": seconds, "per_second": round(PAIRS * EACH / seconds)}


async def one_by_one(folder: Path) -> dict[str, Any]:
    """The time from the sending of one message to the watch that is told, with nothing else to do."""
    here, there = await opened(folder, 1, CALM)
    receiver, taken = there.agents.supervisor.host("r0"), list[float]()
    assert receiver is not None
    async with Linked(here, there):
        began = now()
        for number in range(CALM):
            left, asked = len(receiver.agent.runs.active), now()
            await ask(here, "s0", "start", name="m.r0", elements=[b"<order n='%d'/>" % number])
            while len(receiver.agent.runs.active) == left:
                await asyncio.sleep(0.0005)
            taken.append((now() - asked) * 1e3)
        seconds = now() - began
    figures = {f"p{percent}_ms": round(percentile(taken, percent), 2) for percent in (50, 99)}
    return {"n": CALM, "seconds": seconds, **figures}


CASES: dict[str, Callable[[Path], Coroutine[Any, Any, dict[str, Any]]]] = {
    "pairs": between_pairs,
    "calm": one_by_one,
}


if __name__ == "__main__":
    case = argument(1, "pairs")
    with scratch() as folder:
        figures = asyncio.run(CASES[case](folder))
    emit(f"W12-link-{case}", figures.pop("n"), figures.pop("seconds"), **figures)
