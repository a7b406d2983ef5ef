"""Parts of a coroutine's call in threads: among all calls, with no place of the agent of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from narval.calls.context import call
from narval.core.errors import ActionError
from tests.calls.conftest import number_of


async def part(calls: Any, *work: Any) -> Any:
    """A part of the call that this is within."""
    return await calls.book.of(number_of(call().agent)).part(call(), *work)


def test_parts_take_turns_for_threads_with_all_calls_and_give_what_they_like(
    make_calls: Callable[..., Any],
) -> None:
    calls = make_calls(threads=2)
    calls.book.of(number_of("shop")).limit(1)
    lock, now, most = threading.Lock(), [0], [0]

    def work() -> tuple[str, int]:
        with lock:
            now[0] += 1
            most[0] = max(now[0], most[0])
        threading.Event().wait(0.002)
        with lock:
            now[0] -= 1
        return call().id, now[0]

    async def act() -> str:
        parts = [part(calls, work) for _ in range(8)]
        results = await asyncio.gather(*parts)
        assert {id for id, _ in results} == {call().id}
        return f"<parts n='{len(results)}'/>"

    outcome = calls.ask(act, where="async", agent="shop")
    assert [one.xml for one in outcome.elements] == [b'<parts n="8"/>']
    assert most == [2]
    assert (calls.book.counts.running, calls.book.counts.queued) == (0, 0)


def test_a_part_that_is_not_done_says_why_and_one_that_nobody_waits_for_is_given_up(
    make_calls: Callable[..., Any],
) -> None:
    calls, gate = make_calls(threads=1), threading.Event()

    def broken() -> None:
        raise KeyError("x")

    async def act() -> None:
        with pytest.raises(KeyError, match="x"):
            await part(calls, broken)
        with pytest.raises(ActionError, match=r"did not come back within 0\.02 s"):
            await part(calls, gate.wait, 0.02)
        asked = asyncio.create_task(part(calls, gate.wait))
        waiting = asyncio.create_task(part(calls, gate.wait))
        await asyncio.sleep(0)
        assert (calls.book.counts.running, calls.book.counts.queued) == (2, 1)
        for task in (waiting, asked):
            task.cancel()
        await asyncio.wait([waiting, asked])

    assert calls.ask(act, where="async").problem is None
    assert calls.book.counts.given_up == 2
    gate.set()
    calls.until(lambda: calls.book.counts.given_up == 0)
    assert (calls.book.counts.running, calls.book.counts.queued) == (0, 0)


def test_a_call_that_is_under_way_at_the_end_has_its_parts_done(make_calls: Callable[..., Any]) -> None:
    calls, gate = make_calls(threads=1), threading.Event()

    async def act() -> str:
        both = [part(calls, work) for work in (gate.wait, lambda: None)]
        await asyncio.gather(*both)
        await part(calls, lambda: None)
        return "<done/>"

    async def ending() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        closing = asyncio.create_task(calls.book.close(60))
        await asyncio.sleep(0)
        gate.set()
        await closing

    future = calls.start(calls.context(act, where="async"))
    calls.wait(ending())
    assert [one.xml for one in calls.outcome(future).elements] == [b"<done/>"]
