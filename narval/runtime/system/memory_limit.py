"""How much memory a worker may take, where the system keeps count of that (N32, N33).

What is bounded is by how much the program grows: what it has when it starts differs from system to system.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


def bound_memory(memory: int) -> None:
    """Let this program grow by so many bytes at most, for good: what asks for more gets a MemoryError."""
    if sys.platform == "linux":
        import resource

        limit = _reached(memory)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@contextlib.contextmanager
def bounded(memory: int) -> Iterator[None]:
    """Let this program grow by so many bytes at most, for a while."""
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_reached(memory), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _reached(memory: int) -> int:
    """How large this program would be with so many bytes more, or as large as it may be at all."""
    import resource

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    return size + memory if hard == resource.RLIM_INFINITY else min(size + memory, hard)
