"""The wait before what failed is tried again: a call (N29, A7), a plan of a recipe that restarts (N28)."""

from __future__ import annotations

USUAL_BACKOFF = 1.0
"""Seconds to the second try of a step that says `retries` and no `backoff`."""
LONGEST_BACKOFF = 3600.0
"""Seconds; the doubling ends here, or at `backoff` itself where that is longer."""
LONGEST_REST = 300.0
"""Seconds; what restarts and fails in a row waits 2, 4, 8 … up to this long (N28)."""
_DOUBLINGS = 64
"""So many reach it from any backoff that matters; more would only grow the number."""
_JITTER = 0.5
"""Up to so much of a wait is added to it: calls that failed together do not come again together."""
_GOLDEN = 0x9E3779B1
"""2**32 by the golden ratio: multiples of it, modulo 2**32, lie evenly, in whatever order numbers come."""


def wait(backoff: float | None, tries: int, chance: int) -> float:
    """Seconds between try number `tries` and the next: doubled each time, and up to half as much again.

    The engine draws no random number: `chance` is the event's id, so that a replay decides the same.
    """
    first = USUAL_BACKOFF if backoff is None else backoff
    doubled = min(max(LONGEST_BACKOFF, first), first * 2.0 ** min(tries - 1, _DOUBLINGS))
    return doubled * (1.0 + _JITTER * (chance * _GOLDEN % 2**32) / 2**32)


def rest(failures: int) -> float:
    """Seconds to another beginning of what restarts, after so many failures in a row."""
    return min(LONGEST_REST, 2.0 ** min(failures, _DOUBLINGS))
