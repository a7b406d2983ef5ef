"""Rounds: the turns of several agents, recorded in one commit (G11)."""

from __future__ import annotations

import pytest

from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.core.definitions.library import Library
from narval.core.errors import DaemonGoneError, RefusedRowsError, RequestError, StoreError
from narval.daemon.agents.agent_host import AgentHost, Environment, OnFault
from narval.daemon.daemon import Daemon
from narval.files.agents.settings import AgentSettings
from narval.files.settings import CurrentSettings
from narval.store.batch import Batch, new_agent
from narval.system.clock import SimulatedClock
from tests.daemon.at_work import in_a_loop


async def opened() -> Daemon:
    """A daemon in memory, whose clock stands still."""
    return await Daemon.open(None, clock=SimulatedClock(1_000_000.0))


def joined(daemon: Daemon, number: int, on_fault: OnFault | None = None) -> AgentHost:
    """One more agent at work in a daemon."""
    schemas, since = daemon.files.snapshot.own.schemas, daemon.rounds.clock.now()
    settings = CurrentSettings(daemon.files.settings)
    environment = Environment(
        daemon.store, None, daemon.main_loop, daemon.host.mail.office, settings, "UTC", False
    )
    name, own = f"agent-{number}", AgentSettings()
    row = new_agent(number, name)
    host = AgentHost(environment, row, Library(), schemas, own, since=since, on_fault=on_fault)
    daemon.rounds.add(host)
    return host


def adding(name: str) -> Request:
    return Request(lambda turn: turn.add(f"<{name}/>".encode()), lambda result, error: None)


@in_a_loop
async def test_G11_what_agents_decide_in_a_round_is_one_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = await opened()
    hosts = [joined(daemon, number) for number in (2, 3, 4)]
    await daemon.main_loop.until_idle()
    commits: list[list[int]] = []
    commit = daemon.store.commit

    def counted(*batches: Batch) -> None:
        commits.append([batch.agent for batch in batches])
        commit(*batches)

    monkeypatch.setattr(daemon.store, "commit", counted)
    for host in reversed(hosts):
        host.post(adding("mail"))
    await daemon.main_loop.until_idle()
    assert commits == [[4, 3, 2]], "in the order in which they came to have work"
    assert [len(list(host.agent.memory.named(["mail"]))) for host in hosts] == [1, 1, 1]
    assert not list(daemon.agent.memory.named(["mail"]))
    await daemon.close()


@in_a_loop
async def test_G11_one_that_always_has_work_leaves_each_other_a_turn_in_each_round() -> None:
    daemon = await opened()
    busy, calm = joined(daemon, 2), joined(daemon, 3)
    await daemon.main_loop.until_idle()

    def again(turn: Turn) -> None:
        if calm.loop.turns == known:
            busy.post(Request(again, lambda result, error: None))

    known, began = calm.loop.turns, busy.loop.turns
    busy.post(Request(again, lambda result, error: None))
    calm.post(adding("mail"))
    await daemon.main_loop.until_idle()
    assert (calm.loop.turns, busy.loop.turns) == (known + 1, began + 2)
    await daemon.close()


@in_a_loop
async def test_a_moment_wakes_the_agent_that_waits_for_it_and_no_other() -> None:
    daemon = await opened()
    early, late = joined(daemon, 2), joined(daemon, 3)
    now = daemon.rounds.clock.now()
    for host, after in ((early, 10.0), (late, 20.0)):
        host.agent.clockwork.timers.push(now + after, (0, "w"), None)
    await daemon.main_loop.until_idle()
    turns = early.loop.turns, late.loop.turns, daemon.host.loop.turns
    await daemon.main_loop.elapse(15.0)
    assert (early.loop.turns, late.loop.turns, daemon.host.loop.turns) == (turns[0] + 1, *turns[1:])
    await daemon.main_loop.elapse(15.0)
    assert late.loop.turns == turns[1] + 1
    await daemon.close()


@in_a_loop
async def test_a_commit_that_fails_is_told_to_all_who_wait_in_the_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon = await opened()
    hosts = [joined(daemon, number) for number in (2, 3)]
    await daemon.main_loop.until_idle()
    told: list[BaseException | None] = []

    def refuse(*batches: Batch) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(daemon.store, "commit", refuse)
    for host in hosts:
        host.post(Request(lambda turn: turn.add(b"<mail/>"), lambda result, error: told.append(error)))
    with pytest.raises(StoreError, match="the disk is full"):
        await daemon.main_loop.until_idle()
    assert [str(error) for error in told] == ["the disk is full"] * 2
    with pytest.raises(StoreError, match="the disk is full"):
        await daemon.rounds.recorded()
    await daemon.close()


@in_a_loop
async def test_G17_what_is_refused_of_one_agent_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = await opened()
    commit, told, faults = daemon.store.commit, [], []
    refused = {3}

    def refuse(*batches: Batch) -> None:
        if refused & {batch.agent for batch in batches}:
            raise RefusedRowsError("too large")
        commit(*batches)

    def broke_down(host: AgentHost, error: Exception) -> bool:
        faults.append(str(error))
        daemon.rounds.remove(host)
        host.give_up(RequestError("it broke down"))
        return True

    hosts = [joined(daemon, 2), joined(daemon, 3, broke_down), joined(daemon, 4)]
    await daemon.main_loop.until_idle()

    def asking(host: AgentHost) -> Request:
        return Request(
            lambda turn: turn.add(b"<mail/>"),
            lambda result, error: told.append((host.agent.store.agent, result, str(error))),
        )

    monkeypatch.setattr(daemon.store, "commit", refuse)
    for host in hosts:
        host.post(asking(host))
    await daemon.main_loop.until_idle()
    assert sorted(told) == [(2, 1, "None"), (3, 1, "it broke down"), (4, 1, "None")]
    assert faults == ["too large"]
    refused.add(1)
    for host in (hosts[0], daemon.host):
        host.post(asking(host))
    with pytest.raises(RefusedRowsError, match="too large"):
        await daemon.main_loop.until_idle()
    assert [error for _, _, error in told[3:]] == ["too large"] * 2, (
        "nothing is recorded without the home's own"
    )
    await daemon.close()


@in_a_loop
async def test_a_stop_is_that_of_all_agents() -> None:
    daemon = await opened()
    early = joined(daemon, 2)
    daemon.stop.request()
    late = joined(daemon, 3)
    assert [host.dispatcher.is_stopping for host in (daemon.host, early, late)] == [True] * 3
    await daemon.close()
    with pytest.raises(DaemonGoneError):
        await late.submit(lambda turn: None)
