"""What all that is tried on real daemons shares."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def hangups_are_heard() -> Iterator[None]:
    """A daemon heeds SIGHUP unless it was ignored when it began, as it may be where these tests run."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
