"""Limits of a worker's memory, where the system keeps count of that (N32, N33).

The growth of the program is bounded: its size when it starts differs from system to system.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


def bound_memory(memory: int) -> None:
    """Let this program grow by so many bytes at most, for good: what asks for more gets a MemoryError."""
    if sys.platform == "linux":
        import resource  # not on every system

        limit = _reached(memory)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@contextlib.contextmanager
def bounded(memory: int) -> Iterator[None]:
    """Let this program grow by so many bytes at most, for a while."""
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
    """The most bytes that this program has had in memory so far; 0 where the system does not count."""
    if sys.platform != "linux":
        return 0
    # ru_maxrss would begin with what the parent had
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def _reached(memory: int) -> int:
    """The size of this program in bytes with so many more, or the most it may have at all."""
    import resource  # not on every system

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    return size + memory if hard == resource.RLIM_INFINITY else min(size + memory, hard)
