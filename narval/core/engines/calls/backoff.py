"""The wait before a failed call is tried again (N29, A7), and before a failed run is (N28, A18)."""

from __future__ import annotations

USUAL_BACKOFF = 1.0
"""Seconds to the second try of a step that says `retries` and no `backoff`."""
LONGEST_BACKOFF = 3600.0
"""Seconds; the doubling ends here, or at `backoff` itself where that is longer."""
SOURCE_REST = 60.0
"""Seconds until a source that failed begins again while others work; or its `backoff`, if longer."""
LONGEST_RESTART = 300.0
"""Seconds; a definition that restarts and fails in a row waits 1, 2, 4 … up to this long."""
_DOUBLINGS = 64
"""The most doublings: enough to reach it from any backoff that matters; more would only grow the number."""
_JITTER = 0.5
"""The most of a wait that is added to it, so that calls that failed together are not tried again together."""
_GOLDEN = 0x9E3779B1
"""2**32 by the golden ratio: multiples of it, modulo 2**32, are spread evenly, in whatever order numbers
come.
"""


def wait(backoff: float | None, tries: int, chance: int) -> float:
    """Seconds between try number `tries` and the next: doubled each time, and up to half as much again.

    The engine draws no random number: `chance` is the event's id, so that a replay decides the same.
    """
    first = USUAL_BACKOFF if backoff is None else backoff
    doubled = min(max(LONGEST_BACKOFF, first), first * 2.0 ** min(tries - 1, _DOUBLINGS))
    return doubled * (1.0 + _JITTER * (chance * _GOLDEN % 2**32) / 2**32)


def restart_wait(attempt: int) -> float:
    """Seconds between a run that failed and the next one; `attempt` failures in a row came before it."""
    return min(LONGEST_RESTART, 2.0 ** min(attempt, _DOUBLINGS))
