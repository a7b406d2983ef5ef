"""An event loop whose clock moves on by itself as soon as nothing is left to do but to wait."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Selector(selectors.DefaultSelector):
    """Never waits: the time that it is given to wait passes at once."""

    loop: FakeTimeLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout:
            self.loop.passed += timeout
        return ready


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """A loop in which a minute takes no time."""

    def __init__(self) -> None:
        self.passed = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.passed


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine in such a loop."""
    with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
        return runner.run(coroutine)
