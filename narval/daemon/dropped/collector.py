"""Collection of dropped files: folders are scanned at the start, and when something may have come."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable

from narval.daemon.agents.agent_host import AgentHost
from narval.system.file_events import Debounce

log = logging.getLogger("narval.inbox")

SETTLE, MOST = 0.05, 0.5
"""Seconds of quiet before folders are scanned, and the most by which that delays a scan."""


AGAIN = 5.0
"""Seconds until another scan while something cannot be taken or set aside."""


class Collector(ABC):
    """Takes the files dropped into some folders. `host` is the home's own agent, woken when nothing is left
    to take.
    """

    def __init__(self, host: AgentHost, name: str) -> None:
        self._host, self._settling = host, Debounce(SETTLE, MOST)
        self.is_busy = True
        """True while there may be something to take."""
        self.untaken: dict[str, list[str]] = {}
        """By folder, the reasons why something in it cannot be taken at present, one sentence each."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name=name)

    async def close(self) -> None:
        """Stop taking; files under way are left to the next start."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def look(self) -> None:
        """Scan soon: something may have been dropped, or moved."""
        self.is_busy = True
        self._settling.notice()

    def note_untaken(self, folder: str, reasons: list[str]) -> None:
        """Record what cannot be taken from a folder at present, and log new reasons."""
        before = frozenset(self.untaken.get(folder, ()))
        for reason in reasons:
            if reason not in before:
                log.warning("%s", reason)
        self.untaken.pop(folder, None)
        if reasons:
            self.untaken[folder] = reasons

    def forget_untaken(self, served: Iterable[str]) -> None:
        """Forget what could not be taken from any folder but these: the others have nothing left."""
        for folder in self.untaken.keys() - set(served):
            del self.untaken[folder]

    async def _follow(self) -> None:
        while True:
            try:
                again = await self.take_all()
            finally:
                self.is_busy = False
                self._host.wake()
            await self._settling.quiet(again)
            self.is_busy = True

    @abstractmethod
    async def take_all(self) -> float | None:
        """Scan the folders; return the seconds after which to scan again in any case, or None."""
