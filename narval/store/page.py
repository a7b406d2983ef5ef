"""RunsPage: the part of a listing of runs that is asked for, so that a look need not read the rest."""

from __future__ import annotations

from typing import NamedTuple

NOTICES = "notify.failures"
"""The definition whose runs tell of failures: a run for each of them, however alike."""

_TELLING = (NOTICES, "notify.one-way")
"""That, and what it calls."""


def is_notice(name: str, phase: str) -> bool:
    """True for a run that tells of a failure, or waits for one, and did not fail itself."""
    return name in _TELLING and phase != "failed"


class RunsPage(NamedTuple):
    """The newest `limit` runs of these kinds below an eid, in a state or phase, of a name (None: any), with
    or without those that tell of failures.
    """

    kinds: tuple[str, ...]
    state: str | None = None
    name: str | None = None
    limit: int | None = None
    before: int | None = None
    notices: bool = True

    def has(self, kind: str, name: str, status: str, phase: str) -> bool:
        """True if a run like this belongs to the listing, whatever its eid."""
        if not self.notices and is_notice(name, phase):
            return False
        return kind in self.kinds and self.state in (None, status, phase) and self.name in (None, name)
