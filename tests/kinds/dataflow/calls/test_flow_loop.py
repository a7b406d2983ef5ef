"""The loop of dataflows: work that is over at once, and work after the loop has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

import pytest

from narval.kinds.dataflow.calls.calls import FlowLoop


async def answer(value: int) -> int:
    return value


def test_T29_a_session_that_is_over_at_once_holds_nobody_back(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = asyncio.run_coroutine_threadsafe

    def done_already(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Future[Any]:
        future = submit(work, loop)
        future.result()
        return future

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", done_already)
    loop = FlowLoop()
    assert [asyncio.run(loop.run(answer(value))) for value in (1, 2)] == [1, 2]
