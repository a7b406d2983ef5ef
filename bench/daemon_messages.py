"""W12 between two daemons of one PostgreSQL: from the step that sends to the watch that is told (G38).

    python -m bench.daemon_messages [pairs | calm | unheard]

Two programs, each a daemon with a home of its own: one has the senders, the other the receivers, whose plans
wait for a message each. `pairs`: in each of a hundred pairs a step sends twenty elements. `calm`: one pair,
one message after another; `unheard`: the same with `listen = false`, so that a heartbeat finds each. The
server is that of $NARVAL_TEST_POSTGRES, or one that is started here.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.agents import ask
from bench.measure import argument, emit, home, percentile, scratch
from bench.messages import EACH, MODULE, PAIRS, RECIPES, SENDS, WAITS
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from tests.postgres import fresh_schema, shared_server

CALM, UNHEARD = 200, 20


class Side:
    """One of the two programs; it answers each line with one."""

    def __init__(self, role: str, *arguments: object) -> None:
        line = [sys.executable, "-m", "bench.daemon_messages", role, *map(str, arguments)]
        self._program = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, line: str) -> None:
        """Send a line."""
        assert self._program.stdin is not None
        print(line, file=self._program.stdin, flush=True)

    def hear(self) -> list[float]:
        """Wait for a line, of numbers."""
        assert self._program.stdout is not None
        line = self._program.stdout.readline()
        assert line, "the program has ended"
        return [float(word) for word in line.split()]

    def end(self) -> None:
        """End the program."""
        self._program.terminate()
        self._program.wait()


def measured(folder: Path, url: str, case: str) -> dict[str, Any]:
    """The figures of a case."""
    pairs, each = (PAIRS, EACH) if case == "pairs" else (1, UNHEARD if case == "unheard" else CALM)
    listen = str(case != "unheard").lower()
    with ExitStack() as ends:
        sides = []
        for role in ("receives", "sends"):
            side = Side(role, folder / role, url, pairs, each, listen)
            ends.callback(side.end)
            side.hear()  # it is ready
            sides.append(side)
        receiver, sender = sides
        if case == "pairs":
            sender.tell(" ".join(map(str, range(each))))
            receiver.tell(str(pairs * each))
            [began], [ended] = sender.hear(), receiver.hear()
            n, seconds = pairs * each, ended - began
            return {"n": n, "seconds": seconds, "per_second": round(n / seconds)}
        taken = []
        for number in range(each):
            receiver.tell(str(number + 1))
            sender.tell(str(number))
            [began], [ended] = sender.hear(), receiver.hear()
            taken.append((ended - began) * 1e3)
            time.sleep(0.037 if case == "unheard" else 0.0)  # at any moment between two heartbeats
    figures = {f"p{percent}_ms": round(percentile(taken, percent), 1) for percent in (50, 99)}
    return {"n": each, "seconds": sum(taken) / 1e3, **figures}


# --- the two programs -------------------------------------------------------------------------------------


async def opened(folder: Path, url: str, names: list[str], listen: str) -> Daemon:
    """A daemon that has agents of these names, and keeps them."""
    senders = "".join(SENDS.format(f"r{number}") for number in range(len(names)))
    settings = f'name = "{folder.name}"\nstore = "{url}"\nlisten = {listen}\nidle_after = "1h"\n'
    home(folder, module=MODULE, recipes=RECIPES.format(senders, WAITS), settings=settings)
    daemon = await Daemon.open(Home(folder))
    for name in names:
        await ask(daemon, "", "add_agent", name=name)
        await ask(daemon, name, "count")
        if (leases := daemon.store.leases) is not None:
            leases.pin(daemon.agents.rows[name].agent, folder.name)
    return daemon


async def receives(folder: Path, url: str, pairs: int, each: int, listen: str) -> None:
    """Have plans wait, and tell when so many are over as is asked for."""
    names = [f"r{number}" for number in range(pairs)]
    daemon = await opened(folder, url, names, listen)
    work = asyncio.create_task(daemon.main_loop.run())
    for name in names:
        for _ in range(each):
            await ask(daemon, name, "start", name="m.waits")
    runs = [(host.agent.runs.active, each) for name in names if (host := daemon.agents.supervisor.host(name))]
    print(0, flush=True)
    async for line in lines():
        wanted = int(line)
        while sum(all - len(active) for active, all in runs) < wanted:
            await asyncio.sleep(0.0005)
        print(time.monotonic(), flush=True)
    daemon.stop.request()
    await work
    await daemon.close()


async def sends(folder: Path, url: str, pairs: int, each: int, listen: str) -> None:
    """Send elements of these numbers in each pair, and tell when that began."""
    daemon = await opened(folder, url, [f"s{number}" for number in range(pairs)], listen)
    work = asyncio.create_task(daemon.main_loop.run())
    print(0, flush=True)
    async for line in lines():
        orders = [b"<order n='%s'/>" % number.encode() for number in line.split()]
        print(time.monotonic(), flush=True)
        starts = (
            ask(daemon, f"s{number}", "start", name=f"m.r{number}", elements=orders)
            for number in range(pairs)
        )
        await asyncio.gather(*starts)
    daemon.stop.request()
    await work
    await daemon.close()


async def lines() -> Any:
    """The lines of standard input, as they come."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line


ROLES: dict[str, Callable[..., Any]] = {"receives": receives, "sends": sends}


if __name__ == "__main__":
    case = argument(1, "pairs")
    if case in ROLES:
        asyncio.run(
            ROLES[case](Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
        )
        sys.exit()
    with scratch() as scratched, fresh_schema(shared_server()) as url:
        told_of = measured(scratched, url, case)
    emit(f"W12-daemons-{case}", told_of.pop("n"), told_of.pop("seconds"), **told_of)
