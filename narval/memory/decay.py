"""What is due to be forgotten (N5). Decides nothing by itself: the loop asks when a moment has come."""

from __future__ import annotations

from collections.abc import Callable

from narval.memory.change import Forgotten
from narval.memory.tree import Memory


def forget_runs(memory: Memory, runs: tuple[int, ...]) -> Forgotten:
    """What goes with runs that have ended: themselves, and each element that they alone hold.

    What memory.xml or the library declares stays, and so does what a call under way has reserved.
    """
    going = set(runs)
    eids = dict.fromkeys(
        eid
        for run in runs
        for eid in memory.contexts.of(run)
        if not memory.is_run(eid) and _free(memory, eid) and going.issuperset(memory.contexts.holders(eid))
    )
    return Forgotten(eids=tuple(eids), runs=runs)


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
