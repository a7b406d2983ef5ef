"""File events: which folders changed, also when events are lost; and rest after changes (N31)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from narval.system.file_events import Debounce, FileEvents


def test_N31_when_notices_are_lost_everything_is_read_again(tmp_path: Path) -> None:
    async def story() -> set[str]:
        for part in ("recipes", "etc"):
            (tmp_path / part).mkdir()
        changed: set[str] = set()
        news = asyncio.Event()

        def note(part: str) -> None:
            changed.add(part)
            news.set()

        events = FileEvents(tmp_path, {"recipes": True, "etc": False}, note)
        await asyncio.to_thread(events.arm)
        logging.getLogger("watchdog.observers.inotify_c").warning(
            "Inotify queue overflowed; events were lost"
        )
        while len(changed) < 2:
            news.clear()
            await news.wait()
        assert events.stale
        await asyncio.to_thread(events.arm)
        changed.clear()
        (tmp_path / "etc" / "x").write_text("")
        while not changed:
            news.clear()
            await news.wait()
        events.close()
        return changed

    assert asyncio.run(story()) == {"etc"}


def test_changes_without_end_come_to_rest_after_the_longest_time() -> None:
    async def story() -> None:
        settling = Debounce(0.05, 0.1)

        async def never_rests() -> None:
            while True:
                settling.notice()
                await asyncio.sleep(0)

        noise = asyncio.create_task(never_rests())
        await settling.quiet()
        noise.cancel()

    asyncio.run(story())
