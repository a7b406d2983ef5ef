"""Workers that are confined to many places, one after another: those that are idle go."""

from __future__ import annotations

import asyncio

import pytest

from narval.calls import executor as executors
from narval.calls.context import CallContext, Target
from narval.calls.executor import MOST_IDLE, Executor
from narval.calls.record import CallListener, CallRecord
from narval.calls.workers.confined import Confined
from narval.calls.workers.pool import WorkerBudget
from narval.core.definitions.action.needs import Needs
from narval.system.confinement import Confinement


def record_for(number: int, host: str) -> CallRecord:
    target = Target(where="worker", needs=Needs(hosts=(host,)), limits=True)
    call = CallContext(f"1.{number}", 1, "s", target=target)
    return CallRecord(call, CallListener(lambda outcome: None))


def test_idle_workers_of_places_that_nobody_asks_for_any_more_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def confined_to(call: CallContext) -> Confined:
        return Confined(Confinement(), call.target.needs.hosts if call.target.needs else ())

    async def story() -> None:
        executor = Executor()
        busy, often = record_for(0, "busy"), record_for(1, "often")
        executor.start(busy)
        for number in range(2, 100):
            executor.waits_for(record_for(number, f"host-{number}"))
            executor.waits_for(often)
        there = [confined.hosts[0] for confined in executor.confined]
        assert len(there) == MOST_IDLE + 1
        assert {"busy", "often", "host-99"} <= {*there}
        await executor.close()

    monkeypatch.setattr(executors, "confined_to", confined_to)
    monkeypatch.setattr(WorkerBudget, "hand_out", lambda budget: None)  # no program is started
    asyncio.run(story())
