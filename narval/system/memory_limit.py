"""Limits of a worker's memory, if the system counts it (N32, N33).

The growth of the program is bounded, because its size at the start differs from system to system.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


def bound_memory(memory: int) -> None:
    """Limit the growth of this program to `memory` bytes, permanently; beyond it, MemoryError is raised."""
    if sys.platform == "linux":
        import resource  # not on every system

        limit = _reached(memory)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@contextlib.contextmanager
def bounded(memory: int) -> Iterator[None]:
    """Limit the growth of this program to `memory` bytes within the block."""
    if sys.platform != "linux":
        yield
        return
    import resource  # not on every system

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_reached(memory), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def peak_memory() -> int:
    """The most bytes that this program has had in memory so far; 0 if the system does not count them."""
    if sys.platform != "linux":
        return 0
    # ru_maxrss would begin with the parent's value
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def _reached(memory: int) -> int:
    """The size of this program in bytes plus `memory`, at most its hard limit."""
    import resource  # not on every system

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    return size + memory if hard == resource.RLIM_INFINITY else min(size + memory, hard)
