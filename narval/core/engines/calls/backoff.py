"""The wait before another attempt of a failed call (N29, A7), and before a failed run restarts (N28, A18)."""

from __future__ import annotations

USUAL_BACKOFF = 1.0
"""Seconds before the second attempt of a step with `retries` and no `backoff`."""
LONGEST_BACKOFF = 3600.0
"""The limit of doubling, in seconds; a longer `backoff` is not doubled at all."""
SOURCE_REST = 60.0
"""Seconds until a failed source starts again while others work; or its `backoff`, if longer."""
LONGEST_RESTART = 300.0
"""The longest wait, in seconds: a definition that restarts and keeps failing waits 1, 2, 4 … up to this."""
_DOUBLINGS = 64
"""The most doublings: enough to reach the limit from any relevant backoff."""
_JITTER = 0.5
"""The largest fraction of a wait added to it, so that calls that failed together are not retried together."""
_GOLDEN = 0x9E3779B1
"""2**32 divided by the golden ratio: its multiples modulo 2**32 are spread evenly, in any order."""


def retry_wait(backoff: float | None, tries: int, chance: int) -> float:
    """Seconds between attempt number `tries` and the next: doubled each time, plus up to half as much.

    The engine draws no random number: `chance` is the event's id, so that a replay decides the same.
    """
    first = USUAL_BACKOFF if backoff is None else backoff
    doubled = min(max(LONGEST_BACKOFF, first), first * 2.0 ** min(tries - 1, _DOUBLINGS))
    return doubled * (1.0 + _JITTER * (chance * _GOLDEN % 2**32) / 2**32)


def restart_wait(attempt: int) -> float:
    """Seconds between a failed run and the next one, after `attempt` earlier failures in a row."""
    return min(LONGEST_RESTART, 2.0 ** min(attempt, _DOUBLINGS))
