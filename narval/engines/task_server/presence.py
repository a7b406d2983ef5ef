"""Instances by the state in which they are: who of them is free to act (KA8)."""

from __future__ import annotations

from bisect import bisect_left, insort

from narval.engines.task_server.state import Present, TaskServerState, Worker


def put_worker(state: TaskServerState, instance: int, worker: Worker | None) -> None:
    """Know an instance as it is now, or with None no more."""
    before = state.workers.pop(instance, None)
    if before is not None and (line := _line(state, before)) is not None:
        del line[bisect_left(line, instance)]
        if not (present := state.present[before.state]).idle and not present.busy:
            del state.present[before.state]
    if worker is None:
        return
    state.workers[instance] = worker
    if (line := _line(state, worker)) is not None:
        insort(line, instance)


def _line(state: TaskServerState, worker: Worker) -> list[int] | None:
    """The list in which an instance stands; None for one that is in no state with rules, or acting."""
    if not worker.state or worker.acting:
        return None
    present = state.present.setdefault(worker.state, Present())
    return present.busy if worker.object else present.idle
