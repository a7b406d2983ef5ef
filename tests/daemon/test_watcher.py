"""Reloads of a home: old versions are released, and files are read where they cannot be watched (N31)."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import pytest

from narval.ask.clients.calling import use_tool
from narval.ask.runs.acts import start
from narval.core.errors import RequestError
from narval.daemon import watcher
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.system.file_events import FileEvents

MODULE = """\
from narval import Output, action
N = {version}

@action(outputs=[Output("n", "n")], runs="{runs}")
def give():
    from . import sibling
    return f"<n v='{{N}} {{sibling.N}}'/>"
"""
RECIPE = """\
<recipe group="w" name="r" start_step="s" end_step="s"><step id="s" type="action" target="w.give"/></recipe>
"""


def put(home: Path, version: int, runs: str = "inline") -> None:
    for path, text in {
        "modules/w.py": MODULE.format(version=version, runs=runs),
        "modules/sibling.py": f"N = {version}\n",
        "recipes/w.xml": RECIPE,
        "etc/narval.toml": "",
    }.items():
        file = home / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


async def given(daemon: Daemon) -> str:
    """What a new run of the recipe gives."""
    run = await daemon.host.submit(lambda turn: turn.start("w.r"))
    await daemon.host.ended(run)
    assert run.phase == "done"
    return output_of(daemon, run.eid)


def output_of(daemon: Daemon, run: int) -> str:
    """The versions in the one element of a run."""
    (eid,) = daemon.agent.memory.contexts.of(run)
    element = daemon.agent.memory.element(eid)
    assert element is not None
    return element.attributes["v"]


def alive() -> tuple[int, int]:
    """The modules of homes that can be imported, and those that are in use at all."""
    gc.collect()
    modules = [found.__name__ for found in gc.get_objects() if isinstance(found, ModuleType)]
    importable, in_use = ([name for name in names if _is_home(name)] for names in (sys.modules, modules))
    return len(importable), len(in_use)


def _is_home(name: str) -> bool:
    return name.startswith("narval_home_")


@pytest.mark.usefixtures("small_heap")
def test_N31_forty_versions_leave_no_more_behind_than_two(tmp_path: Path) -> None:
    async def reloads() -> list[tuple[int, int]]:
        put(tmp_path, 0)
        daemon, counts = await Daemon.open(Home(tmp_path)), []
        for version in range(1, 41):
            put(tmp_path, version)
            assert await daemon.reloader.reload()
            assert await given(daemon) == f"{version} {version}"
            if version in (2, 40):
                for thread in threading.enumerate():  # the one that has read lets go of it when it ends
                    if thread.name == "narval-files":
                        thread.join()
                counts.append(alive())
        await daemon.close()
        return counts

    first, last = asyncio.run(reloads())
    assert all(now <= then for now, then in zip(last, first, strict=True))


def test_N31_N33_workers_have_the_version_of_a_module_and_of_its_siblings(tmp_path: Path) -> None:
    async def reloads() -> list[str]:
        put(tmp_path, 1, "worker")
        daemon, found = await Daemon.open(Home(tmp_path)), []
        for version in (1, 2):
            put(tmp_path, version, "worker")
            await daemon.reloader.reload()
            found.append(await given(daemon))
        await daemon.close()
        return found

    assert asyncio.run(reloads()) == ["1 1", "2 2"]


def test_N31_a_sibling_alone_that_changes_is_new_in_workers_too(tmp_path: Path) -> None:
    async def reloads() -> list[str]:
        put(tmp_path, 1, "worker")
        daemon = await Daemon.open(Home(tmp_path))
        found = [await given(daemon)]
        (tmp_path / "modules/sibling.py").write_text("N = 2\n")
        assert await daemon.reloader.reload()
        found.append(await given(daemon))
        await daemon.close()
        return found

    assert asyncio.run(reloads()) == ["1 1", "1 2"]


@asynccontextmanager
async def followed(home: Path) -> AsyncIterator[Daemon]:
    """A daemon at work that follows the files of a home, and has read them."""
    daemon = await Daemon.open(Home(home))
    daemon.follow_files()
    work = asyncio.create_task(daemon.main_loop.run())
    while is_reading(daemon):
        await asyncio.sleep(0.01)
    yield daemon
    daemon.stop.request()
    await work
    await daemon.close()


async def noticed(daemon: Daemon) -> None:
    """Wait until a change of the files is noticed, and not read yet."""
    while not is_reading(daemon):
        await asyncio.sleep(0.001)


def is_reading(daemon: Daemon) -> bool:
    """True if the files have changed and are not read yet."""
    assert daemon.watcher is not None
    return daemon.watcher.is_busy()


def test_N31_a_start_waits_until_what_was_just_saved_is_read(tmp_path: Path) -> None:
    async def starts() -> str:
        put(tmp_path, 1)
        async with followed(tmp_path) as daemon:
            put(tmp_path, 2)
            await noticed(daemon)
            run = await start(daemon, "w.r", wait=True)
            return output_of(daemon, run["eid"])

    assert asyncio.run(starts()) == "2 2"


def test_a_client_is_held_to_the_approval_that_was_just_saved(tmp_path: Path) -> None:
    async def refused() -> str:
        put(tmp_path, 1)
        (tmp_path / "etc/mcp").mkdir()
        client = 'agents = ["narval"]\ntools = ["start"]\nrecipes = ["w.r"]\n'
        (tmp_path / "etc/mcp/desk.toml").write_text(client)
        async with followed(tmp_path) as daemon:
            (tmp_path / "recipes/w.xml").write_text(RECIPE.replace("><", '><tool approve="owner"/><', 1))
            await noticed(daemon)
            with pytest.raises(RequestError) as refusal:
                await use_tool(daemon, "desk", "start", {"name": "w.r"})
            return str(refusal.value)

    assert asyncio.run(refused()) == "w.r is started after the owner has agreed: call it as a tool"


def test_N31_what_runs_write_into_data_has_nothing_read_again(tmp_path: Path) -> None:
    """Else each start would wait for quiet."""

    async def changes() -> None:
        put(tmp_path, 1)
        (tmp_path / "data").mkdir()
        async with followed(tmp_path) as daemon:
            (tmp_path / "data/out.txt").write_text("1")
            await asyncio.sleep(0.1)
            assert not is_reading(daemon)
            (tmp_path / "data/memory.xml").write_text("<memory/>")
            await noticed(daemon)

    asyncio.run(changes())


# --- when the system cannot tell --------------------------------------------------------------------------


def test_N31_without_room_to_watch_files_are_looked_through_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_room(events: FileEvents) -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr(FileEvents, "arm", no_room)
    monkeypatch.setattr(watcher, "RESCAN", 0.05)

    async def works() -> str:
        put(tmp_path, 1)
        daemon = await Daemon.open(Home(tmp_path))
        daemon.follow_files()
        work = asyncio.create_task(daemon.main_loop.run())
        put(tmp_path, 2)
        while daemon.files.loaded.modules["w"].N != 2:
            await asyncio.sleep(0.01)
        found = await given(daemon)
        daemon.stop.request()
        await work
        await daemon.close()
        return found

    logger = logging.getLogger("narval")  # which does not pass on what a daemon logs
    logger.addHandler(caplog.handler)
    try:
        assert asyncio.run(works()) == "2 2"
    finally:
        logger.removeHandler(caplog.handler)
    messages = [record.getMessage() for record in caplog.records]
    warnings = [message for message in messages if "cannot be watched" in message]
    assert len(warnings) == 1
    assert "fs.inotify.max_user_watches" in warnings[0]


def test_a_home_in_memory_has_nothing_to_read() -> None:
    async def reloads() -> bool:
        daemon = await Daemon.open(None)
        daemon.follow_files()
        changed = await daemon.reloader.reload()
        await daemon.close()
        return changed

    assert asyncio.run(reloads()) is False
