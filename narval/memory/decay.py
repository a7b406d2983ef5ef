"""What is due to be forgotten (N5). Decides nothing by itself: the loop asks when a moment has come."""

from __future__ import annotations

from collections.abc import Callable

from narval.memory.change import Forgotten
from narval.memory.tree import Memory


def forget_run(memory: Memory, run: int) -> Forgotten:
    """What goes with a run that has ended: itself, and each element that it alone holds.

    What memory.xml or the library declares stays, and so does what a call under way has reserved.
    """
    eids = tuple(
        eid
        for eid in memory.contexts.of(run)
        if not memory.is_run(eid) and _free(memory, eid) and set(memory.contexts.holders(eid)) == {run}
    )
    return Forgotten(eids=eids, runs=(run,))


def forget_idle(memory: Memory, eids: list[int], is_active: Callable[[int], bool]) -> Forgotten:
    """Those of `eids` that no live context holds and nothing protects."""
    return Forgotten(
        eids=tuple(
            eid
            for eid in eids
            if eid in memory
            and not memory.is_run(eid)
            and _free(memory, eid)
            and not any(is_active(run) for run in memory.contexts.holders(eid))
        )
    )


def _free(memory: Memory, eid: int) -> bool:
    return eid not in memory.declared and eid not in memory.reserved
