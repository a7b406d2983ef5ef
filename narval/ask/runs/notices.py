"""Runs that only report failures, which listings may leave out."""

from __future__ import annotations

NOTICES = "notify.failures"
"""The definition whose runs report failures: a run for each, however alike the failures are."""

TELLING = (NOTICES, "notify.one-way")
"""That definition, and the one it calls."""


def is_notice(name: str, phase: str) -> bool:
    """True for a run that reports a failure, or waits for one, and did not fail itself."""
    return name in TELLING and phase != "failed"
