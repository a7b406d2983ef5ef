"""W15: calls on a local cluster of two workers, from the executor that is asked to the outcome (G71).

    python -m bench.cluster [calls | groups | bare]

`calls`: actions that take 6 ms of sleep, so each is a task of its own. `groups`: actions that do nothing,
which go in groups. `bare`: as many futures of dask as `calls` has calls, of a function that does nothing.
`processor` is the time that all programs took for one, in seconds: the cluster's, the workers' and ours.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil

from bench.measure import argument, emit, now, scratch
from narval.calls.book import CallBook
from narval.calls.context import CallContext, Target
from narval.calls.executor import Executor
from narval.calls.programs.backend import ProgramBackend
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.record import CallListener
from narval.files.outside.cluster import CERTIFICATES, LOCAL_CLUSTER, ClusterSettings
from narval.files.settings import CallLimits

WORKERS, ALONE, SHORT = 2, 300, 5000
MODULE = """
import time
def waits(): time.sleep(0.006)
def nothing(): pass
"""


class Asked:
    """An executor with a local cluster, whose calls it waits for."""

    def __init__(self, folder: Path) -> None:
        self._module = folder / "m.py"
        self._module.write_text(MODULE)
        programs = ProgramBackend(asyncio.get_running_loop(), reaper=ReaperClient(folder=folder))
        cluster = ClusterSettings(address=LOCAL_CLUSTER, workers=WORKERS)
        self.book = CallBook(Executor(CallLimits(cluster=cluster), programs=programs))
        self._count = 0

    async def seconds(self, name: str, count: int) -> float:
        """The seconds that so many calls take, all asked for at once."""
        target = Target(
            action=f"m.{name}", where="cluster", module_path=str(self._module), function_name=name
        )
        loop, outcomes, began = asyncio.get_running_loop(), [], now()
        for _ in range(count):
            self._count += 1
            outcomes.append(loop.create_future())
            call = CallContext(id=f"{self._count}", run=1, step="s", target=target)
            self.book.of("").start(call, listener=CallListener(outcomes[-1].set_result))
        for outcome in await asyncio.gather(*outcomes):
            assert outcome.problem is None, outcome.problem
        return now() - began


def processor() -> float:
    """The processor time in seconds that this program and all that it has started took until now."""
    here = psutil.Process()
    times = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return sum(time.user + time.system for time in times)


async def bare(folder: Path) -> float:
    """The seconds that futures of dask take on the cluster whose certificates are there."""
    from distributed import Client, Security

    (at,) = folder.glob("cluster")
    authority, own, key = (str(at / name) for name in CERTIFICATES)
    security = Security(tls_ca_file=authority, tls_client_cert=own, tls_client_key=key)
    lines = (at / "cluster.log").read_text().splitlines()
    address = next(line.split()[-1] for line in lines if "Scheduler at" in line)
    async with Client(address, security=security, asynchronous=True) as client:
        await client.gather(client.map(int, range(WORKERS), pure=False))
        began = now()
        await client.gather(client.map(int, range(ALONE), pure=False))
        return now() - began


async def measured(what: str, folder: Path) -> dict[str, Any]:
    """The line of one measurement."""
    asked = Asked(folder)
    try:
        await asked.seconds("nothing", 20)
        if what == "calls":
            await asked.seconds("waits", 20)
            before = processor()
            n, seconds = ALONE, await asked.seconds("waits", ALONE)
        elif what == "groups":
            await asked.seconds("nothing", 200)
            before = processor()
            n, seconds = SHORT, await asked.seconds("nothing", SHORT)
        else:
            before = processor()
            n, seconds = ALONE, await bare(folder)
        took = processor() - before
    finally:
        await asked.book.close()
    return {"n": n, "seconds": seconds, "processor": took / n}


if __name__ == "__main__":
    chosen = argument(1, "calls")
    with scratch() as place:
        emit(f"W15-{chosen}", **asyncio.run(measured(chosen, place)))
