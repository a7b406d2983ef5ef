"""A folder that is watched, for tests: the elements told of it, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

from lxml import etree

from modules import files
from narval import Element
from narval.calls.context import CallContext, Target

QUIET = 0.05


def element(name: str, text: str = "", **attributes: str) -> Element:
    made = etree.Element(name, {key.rstrip("_"): value for key, value in attributes.items()})
    made.text = text
    return Element(0, etree.tostring(made))


def call_of(home: Path | None, id: str = "1.1") -> CallContext:
    return CallContext(id, 1, "step", home, target=Target(where="source"))


class Watched:
    """A source under way: `next` gives what it tells, so many at least, as sorted (event, path) pairs."""

    def __init__(self, source: AsyncIterator[list[etree._Element]], here: CallContext) -> None:
        self.here = here
        self.elements: list[etree._Element] = []
        self._source = source
        self._following: asyncio.Task[list[etree._Element]] | None = None

    async def next(self, count: int = 1) -> list[tuple[str, str]]:
        found: list[etree._Element] = []
        while len(found) < count:
            self.follow()
            assert self._following is not None
            found.extend(await self._following)
            self._following = None
        self.follow()
        self.elements.extend(found)
        return sorted((each.get("event") or each.get("type", ""), each.get("path", "")) for each in found)

    def follow(self) -> None:
        """Go on, which also says that what was told has been recorded."""
        if self._following is None:
            self._following = asyncio.ensure_future(anext(self._source))

    async def caught_up(self) -> None:
        self.follow()
        while not self.here.has_caught_up:
            assert self._following is not None
            if self._following.done():
                self._following.result()
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def silent(self, seconds: float = 5 * QUIET) -> bool:
        """Whether nothing is told for a while."""
        self.follow()
        assert self._following is not None
        await asyncio.wait([self._following], timeout=seconds)
        return not self._following.done()


def watching(home: Path, story: Callable[[Watched], Awaitable[None]], **attributes: str) -> None:
    """Watch `home/in` while a story unfolds."""
    here = call_of(home)

    async def go() -> None:
        folder = element("folder", **({"path": "in", "settle": str(QUIET)} | attributes))
        async with aclosing(files.watch(folder)) as source:  # type: ignore[type-var]
            watched = Watched(source, here)
            try:
                await story(watched)
            finally:
                await watched.stop()

    here.context().run(asyncio.run, go())
