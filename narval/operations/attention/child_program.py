"""Child programs of a daemon: narval's own commands, on its home, bounded in time and memory (M57)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from narval.errors import RequestError

SECONDS, MEGABYTES = 30.0, 512

_BEGIN = """
import ctypes, os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
from narval.runtime.system.memory_limit import bound_memory
bound_memory(int(sys.argv[2]))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[3]):
    os._exit(1)
del sys.argv[1:4]
from narval.__main__ import main
main()
"""
"""The bounds of a child, which ends with the daemon, however that ends; then the command."""


async def json_of(arguments: Sequence[str]) -> Any:
    """The answer of a command as `--json` gives it. Raises RequestError, also where it took too much."""
    bounds = [f"{SECONDS:.0f}", str(MEGABYTES * 2**20), str(os.getpid())]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BEGIN, *bounds, *arguments, "--json",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await asyncio.wait_for(child.communicate(), SECONDS)
    except TimeoutError:
        raise RequestError(
            f"it was ended after {SECONDS:.0f} s: have less time pass, or less happen"
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
    if not out:
        raise RequestError(_why(err.decode("utf-8", "replace"), child.returncode))
    return json.loads(out)


def _why(said: str, status: int | None) -> str:
    """The reason why a child gave no answer."""
    if "MemoryError" in said:
        return f"it was ended, for it took more than {MEGABYTES} MB"
    lines = said.strip().splitlines()
    return lines[-1].removeprefix("narval: ") if lines else f"it ended with status {status} and said nothing"
