"""W19: a backlog of mails, answered whole by the shipped assistant, and the mails that come afterwards.

    python -m bench.backlog [MAILS] [DROPS]

The home is what `narval init` makes, with a Maildir of so many mails. The clock runs from the start of the
daemon until the last answer lies in the outbox. Then mails are dropped into that home's Maildir and into
a fresh one's in turn, and the time until each answer lies there is taken; both daemons run. `rss_mb` is the
most that the daemon had; `after_mb` what it and its workers have when that is over.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

from bench import mails, programs
from bench.measure import argument, emit, memory_of, now, scratch
from narval.files.new_home import create_home

PATIENCE = 1800.0
QUIET = 3.0
"""Seconds in which the pages of what came in are made, before mails are dropped."""
APART = 0.4
"""Seconds between a mail's answer and the next mail."""


class Assistant:
    """A home with a Maildir of so many mails, and a daemon on it."""

    def __init__(self, folder: Path, count: int) -> None:
        self.home, self.maildir = folder / "home", folder / "Maildir"
        self.outbox = self.home / "var/outbox/new"
        self.asked = mails.fill(self.maildir, count)
        create_home(self.home)
        memory = self.home / "data/memory.xml"
        memory.write_text(memory.read_text().replace("data/demo/Maildir", str(self.maildir)))

    def answers(self) -> int:
        """How many answers lie in the outbox."""
        return len(os.listdir(self.outbox)) if self.outbox.is_dir() else 0

    def dropped(self, raw: bytes, name: str) -> float:
        """Seconds from when a mail is there until its answer is."""
        (self.maildir / "tmp" / name).write_bytes(raw)
        before = self.outbox.stat().st_mtime_ns
        began = now()
        (self.maildir / "tmp" / name).rename(self.maildir / "new" / name)
        while self.outbox.stat().st_mtime_ns == before:
            if now() - began > PATIENCE:
                raise TimeoutError("no answer came")
            time.sleep(0.0005)
        return now() - began


def settled(assistant: Assistant) -> None:
    """Wait until there is an answer for each mail that asks for one."""
    until = now() + PATIENCE
    while assistant.answers() < assistant.asked:
        if now() > until:
            raise TimeoutError(f"{assistant.answers()} answers of {assistant.asked}")
        time.sleep(0.02)


def drop_in_turn(large: Assistant, fresh: Assistant, first: int, drops: int) -> dict[str, float]:
    """Milliseconds from drop to answer, median and worst, in a home after a backlog and in a fresh one."""
    template, taken = mails.templates()[0], {"after": list[float](), "fresh": list[float]()}
    for number in range(drops):
        for assistant, own in zip((large, fresh), taken.values(), strict=True):
            own.append(assistant.dropped(mails.mail(template, first + number), f"{number:03}.later"))
            time.sleep(APART)
    return {
        f"{name}{figure}_ms": round(1e3 * of(own), 1)
        for name, own in taken.items()
        for figure, of in (("", median), ("_worst", max))
    }


def main() -> None:
    count, drops = argument(1, 10_000), argument(2, 20)
    with scratch() as folder:
        large, fresh = Assistant(folder / "large", count), Assistant(folder / "fresh", 1)
        began = now()
        with programs.running(large.home) as (daemon, _):
            settled(large)
            seconds, worked = now() - began, programs.processor_time([daemon.pid])
            with programs.running(fresh.home):
                settled(fresh)
                time.sleep(QUIET)
                assert large.answers() == large.asked
                peak = memory_of(daemon.pid)
                late = drop_in_turn(large, fresh, count, drops)
            after = sum(memory_of(each, "VmRSS") for each in programs.family(daemon.pid))
    emit(
        f"W19-{count}",
        count,
        seconds,
        rss_mb=peak,
        processor_s=round(worked, 2),
        answers=large.asked,
        after_mb=round(after, 1),
        **late,
    )


if __name__ == "__main__":
    main()
