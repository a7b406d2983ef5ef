"""A simulated year of the shipped assistant: `python -m tests.simulator.year DAYS MAILS RESTARTS`.

So many mails come every day, feeds change every week, the daemon is stopped or killed every RESTARTS days (0:
never, so that one program's memory can be seen). After each month
a line of JSON says what is kept. Time is simulated; the home, its store, its mailbox and its feeds are real.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from random import Random
from typing import Any

import psutil

from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.files.new_home import create_home
from narval.system.clock import SimulatedClock

MONTH = 30
FIRST = datetime(2026, 1, 1, 6, tzinfo=UTC)
PATIENCE = 60.0

MAIL = """\
From: Person {who} <p{who}@example.com>
To: assistant@example.org
Subject: matter {number}
Message-ID: <m{number}@example.com>
Date: {date}
{more}
Hello, this is about matter {number}.
{text}
"""
ITEM = (
    "<item><title>news {number}</title><guid>n{number}</guid><link>http://example.org/{number}</link></item>"
)
FEED = '<rss version="2.0"><channel><title>f</title><link>http://example.org/</link>{items}</channel></rss>'


class Year:
    """The assistant's home, and the days that go by."""

    def __init__(self, folder: Path, mails: int, restarts: int) -> None:
        create_home(folder)
        self.home, self.mails, self.restarts = Home(folder), mails, restarts
        self.clock = SimulatedClock(FIRST)
        self.chance = Random(0)
        self.sent = 0
        self.daemon: Daemon | None = None

    async def live(self, days: int) -> None:
        """So many days; a line for each month."""
        daemon = await self._open()
        for day in range(1, days + 1):
            if day % 7 == 0:
                self._publish(day)
            arrived = [self._deliver() for _ in range(self.mails)]
            await self._until_told(daemon, arrived)
            await daemon.main_loop.elapse(86_400.0)
            if self.restarts and day % self.restarts == 0:
                daemon = await self._again(daemon)
            if day % MONTH == 0:
                print(json.dumps({"month": day // MONTH, **self._kept(daemon)}), flush=True)
        await daemon.close()

    async def _open(self) -> Daemon:
        self.daemon = await Daemon.open(self.home, clock=self.clock)
        self.daemon.stub("basic.pause", lambda pause: None)
        return self.daemon

    async def _again(self, daemon: Daemon) -> Daemon:
        """Another daemon takes over, from one that stopped or one that was killed."""
        if self.chance.random() < 0.5:
            daemon.store.refuse("killed")  # type: ignore[attr-defined]
        await daemon.close()
        return await self._open()

    def _deliver(self) -> str:
        """A mail, as Maildir wants it; every tenth came through a list."""
        self.sent += 1
        text = MAIL.format(
            number=self.sent,
            who=self.sent % 40,  # an address is answered once in a day
            date=format_datetime(datetime.fromtimestamp(self.clock.now(), UTC)),
            more="List-Id: <all.example.com>\n" if self.sent % 10 == 0 else "",
            text="words " * self.chance.randrange(200),
        )
        box = self.home.path / "data/demo/Maildir"
        file = box / "tmp" / f"{self.sent:06d}.x"
        file.write_text(text)
        file.rename(box / "new" / file.name)
        return f"m{self.sent}@example.com"

    def _publish(self, day: int) -> None:
        """The feed has other items now."""
        items = "".join(ITEM.format(number=number) for number in range(day, day + 10))
        (self.home.path / "data/demo/feeds/harbour.rss").write_text(FEED.format(items=items))

    async def _until_told(self, daemon: Daemon, mails: list[str]) -> None:
        """The mailbox is real: what lies in it is told in its own time."""
        missing, deadline = set(mails), time.monotonic() + PATIENCE
        while missing:
            await daemon.main_loop.run(until_idle=True, timeout=1.0)
            missing -= set(self._known(daemon))
            assert time.monotonic() < deadline, f"not told: {missing}"
            await asyncio.sleep(0.005)

    def _known(self, daemon: Daemon) -> Iterator[str]:
        memory = daemon.agent.memory
        for eid in memory.named(["email"]):
            element = memory.element(eid)
            if element is not None:
                yield element.attributes.get("message-id", "")

    def _kept(self, daemon: Daemon) -> dict[str, Any]:
        gc.collect()
        answered = len(list((self.home.path / "var/outbox/new").iterdir()))
        agent = daemon.agent
        return {
            "sent": self.sent,
            "answered": answered,
            "store": self.home.store.stat().st_size,
            "resident": psutil.Process().memory_info().rss,
            "objects": len(gc.get_objects()),
            "daemons": sum(isinstance(each, Daemon) for each in gc.get_objects()),
            "elements": len(agent.memory),
            "runs": len(agent.runs),
            "active": len(agent.runs.active),
            "keys": len(agent.memory.unique_values),
            "marks": sum(map(len, agent.memory.marks.values())),
            "waiting": len(agent.watches.index),
            "moments": len(agent.clockwork.timers),
        }


def main() -> None:
    """The command."""
    days, mails, restarts = map(int, sys.argv[1:4])
    # The thread that reads the mailbox may be amid a letter when the daemon has ended, and keep its text.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        asyncio.run(Year(Path(folder), mails, restarts).live(days))


if __name__ == "__main__":
    main()
