"""narval run keeps the program of chats at work while the settings name one (C16)."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from narval.surfaces.cli.daemon import kept
from tests.daemon.at_work import in_a_loop
from tests.surfaces.chat.at_work import SETTINGS, chat_at_work, make_chat_home


class Program:
    """A program that ends with a status when it is told to."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.over = asyncio.Event()

    async def wait(self) -> int:
        await self.over.wait()
        assert self.returncode is not None
        return self.returncode

    def end(self, status: int) -> None:
        self.returncode = status
        self.over.set()

    def terminate(self) -> None:
        self.end(0)


@in_a_loop
async def test_C16_the_program_is_kept_while_a_chat_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, begun = list[Program](), asyncio.Condition()

    async def begin(*words: str, **_: Any) -> Program:
        assert words[-2:] == ("chat", "--kept")
        async with begun:
            programs.append(Program(len(programs) + 1))
            begun.notify_all()
        return programs[-1]

    async def there_are(number: int) -> None:
        async with asyncio.timeout(60), begun:
            await begun.wait_for(lambda: len(programs) == number)

    monkeypatch.setattr(kept, "_FIRST", 0.01)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin)
    home = make_chat_home(tmp_path)
    (tmp_path / "etc/narval.toml").write_text("")
    async with chat_at_work(home, begin=False) as chat:
        keeping = asyncio.create_task(kept.keep_chat(home, chat.daemon))
        await chat.ask("status")
        assert programs == []
        (tmp_path / "etc/narval.toml").write_text(SETTINGS)
        await chat.ask("reload")
        await there_are(1)
        assert chat.daemon.kept == {1}, "it is taken for no program of a run"
        programs[0].end(1)
        await there_are(2)
        assert chat.daemon.kept == {2}
        (tmp_path / "etc/narval.toml").write_text("")
        await chat.ask("reload")
        programs[1].end(0)
        await asyncio.sleep(0.05)
        assert len(programs) == 2, "none is needed"
        (tmp_path / "etc/narval.toml").write_text(SETTINGS)
        await chat.ask("reload")
        await there_are(3)
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping
        assert programs[2].returncode == 0, "it ends with the daemon"
        assert chat.daemon.kept == set()
