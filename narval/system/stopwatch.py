"""The stopwatch of turns and rounds: read through this module, so that a test can set their durations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

seconds = time.perf_counter
"""Seconds since a fixed moment."""


@contextmanager
def stopped() -> Iterator[None]:
    """Stop time for turns within the block: none is cut short, so that two runs are the same."""
    global seconds
    before, seconds = seconds, lambda: 1.0
    try:
        yield
    finally:
        seconds = before
