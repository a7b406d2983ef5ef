"""RunsPage: the requested part of a listing of runs, so that a look need not read the rest."""

from __future__ import annotations

from typing import NamedTuple


class RunsPage(NamedTuple):
    """The newest `limit` runs of these kinds below an eid, in a state or phase, of a name (None: any), except
    those of the definitions `left_out` that did not fail.
    """

    kinds: tuple[str, ...]
    state: str | None = None
    name: str | None = None
    limit: int | None = None
    before: int | None = None
    left_out: tuple[str, ...] = ()

    def has(self, kind: str, name: str, status: str, phase: str) -> bool:
        """True if a run like this belongs to the listing, whatever its eid."""
        if name in self.left_out and phase != "failed":
            return False
        return kind in self.kinds and self.state in (None, status, phase) and self.name in (None, name)
