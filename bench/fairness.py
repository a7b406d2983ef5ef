"""W11: how several agents share a daemon (G11, G12).

    python -m bench.fairness [fair | round]

`fair`: a calm agent is asked to add an element now and then, beside one that begins plans
of ten steps faster than it gets them done; the time is that until the element is recorded. `round`: a
thousand agents have one event each, over a store that is synced (`power`); told is in how many commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.agents import ask
from bench.measure import argument, emit, home, now, percentile, scratch
from bench.steps import MODULE, recipe
from narval.agent.loop import Request
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.store.batch import Batch

AGENTS, ASKED = 1000, 500
PLANS, AT_ONCE = 2000, 20
"""The plans that a flooded agent is to have, and those begun together."""


async def opened(folder: Path, settings: str = "") -> Daemon:
    """A daemon on a new home."""
    home(folder, module=MODULE, recipes=recipe(10, "next"), settings=settings)
    return await Daemon.open(Home(folder))


async def keep_flooded(daemon: Daemon, agent: str) -> None:
    """See to it that an agent always has plans to go on with."""
    async with daemon.of(agent) as seen:
        while True:
            if len(seen.agent.runs.active) < PLANS:
                expected = [b"<x n='0'/>"] * AT_ONCE
                await ask(daemon, agent, "start", name="w.line", elements=expected, each=True)
            await asyncio.sleep(0)


async def fair(folder: Path) -> dict[str, Any]:
    """The time until what a calm agent is asked is recorded, beside one that floods itself."""
    daemon = await opened(folder)
    for name in ("flooded", "calm"):
        await ask(daemon, "", "add_agent", name=name)
    work = asyncio.create_task(daemon.main_loop.run())
    flood = asyncio.create_task(keep_flooded(daemon, "flooded"))
    await ask(daemon, "calm", "add", elements=[b"<mail/>"])
    taken = []
    began = now()
    for _ in range(ASKED):
        await asyncio.sleep(0.01)
        asked = now()
        await ask(daemon, "calm", "add", elements=[b"<mail/>"])
        taken.append(now() - asked)
    seconds = now() - began
    async with daemon.of("flooded") as seen:
        assert len(seen.agent.runs.active) >= AT_ONCE, "it has more to do than it gets done"
    flood.cancel()
    with suppress(asyncio.CancelledError):
        await flood
    daemon.stop.request()
    await work
    await daemon.close()
    ms = [duration * 1e3 for duration in taken]
    figures = {f"calm_p{percent}_ms": round(percentile(ms, percent), 2) for percent in (50, 99)}
    return {"n": ASKED, "seconds": seconds, **figures}


async def round_of_all(folder: Path) -> dict[str, Any]:
    """The commits in which the events of many agents are recorded, one of each."""
    daemon = await opened(folder, "durability = 'power'\nidle_after = '1h'\n")
    for number in range(AGENTS):
        await ask(daemon, "", "add_agent", name=f"a{number}")
    hosts = []
    for number in range(AGENTS):
        async with daemon.agents.asked(f"a{number}") as host:
            hosts.append(host)
    await daemon.main_loop.until_idle()
    commits, commit = 0, daemon.store.commit

    def counted(*batches: Batch) -> None:
        nonlocal commits
        commits += 1
        commit(*batches)

    daemon.store.commit = counted  # type: ignore[method-assign]
    began = now()
    for host in hosts:
        host.post(Request(lambda turn: turn.add(b"<mail/>"), lambda result, error: None))
    await daemon.main_loop.until_idle()
    seconds = now() - began
    await daemon.close()
    return {"n": AGENTS, "seconds": seconds, "commits": commits}


CASES: dict[str, Callable[[Path], Coroutine[Any, Any, dict[str, Any]]]] = {
    "fair": fair,
    "round": round_of_all,
}


if __name__ == "__main__":
    case = argument(1, "fair")
    with scratch() as folder:
        told = asyncio.run(CASES[case](folder))
    emit(f"W11-{case}", told.pop("n"), told.pop("seconds"), **told)
