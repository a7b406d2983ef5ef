"""W13: steps a second on PostgreSQL, beside bare calls of `record`, with and without the fence (G61).

    python -m bench.postgresql SHAPE [crash | power]
    python -m bench.postgresql beside PEERS [ROUNDS]

SHAPE is runs x steps of each, as in `steps.py`. The server is one of `tests/postgres.py`, which syncs. The
calls that a run made are made again on a new schema, in turn with a fence and without, the best of each:
`over_bare` is the run over those without, `fence_percent` the part of a call that the fence takes.

`beside` has a run, procrastinate and DBOS in turn on one server, in both shapes, under `power`: PEERS is the
folder of their scripts, `$PEERS_VENVS` where they are installed (`run.sh setup procrastinate dbos`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from bench import steps
from bench.measure import argument, emit, now, scratch, us
from narval.store.open import open_store
from narval.store.postgresql.database import SharedDatabase
from narval.store.postgresql.record import TurnMark, Writer
from tests.postgres import fresh_schema, private_server

TIMES = 6
Calls = list[list[bytes | None]]
"""The arguments of each call."""

SHAPES = {"100x10": ("conc", 10), "1x1000": ("seq", 1)}
"""For each shape how DBOS begins workflows, and how many jobs procrastinate has at once."""


@contextmanager
def noted() -> Iterator[Calls]:
    """The calls that are made meanwhile."""
    found: Calls = []
    record = Writer.record

    def noting(self: Writer, calls: Calls) -> set[int]:
        found.extend(calls)
        return record(self, calls)

    Writer.record = noting  # type: ignore[method-assign,assignment]
    try:
        yield found
    finally:
        Writer.record = record  # type: ignore[method-assign]


def again(server: str, durability: Any, calls: Calls, first: int, *, fenced: bool) -> float:
    """Seconds for calls from the one numbered `first`, made again on a schema of their own."""
    with fresh_schema(server) as url, open_store(url, durability) as store:
        assert isinstance(store, SharedDatabase)
        store.leases.join("narval", "bench", "1")
        [(agent, (epoch, turn))] = store.leases.marks.items()
        writer, daemon = store.writer, store.leases.daemon
        made = [call for call in calls if call[1] is not None]
        skipped = len(made) - (len(calls) - first)
        nothing: list[Any] = [None] * (len(calls[0]) - 1)
        fences = [
            writer.packed(daemon if fenced else 0, marks, list(nothing))[:2]
            for marks in (
                {agent: TurnMark(epoch, turn + number)} if fenced else None for number in range(len(made))
            )
        ]
        ready = [[*fence, *call[2:]] for fence, call in zip(fences, made, strict=True)]
        for call in ready[:skipped]:
            writer.record([call])
        began = now()
        for call in ready[skipped:]:
            writer.record([call])
        return now() - began


def measure(server: str, runs: int, each: int, durability: str, folder: Path) -> tuple[float, Calls, int]:
    """Seconds for all steps; the calls that were made, and the first of these steps."""
    with fresh_schema(server) as url, noted() as calls:
        first: list[int] = []
        seconds, _ = steps.measure(
            runs, each, durability, "plain", folder, store=url, begins=lambda: first.append(len(calls))
        )
        return seconds, list(calls), first[0]


def alone() -> None:
    """One case of ours."""
    shape, durability = argument(1, "100x10"), argument(2, "power")
    runs, each = map(int, shape.split("x"))
    with private_server(fsync=True) as server, scratch() as folder:
        seconds, calls, first = measure(server.url, runs, each, durability, folder)
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(TIMES):
            for fenced in (number % 2 == 0, number % 2 == 1):
                times[fenced].append(again(server.url, durability, calls, first, fenced=fenced))
    bare, with_fence = min(times[False]), min(times[True])
    emit(
        f"W13-{shape}-{durability}",
        runs * each,
        seconds,
        us_per_step=us(seconds, runs * each),
        calls=len(calls) - first,
        over_bare=round(bare / seconds, 3),
        bare_per_second=round(runs * each / bare, 1),
        fence_percent=round(100 * (1 - bare / with_fence), 1),
        guarantee={"crash": "process", "power": "power"}[durability],
    )


def beside(peers: Path, rounds: int) -> None:
    """Ours and the peers in turn, on one server."""
    times: dict[tuple[str, str], list[float]] = {}
    with private_server(fsync=True) as server:
        for _ in range(rounds):
            for shape, (how, jobs) in SHAPES.items():
                runs, each = map(int, shape.split("x"))
                with scratch() as folder:
                    seconds = measure(server.url, runs, each, "power", folder)[0]
                times.setdefault((shape, "narval"), []).append(runs * each / seconds)
                for peer, arguments in (("procrastinate", [shape, f"{jobs}"]), ("dbos", [shape, "pg", how])):
                    times.setdefault((shape, peer), []).append(of_peer(peers, peer, arguments, server.url))
                    print(shape, peer, times[shape, peer][-1], file=sys.stderr)
    for (shape, who), values in times.items():
        every = ", ".join(f"{of:.0f}" for of in sorted(values))
        print(f"{shape} {who:14} {median(values):9.0f} steps/s   {every}")


def of_peer(peers: Path, name: str, arguments: list[str], server: str) -> float:
    """Steps a second of a peer, in a database of its own."""
    with psycopg.connect(server, autocommit=True) as connection, suppress(psycopg.errors.DuplicateDatabase):
        connection.execute(f"CREATE DATABASE {name}")
    url = server.replace("/postgres?", f"/{name}?")
    done = subprocess.run(
        [f"{os.environ['PEERS_VENVS']}/{name}/bin/python", f"{peers}/w2_{name}.py", *arguments],
        env={**os.environ, "PG_URL": url, "PG_DSN": url, "PYTHONPATH": str(peers)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(done.stderr)
    return float(lines[-1]["per_second"])


if __name__ == "__main__":
    if argument(1, "") == "beside":
        beside(Path(argument(2, "../shared/peers")), argument(3, 3))
    else:
        alone()
