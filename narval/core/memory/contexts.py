"""Contexts: the elements that each run holds (N3).

A context is a set of references; an element may be in many. The context of a run that was called is nested in
its caller's: a search goes from the run's own elements to its caller's, and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Contexts:
    """The elements of each run, and the runs of each element."""

    __slots__ = ("_held", "_holders", "_unsorted")

    def __init__(self) -> None:
        self._held: dict[int, dict[int, None]] = {}
        self._unsorted: set[int] = set()
        """Runs that an older element joined after a younger one: sorted on the next read."""
        # Most elements have one holder, stored as a bare number; several are stored as a set.
        self._holders: dict[int, int | set[int]] = {}

    def of(self, run: int) -> Iterable[int]:
        """The eids a run holds, oldest element first."""
        if run in self._unsorted:
            self._unsorted.discard(run)
            self._held[run] = dict.fromkeys(sorted(self._held[run]))
        return self._held.get(run, {}).keys()

    def runs(self) -> Iterable[int]:
        """The runs that have a context."""
        return self._held.keys()

    def holds(self, run: int, eid: int) -> bool:
        """True if the element is in the run's context."""
        return eid in self._held.get(run, ())

    def holders(self, eid: int) -> Collection[int]:
        """The runs that hold an element."""
        holders = self._holders.get(eid, ())
        return (holders,) if isinstance(holders, int) else holders

    def join(self, run: int, eids: Iterable[int]) -> None:
        """Add elements to a run's context."""
        held = self._held.setdefault(run, {})
        last = next(reversed(held), 0)
        for eid in eids:
            if eid in held:
                continue
            if eid < last:
                self._unsorted.add(run)
            last = eid
            held[eid] = None
            holders = self._holders.get(eid)
            if holders is None:
                self._holders[eid] = run
            elif isinstance(holders, set):
                holders.add(run)
            elif holders != run:
                self._holders[eid] = {holders, run}

    def leave(self, run: int, eids: Iterable[int]) -> None:
        """Remove elements from a run's context; ignore those that are not in it."""
        held = self._held.get(run)
        if held is None:
            return
        for eid in eids:
            held.pop(eid, None)
            self._drop(run, eid)
        if not held:
            del self._held[run]
            self._unsorted.discard(run)

    def forget_run(self, run: int) -> None:
        """Remove the whole context of a run."""
        self.leave(run, list(self._held.get(run, ())))

    def forget_element(self, eid: int) -> None:
        """Remove an element from every context."""
        for run in list(self.holders(eid)):
            self.leave(run, (eid,))

    def _drop(self, run: int, eid: int) -> None:
        holders = self._holders.get(eid)
        if isinstance(holders, set):
            holders.discard(run)
            if not holders:
                del self._holders[eid]
        elif holders == run:
            del self._holders[eid]


class Declared(dict[int, str]):
    """The elements that files declare and so protect, by eid, each with the key of its declaration."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        """The number of its changes so far."""

    def __setitem__(self, eid: int, key: str) -> None:
        super().__setitem__(eid, key)
        self.changes += 1

    def drop(self, eid: int) -> None:
        """End the declaration of an element; ignore one that is not declared."""
        if self.pop(eid, None) is not None:
            self.changes += 1
