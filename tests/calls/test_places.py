"""Concurrency limits: one slot is left to others, and an agent may have so many calls (G14)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.calls.conftest import number_of


def reason(calls: Any, call: Any) -> str:
    record = calls.find(call.id)
    assert record is not None
    return calls.book.of(number_of(call.agent)).waits_for(record)


def begun(calls: Any, contexts: list[Any]) -> list[bool]:
    found = [calls.find(context.id) for context in contexts]
    return [record is None or record.has_room for record in found]


@pytest.mark.parametrize("where", ["thread", "async"])
def test_G14_an_agent_has_so_many_calls_under_way_and_its_others_wait(
    make_calls: Callable[..., Any], where: str
) -> None:
    calls, gate = make_calls(threads=8), threading.Event()
    calls.book.of(number_of("shop")).limit(2)

    def wait() -> None:
        gate.wait()

    async def wait_beside() -> None:
        while not gate.is_set():
            await asyncio.sleep(0.001)

    act = wait if where == "thread" else wait_beside
    contexts = [calls.context(act, where=where, agent="shop", family=family) for family in (1, 1, 1, 2)]
    others = [calls.context(lambda: None, agent="ada")]
    flood = [calls.start(context) for context in contexts]
    assert begun(calls, contexts) == [True, True, False, False]
    assert reason(calls, contexts[2]) == "2 of 2 calls of shop are under way"
    assert [reason(calls, contexts[0]), calls.book.counts.queued] == ["", 2]
    calls.outcome(calls.start(others[0]))
    calls.abandon(contexts[2].id)
    assert calls.outcome(flood[2]).abandoned
    calls.book.of(number_of("shop")).limit(3)
    assert begun(calls, contexts[3:]) == [True]
    gate.set()
    for future in flood:
        calls.outcome(future)
    assert (calls.book.counts.running, calls.book.counts.queued) == (0, 0)


def test_G14_calls_that_wait_begin_when_others_are_over_and_those_over_at_once_are_no_burden(
    make_calls: Callable[..., Any], tmp_path: Any
) -> None:
    calls, gate = make_calls(threads=8), threading.Event()
    calls.book.of(number_of("shop")).limit(1)

    def wait() -> None:
        gate.wait()

    first = calls.start(calls.context(wait, agent="shop"))
    rest = [
        calls.start(calls.context(lambda: None, agent="shop", family=number % 7)) for number in range(3000)
    ]
    assert calls.book.counts.queued == 3000
    gate.set()
    for future in (first, *rest):
        calls.outcome(future)
    assert calls.book.counts.queued == 0


@pytest.mark.parametrize("where", ["thread", "worker"])
def test_G14_where_there_are_others_no_agent_has_all_places(
    make_calls: Callable[..., Any], module: Callable[[str], Any], where: str, tmp_path: Any
) -> None:
    calls, gate = make_calls(threads=2, workers=2), tmp_path / "gate"
    text = f"""
import os, time
def wait():
    while not os.path.exists({str(gate)!r}):
        time.sleep(0.005)
def act():
    return None
"""
    actions = module(text)
    calls.is_shared = True
    contexts = [calls.context(actions, "wait", where=where, agent="shop") for _ in range(3)]
    flood = [calls.start(context) for context in contexts]
    other = calls.start(calls.context(actions, where=where, agent="ada"))
    calls.outcome(other)
    assert begun(calls, contexts) == [True, False, False]
    place = f"1 of 1 {where}s that an agent may have are taken by calls of shop"
    assert reason(calls, contexts[1]) == place
    calls.is_shared = False
    last = calls.start(calls.context(actions, "wait", where=where, agent="ada"))
    calls.until(lambda: begun(calls, contexts)[1])
    assert reason(calls, contexts[2]) == f"all 2 {where}s are taken"
    gate.write_text("")
    for future in (*flood, last):
        calls.outcome(future)


def test_G14_what_waits_for_a_place_is_left_to_recovery_when_the_daemon_closes(
    make_calls: Callable[..., Any],
) -> None:
    calls, gate = make_calls(threads=4), threading.Event()
    calls.book.of(number_of("shop")).limit(1)

    def wait() -> None:
        gate.wait()

    futures = [calls.start(calls.context(wait, agent="shop")) for _ in range(3)]
    gate.set()
    calls.close(5.0)
    assert [future.done() for future in futures] == [True, False, False]
