"""The test for a program that need not run: its files are there and no older than those it needs (A9)."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

_WILD = frozenset("*?[")


def is_up_to_date(directory: str, creates: Iterable[str], needs: Iterable[str]) -> bool:
    """True if all files are there and none that is needed is newer; False for a program that creates none."""
    oldest: int | None = None
    for pattern in creates:
        times = _times(directory, pattern)
        if not times:
            return False
        oldest = min(times) if oldest is None else min(oldest, *times)
    if oldest is None:
        return False
    for pattern in needs:
        times = _times(directory, pattern)
        if not times or max(times) > oldest:
            return False
    return True


def _times(directory: str, pattern: str) -> list[int]:
    """The moments the files of that name, or that fit the pattern, were last altered, in nanoseconds."""
    names = [os.path.join(directory, pattern)]
    if not _WILD.isdisjoint(pattern):
        names = glob.glob(names[0], recursive=True)
    try:
        return [os.stat(name).st_mtime_ns for name in names]
    except OSError:
        return []
