"""The pages kept at work beside the daemon by `narval run --web` (M3)."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import suppress

from narval.files.home import Home

log = logging.getLogger("narval.web")

_FIRST, _LONGEST = 1.0, 60.0
"""Seconds until it is started again: twice as many each time, and at most so many."""

_CALM = 60.0
"""Seconds at work after which it is started again as if it had never died."""

_GRACE = 5.0


async def keep_web(home: Home, output: int | None = None) -> None:
    """Have `narval web` run until this is cancelled, started again whenever it ends.

    It ends with its input too, and so however this program dies. `output` is a file for its line, without one
    standard output.
    """
    words = sys.executable, "-m", "narval", "--home", str(home.path), "web", "--kept"
    loop, pause = asyncio.get_running_loop(), _FIRST
    while True:
        began = loop.time()
        program = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE, stdout=output)
        try:
            status = await program.wait()
        finally:
            if program.returncode is None:
                await _end(program)
        pause = _FIRST if loop.time() - began > _CALM else pause
        log.warning("narval web ended with status %d; it is started again in %g s", status, pause)
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
