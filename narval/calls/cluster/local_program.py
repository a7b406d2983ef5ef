"""The program of a local cluster: a scheduler, and workers that it starts and restarts (G65).

    python -m narval.calls.cluster.local_program FOLDER WORKERS RESOURCES

It makes certificates for its own lifetime, writes them to FOLDER, and prints its address; it ends with the
daemon, whose reaper knows it. RESOURCES are those of the first worker, as in `GPU=1`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import dask
from distributed import Nanny, Scheduler, Security

from narval.core.definitions.action.needs import read_resources
from narval.files.outside.cluster import CERTIFICATES

_HERE = "tls://127.0.0.1"
_CALM = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "500ms",
}
"""Settings of dask that leave out unused pages and reduce its activity while it is idle."""


def main() -> None:
    """Run a cluster until it is ended."""
    folder, workers, resources = Path(sys.argv[1]), int(sys.argv[2]), dict(read_resources(sys.argv[3]))
    asyncio.run(_live(folder, workers, resources))


async def _live(folder: Path, workers: int, resources: dict[str, float]) -> None:
    security = Security.temporary()
    texts = (security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
    for name, text in zip(CERTIFICATES, texts, strict=True):
        with open(folder / name, "w", opener=_for_us_alone, encoding="ascii") as file:
            file.write(str(text))
    dask.config.set(_CALM)
    async with AsyncExitStack() as living:
        scheduler = Scheduler(host=_HERE, port=0, security=security, dashboard=False)
        await living.enter_async_context(scheduler)
        print(scheduler.address, flush=True)  # noqa: T201 - the daemon reads it
        starting = []
        for number in range(workers):
            nanny = Nanny(
                scheduler.address,
                nthreads=1,
                host=_HERE,
                security=security,
                name=f"narval-{number + 1}",
                resources=resources if number == 0 else {},
                local_directory=str(folder),
                dashboard=False,
            )
            living.push_async_exit(nanny)
            starting.append(asyncio.ensure_future(nanny.start()))
        await scheduler.finished()


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


if __name__ == "__main__":
    main()
