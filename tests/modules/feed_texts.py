"""Feeds for tests: elements, bytes, and what a source gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

from lxml import etree

from modules import feeds
from modules.feeds import reading as feeds_reading
from narval import Element
from narval.calls.context import CallContext, Target, call
from tests.places import ROOT

DEMO = ROOT / "data" / "demo" / "feeds"
RSS, ATOM = (DEMO / "harbour.rss").read_bytes(), (DEMO / "observatory.atom").read_bytes()


def feed(**attributes: str) -> Element:
    return Element(0, etree.tostring(etree.Element("feed", attributes)))


def rss(*titles: str) -> bytes:
    items = "".join(f"<item><title>{title}</title><guid>{title}</guid></item>" for title in titles)
    return f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>'.encode()


def one(entry: str, **options: str) -> etree._Element:
    [item] = feeds_reading.items_of(
        f'<rss version="2.0"><channel><title>t</title><item>{entry}</item></channel></rss>'.encode(),
        "f",
        **options,
    )
    return item


def answer(home: Path | None, coroutine: Coroutine[Any, Any, Any]) -> CallContext:
    """Run a coroutine as the answer to a call."""
    here = CallContext("1.1", 1, "step", home, target=Target(where="source"), fetch_allow=("127.0.0.1",))
    here.context().run(asyncio.run, coroutine)
    return here


def titles(elements: list[etree._Element]) -> list[str]:
    return [element.get("title") or element.get("type", "") for element in elements]


async def taken(source: AsyncIterator[list[Any]], count: int) -> list[list[Any]]:
    """The first yields of a source, the last of which it knows to be recorded; then it is closed."""
    found: list[list[Any]] = []
    async with aclosing(source) as open_source:  # type: ignore[type-var]
        async for elements in open_source:
            found.append(elements)
            if len(found) == count:
                break
    return found


async def gather(source: AsyncIterator[list[Any]], enough: Callable[[list[Any]], bool]) -> list[Any]:
    """What a source gives until it is enough and its first pass is recorded."""
    found: list[Any] = []
    caught = asyncio.Event()

    async def follow() -> None:
        async for elements in source:
            found.extend(elements)
            if enough(found):
                caught.set()

    task = asyncio.create_task(follow())
    await asyncio.wait((task, asyncio.create_task(caught.wait())), return_when=asyncio.FIRST_COMPLETED)
    while not (task.done() or call().has_caught_up):
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return found


def watched(home: Path | None, element: Element, enough: int) -> list[etree._Element]:
    found: list[etree._Element] = []

    async def go() -> None:
        found.extend(await gather(feeds.watch(element), lambda so_far: len(so_far) >= enough))

    answer(home, go())
    return found
