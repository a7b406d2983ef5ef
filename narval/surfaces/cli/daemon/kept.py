"""Programs that `narval run` keeps running beside the daemon: the pages (M3), and the chats (C16)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from narval.files.home import Home

if TYPE_CHECKING:
    from narval.daemon.daemon import Daemon

_FIRST, _LONGEST = 1.0, 60.0
"""Seconds until a restart: the first pause, doubling each time, and the longest."""

_CALM = 60.0
"""Seconds of work after which the pause is reset to the first."""

_GRACE = 5.0

Needed = Callable[[], Awaitable[object]]
"""A wait that returns as soon as a program is needed."""


def on_end(end: Callable[[], object], *, ends_with_input: bool) -> None:
    """Have `end` called in this program on SIGTERM, SIGINT or SIGHUP; with `ends_with_input`, for programs
    that are kept, also at the end of its input.
    """
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            end()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, end)
    if ends_with_input:
        loop.add_reader(0, read)


async def keep_web(home: Home, daemon: Daemon, output: int | None = None) -> None:
    """Run `narval web` until this is cancelled, and restart it whenever it ends.

    `output` is a file for its line, by default standard output.
    """
    await _keep(home, daemon, "web", output)


async def keep_chat(home: Home, daemon: Daemon, output: int | None = None) -> None:
    """Run `narval chat` while the settings name a chat, and restart it whenever it ends, until cancelled."""
    changed = asyncio.Event()

    async def other_files() -> None:
        changed.set()

    async def needed() -> None:
        while not daemon.files.settings.chats:
            changed.clear()
            await changed.wait()

    daemon.files.on_change.append(other_files)
    await _keep(home, daemon, "chat", output, needed)


async def _keep(
    home: Home, daemon: Daemon, name: str, output: int | None, needed: Needed | None = None
) -> None:
    """Run a program that ends with its input, and therefore also with this process, however it dies."""
    log = logging.getLogger(f"narval.{name}")
    words = sys.executable, "-m", "narval", "--home", str(home.path), name, "--kept"
    loop, pause = asyncio.get_running_loop(), _FIRST
    while True:
        if needed is not None:
            await needed()
        began = loop.time()
        program = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE, stdout=output)
        daemon.kept.add(program.pid)
        try:
            status = await program.wait()
        finally:
            if program.returncode is None:
                await _end(program)
            daemon.kept.discard(program.pid)
        if needed is not None and status == 0:
            await asyncio.sleep(_FIRST)
            continue
        pause = _FIRST if loop.time() - began > _CALM else pause
        log.warning("narval %s ended with status %d; it is started again in %g s", name, status, pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST)


async def _end(program: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        program.terminate()
        try:
            async with asyncio.timeout(_GRACE):
                await program.wait()
        except TimeoutError:
            program.kill()
            await program.wait()
