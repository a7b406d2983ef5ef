"""The alarm: rings at a moment of the clock on the wall, and costs nothing until then (N24, N25)."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from narval.system.wall_timer import LoopTimer, TimerFdTimer, WallTimer, wall_timer

Making = Callable[[asyncio.AbstractEventLoop, Callable[[], object]], WallTimer]


def heard(making: Making, *at: float | None) -> list[float]:
    """When it rang, having been set to these moments (seconds from now) one after another."""
    rings: list[float] = []

    async def listen() -> None:
        bell = asyncio.Event()

        def ring() -> None:
            rings.append(time.time())
            bell.set()

        it = making(asyncio.get_running_loop(), ring)
        began = time.time()
        for moment in at:
            it.set(None if moment is None else began + moment)
        if at[-1] is None:
            await asyncio.sleep(0.05)
        else:
            await bell.wait()
        it.close()
        rings[:] = [ring - began for ring in rings]

    asyncio.run(listen())
    return rings


@pytest.mark.parametrize("making", [wall_timer, TimerFdTimer, LoopTimer])
def test_N25_it_rings_once_at_its_moment_and_not_before(making: Any) -> None:
    [ring] = heard(making, 0.05)
    assert ring >= 0.05


@pytest.mark.parametrize("making", [TimerFdTimer, LoopTimer])
@pytest.mark.parametrize("past", [0.0, -1.0, -1e9, -1e12])
def test_N25_a_moment_gone_by_rings_at_once(making: Any, past: float) -> None:
    assert len(heard(making, past)) == 1


@pytest.mark.parametrize("making", [TimerFdTimer, LoopTimer])
def test_N25_the_last_moment_set_is_the_one(making: Any) -> None:
    assert heard(making, 0.01, None) == []
    [ring] = heard(making, 86400.0, 1e15, 0.05)
    assert ring >= 0.05


def test_N25_a_clock_that_was_set_rings_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    rings: list[None] = []

    async def listen() -> None:
        it = TimerFdTimer(asyncio.get_running_loop(), lambda: rings.append(None))

        def cancelled(*_: object) -> bytes:
            raise OSError(errno.ECANCELED, "cancelled")

        monkeypatch.setattr(os, "read", cancelled)
        it.set(time.time() + 0.01)
        while not rings:
            await asyncio.sleep(0.005)
        assert not it.is_set, "and is to be set anew"
        it.close()

    asyncio.run(listen())


def test_N25_where_there_is_no_such_timer_the_clock_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("narval.system.wall_timer.sys.platform", "darwin")
    monkeypatch.setattr("narval.system.wall_timer.LOOK_AGAIN", 0.02)
    assert len(heard(wall_timer, 86400.0)) == 1
