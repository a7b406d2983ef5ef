"""Runs that only tell of failures, which listings may leave out."""

from __future__ import annotations

NOTICES = "notify.failures"
"""The definition whose runs tell of failures: a run for each of them, however alike."""

TELLING = (NOTICES, "notify.one-way")
"""That, and what it calls."""


def is_notice(name: str, phase: str) -> bool:
    """True for a run that tells of a failure, or waits for one, and did not fail itself."""
    return name in TELLING and phase != "failed"
