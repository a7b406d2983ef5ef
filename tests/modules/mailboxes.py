"""Mailboxes for tests: mails in them, and a watcher of what a source gives."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from modules import mail
from narval.calls.context import CallContext, Target
from narval.core.elements.element import Element


def letter(number: int, text: str = "text", **fields: str) -> bytes:
    header = {"From": "a@example.org", "Message-ID": f"<{number}@example.org>", "Subject": f"mail {number}"}
    header |= {name.replace("_", "-"): value for name, value in fields.items()}
    return "".join(f"{name}: {value}\n" for name, value in header.items()).encode() + f"\n{text}\n".encode()


def maildir(path: Path, count: int) -> Path:
    for folder in ("tmp", "new", "cur"):
        (path / folder).mkdir(parents=True)
    for number in range(count):
        (path / "new" / f"{1793600000 + number}.{number}.host").write_bytes(letter(number))
    return path


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
        for path in folder.rglob("*")
        if path.is_file()
    }


class Watcher:
    """A source, asked for one yield after the other: asking says that the last is kept."""

    def __init__(self, home: Path, xml: str, watch: Callable[[Element], Any] = mail.watch) -> None:
        allowed = ("127.0.0.1",)
        self.call = CallContext(
            "call-1", 1, "watch", home, target=Target(where="source"), fetch_allow=allowed
        )
        self.taken: list[Element] = []
        self._context = self.call.context()
        self._source = watch(Element(1, xml.encode()))

    async def take(self, count: int = 1) -> list[Element]:
        """The next elements, at least so many."""
        taken: list[Element] = []
        while len(taken) < count:
            taken += [_element(given) for given in await self._next()]
        self.taken += taken
        return taken

    async def catch_up(self) -> None:
        """Go on until the source says that it has caught up; nothing more may come meanwhile."""
        self.call.has_caught_up = False
        going_on = self._next()
        while not self.call.has_caught_up:
            assert not going_on.done()
            await asyncio.sleep(0.005)
        going_on.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going_on

    def _next(self) -> asyncio.Task[list[Any]]:
        async def step() -> list[Any]:
            found: list[Any] = await anext(self._source)
            return found

        return asyncio.get_running_loop().create_task(step(), context=self._context)

    async def close(self) -> None:
        """Nobody listens any more."""
        await self._source.aclose()


def _element(given: Any) -> Element:
    return Element(0, given if isinstance(given, bytes) else etree.tostring(given))


@contextlib.asynccontextmanager
async def watching(
    home: Path, xml: str, watch: Callable[[Element], Any] = mail.watch
) -> AsyncIterator[Watcher]:
    watcher = Watcher(home, xml, watch)
    try:
        yield watcher
    finally:
        await watcher.close()


Scenario = Callable[[Watcher], Coroutine[Any, Any, None]]


def watched(home: Path, xml: str, scenario: Scenario) -> list[Element]:
    """All that is taken while a scenario is played on a watched mailbox."""

    async def play() -> list[Element]:
        async with watching(home, xml) as watcher:
            await scenario(watcher)
            return watcher.taken

    return asyncio.run(play())


def subjects(elements: list[Element]) -> list[str]:
    return [element.attributes.get("subject", element.attributes.get("type", "")) for element in elements]


def read(home: Path, xml: str) -> list[Element]:
    context = CallContext("call-1", 1, "read", home).context()
    return [Element(0, each) for each in context.run(mail.read, Element(1, xml.encode()))]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if not thread.name.startswith("asyncio"):
            thread.join()
