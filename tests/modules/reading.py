"""All that a source gives while a story goes on, whatever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from narval.core.elements.element import Element
from tests.modules.mailboxes import Watcher


class Reading:
    """All that a source gives while a story goes on."""

    def __init__(self, watcher: Watcher) -> None:
        self.seen: list[Element] = []
        self._watcher = watcher
        self.task = asyncio.ensure_future(self._go_on())

    async def _go_on(self) -> None:
        while True:
            self.seen += await self._watcher.take()

    @property
    def errors(self) -> list[str]:
        return [element.text for element in self.seen if element.name == "error"]

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert not self.task.done(), self.task
            await asyncio.sleep(0.005)

    def has(self, subject: str) -> bool:
        """True once there is a mail, an item, an event or a file that is called so."""
        names = ("subject", "title", "summary", "name")
        return any(subject == element.attributes.get(name) for element in self.seen for name in names)

    async def __aenter__(self) -> Reading:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
