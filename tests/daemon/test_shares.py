"""The shares of processor time that agents get, in work that is counted and not timed (G12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.daemon import Daemon
from narval.daemon.shares import SLICE
from narval.files.agents.settings import AgentSettings
from narval.store.batch import Batch
from narval.system import stopwatch
from tests.daemon.at_work import in_a_loop
from tests.daemon.test_rounds import joined, opened

EVENT = 0.0001
"""Seconds that an event of these tests takes, unless it says otherwise."""


class Work:
    """The time that goes into work: it passes by what events take, and by nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1.0
        self.of: Counter[int] = Counter()
        """The events of each agent."""
        monkeypatch.setattr(stopwatch, "seconds", lambda: self.now)

    def event(self, host: AgentHost, seconds: float = EVENT) -> Request:
        """Something that an agent is asked, and which takes so long."""

        def work(turn: Turn) -> None:
            self.now += seconds
            self.of[host.agent.store.agent] += 1

        return Request(work, lambda result, error: None)

    def flood(self, hosts: Iterable[AgentHost], events: int, seconds: float = EVENT) -> None:
        """More than agents will do."""
        for host in hosts:
            for _ in range(events):
                host.post(self.event(host, seconds))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


async def with_agents(count: int) -> tuple[Daemon, list[AgentHost]]:
    daemon = await opened()
    hosts = [joined(daemon, number) for number in range(2, 2 + count)]
    await daemon.main_loop.until_idle()
    return daemon, hosts


async def rounds(daemon: Daemon, count: int) -> None:
    for _ in range(count):
        await daemon.rounds.round()


@in_a_loop
async def test_G12_events_beside_an_agent_that_floods_itself_are_committed_within_50_ms(work: Work) -> None:
    daemon, (flooded, *calm) = await with_agents(100)
    asked: dict[int, float] = {}
    waited: list[float] = []
    work.flood([flooded], 20_000)

    def answered(host: AgentHost) -> Request:
        number = host.agent.store.agent
        event = work.event(host)
        return Request(event.work, lambda result, error: waited.append(work.now - asked.pop(number)))

    for turn in range(200):
        for host in calm[turn % 7 :: 7]:
            if (number := host.agent.store.agent) not in asked:
                asked[number] = work.now
                host.post(answered(host))
        began = work.now
        await daemon.rounds.round()
        assert work.now - began <= SLICE + 2 * EVENT
    assert len(waited) > 1000
    assert sorted(waited)[len(waited) * 99 // 100] <= 0.05
    assert work.of[flooded.agent.store.agent] > 200, "nor is that one starved"
    await daemon.close()


@in_a_loop
@pytest.mark.parametrize("seconds", [EVENT / 10, EVENT, 0.004])
async def test_G12_agents_that_flood_get_time_by_their_weights(work: Work, seconds: float) -> None:
    daemon, hosts = await with_agents(3)
    for host, weight in zip(hosts, (10, 20, 40), strict=True):
        host.use_settings(AgentSettings(weight=weight))
    work.flood(hosts, 4_000, seconds)
    await rounds(daemon, 10 if seconds < EVENT else 100)
    done = [work.of[host.agent.store.agent] for host in hosts]
    assert [count / sum(done) for count in done] == pytest.approx([1 / 7, 2 / 7, 4 / 7], rel=0.1)
    await daemon.close()


@in_a_loop
async def test_G12_a_hundred_that_flood_get_the_same_and_one_with_long_events_no_more(work: Work) -> None:
    daemon, hosts = await with_agents(100)
    work.flood(hosts[1:], 300)
    work.flood(hosts[:1], 30, 0.02)
    await rounds(daemon, 400)
    long, *short = (work.of[host.agent.store.agent] for host in hosts)
    mean = sum(short) * EVENT / len(short)
    assert mean > 10 * EVENT
    assert long * 0.02 <= mean + 0.02
    assert [count * EVENT for count in short] == pytest.approx([mean] * 99, rel=0.1, abs=0.0006)
    await daemon.close()


@in_a_loop
async def test_G12_what_an_agent_took_while_nobody_waited_is_not_held_against_it(work: Work) -> None:
    daemon, (one, other) = await with_agents(2)
    work.flood([one, other], 1, 10.0)
    await rounds(daemon, 2)
    work.flood([one], 100)
    await rounds(daemon, 1)
    work.flood([other], 100)
    await rounds(daemon, 2)
    assert [work.of[host.agent.store.agent] > 20 for host in (one, other)] == [True, True]
    await daemon.close()


@in_a_loop
async def test_G12_of_an_agent_that_alone_has_work_a_turn_is_as_long_as_ever(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, (one, _) = await with_agents(2)
    commits: list[Batch] = []
    monkeypatch.setattr(daemon.store, "commit", lambda *batches: commits.extend(batches))
    before = one.loop.turns
    work.flood([one], 120)
    await daemon.main_loop.until_idle()
    assert (one.loop.turns - before, work.of[one.agent.store.agent]) == (3, 120), "52, 52 and 16 events"
    await daemon.close()


@in_a_loop
async def test_G12_a_flooded_agent_still_does_one_of_what_it_is_asked_in_each_turn(work: Work) -> None:
    daemon, (one, other) = await with_agents(2)
    work.flood([one, other], 50, 0.05)
    turns = one.loop.turns
    await rounds(daemon, 20)
    assert work.of[one.agent.store.agent] == one.loop.turns - turns == pytest.approx(10, abs=1)
    await daemon.close()
