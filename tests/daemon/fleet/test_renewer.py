"""The program beside a daemon that renews for it, on a real server (G48)."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import psycopg

from narval.ask.daemon.metrics import metrics
from narval.core.errors import StoreAwayError
from narval.daemon.daemon import Daemon
from narval.daemon.fleet.fleet import Fleet
from narval.files.home import Home
from narval.store.open import open_store
from narval.store.postgresql.leases import ALIVE, LEASE
from tests.daemon.at_work import in_a_loop

SLOW = """
import time
from pathlib import Path
import psycopg

with psycopg.connect({url!r}, autocommit=True) as connection:
    def renewed():
        [(until,)] = connection.execute("SELECT until FROM daemons WHERE home = 'attic'")
        return until
    first = renewed()
    while renewed() == first:
        time.sleep(0.02)
    second = renewed()
    while renewed() == second:
        time.sleep(0.02)
Path({seen!r}).touch()
"""
"""A module that keeps the start of its home until two renewals were made meanwhile."""


@asynccontextmanager
async def at_work(
    folder: Path, url: str, module: str = "", *, record_only: bool = False
) -> AsyncIterator[Daemon]:
    """A daemon on a server, which is closed at the end."""
    (folder / "etc").mkdir(parents=True)
    (folder / "etc/narval.toml").write_text(f"name = 'attic'\nstore = '{url}'\nlisten = false\n")
    if module:
        (folder / "modules").mkdir()
        (folder / "modules/slow.py").write_text(module)
    daemon = await Daemon.open(Home(folder), record_only=record_only)
    try:
        yield daemon
    finally:
        await daemon.close()


def fleet_of(daemon: Daemon) -> Fleet:
    assert daemon.fleet is not None
    return daemon.fleet


async def renewed_again(daemon: Daemon) -> None:
    """Wait for a renewal that was sent from now on."""
    now = time.monotonic()
    while fleet_of(daemon).members.gate.member.renewed < now:
        await asyncio.sleep(0.02)


@in_a_loop
async def test_G48_a_daemon_keeps_its_lease_though_its_own_renewals_do_not_get_through(
    tmp_path: Path, postgres_url: str
) -> None:
    async with at_work(tmp_path, postgres_url) as daemon:
        leases, goes_on = daemon.store.leases, threading.Event()
        renew: Callable[..., Any] = leases.renew  # type: ignore[union-attr]

        def late(**given: Any) -> Any:
            goes_on.wait()
            return renew(**given)

        leases.renew = late  # type: ignore[union-attr, method-assign]
        await asyncio.sleep(LEASE)
        assert fleet_of(daemon).members.gate.is_open()
        with psycopg.connect(postgres_url) as connection:
            [(is_held,)] = connection.execute("SELECT until > clock_timestamp() FROM daemons")
        goes_on.set()
        assert is_held


@in_a_loop
async def test_G48_a_daemon_is_renewed_while_it_starts_though_a_module_keeps_its_loop(
    tmp_path: Path, postgres_url: str
) -> None:
    module = SLOW.format(url=postgres_url, seen=str(tmp_path / "seen"))
    async with at_work(tmp_path / "home", postgres_url, module) as daemon:
        assert (tmp_path / "seen").exists()
        assert fleet_of(daemon).members.gate.is_open()
        names = {thread.name for thread in threading.enumerate()}
    assert "narval-pulses" not in names, "the event loop gives the signs of life now"


@in_a_loop
async def test_G48_a_command_that_only_records_starts_a_renewer_once_it_takes_long(
    tmp_path: Path, postgres_url: str
) -> None:
    started = time.monotonic()
    async with at_work(tmp_path, postgres_url, record_only=True) as daemon:
        renewer = fleet_of(daemon).renewer
        assert renewer is not None
        assert renewer.pid is None or time.monotonic() >= started + LEASE / 3
        while renewer.pid is None:
            await asyncio.sleep(0.02)
        assert time.monotonic() >= started + LEASE / 3
        await renewed_again(daemon)


@in_a_loop
async def test_G48_a_renewer_that_dies_is_started_anew(tmp_path: Path, postgres_url: str) -> None:
    async with at_work(tmp_path, postgres_url) as daemon:
        leases, renewer = daemon.store.leases, fleet_of(daemon).renewer
        assert renewer is not None

        def in_vain(**given: Any) -> Any:
            raise StoreAwayError("away")

        leases.renew = in_vain  # type: ignore[union-attr, method-assign]
        await renewed_again(daemon)
        first = renewer.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        while renewer.pid in (first, None):
            await asyncio.sleep(0.02)
        await renewed_again(daemon)
        numbers = {row["name"]: row["samples"][0]["value"] for row in await metrics(daemon) if row["samples"]}
        assert numbers["narval_lease_renewals"] >= 2
        assert 0 <= numbers["narval_lease_age_seconds"] < LEASE
        assert numbers["narval_fleet_daemons"] == 1
        await fleet_of(daemon).beat()
        assert not fleet_of(daemon).members.gate.is_open(), "a turn could read nothing"


def test_G48_one_that_does_not_show_that_it_lives_is_renewed_no_more(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        assert store.leases is not None
        store.leases.join("attic", "test", "1")
        words = [sys.executable, "-m", "narval.daemon.fleet.renewer", str(store.leases.daemon)]
        with Popen(words, stdin=PIPE, stdout=PIPE) as renewer:
            assert renewer.stdin is not None
            assert renewer.stdout is not None
            renewer.stdin.write(f"{postgres_url}\n".encode())
            while not select.select([renewer.stdout], [], [], 0.1)[0]:  # until it is at work
                alive = time.monotonic()
                renewer.stdin.write(f"{alive:f}\n".encode())
                renewer.stdin.flush()
            time.sleep(ALIVE + 0.6)
            renewer.stdin.close()
            sent = [float(line) for line in renewer.stdout]
    assert sent
    assert all(at < alive + ALIVE for at in sent)
