"""Feeds in files: read again whenever they change (N36; docs/reference/modules/feeds.md)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from modules import feeds
from modules.feeds import origins as feeds_origins
from narval.calls.context import CallContext, Target
from tests.modules.feed_texts import answer, feed, rss, titles


def write_in_place(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def rename_into_place(path: Path, data: bytes) -> None:
    fresh = path.with_name(".fresh")
    fresh.write_bytes(data)
    fresh.rename(path)


def move_from_elsewhere(path: Path, data: bytes) -> None:
    away = path.parent.parent / "away"
    away.write_bytes(data)
    shutil.move(away, path)


def keep_a_backup(path: Path, data: bytes) -> None:
    path.rename(path.with_suffix(".bak"))
    path.write_bytes(data)


def append(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate()
        for start in range(0, len(data), 40):
            file.write(data[start : start + 40])
            file.flush()


def make_the_folder_anew(path: Path, data: bytes) -> None:
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    path.write_bytes(data)


def exchange_the_folder(path: Path, data: bytes) -> None:
    fresh = path.parent.with_name("fresh")
    fresh.mkdir()
    (fresh / path.name).write_bytes(data)
    path.parent.rename(path.parent.with_name("old"))
    fresh.rename(path.parent)


SAVES = [
    write_in_place, rename_into_place, move_from_elsewhere, keep_a_backup, append, make_the_folder_anew,
    exchange_the_folder,
]  # fmt: skip


@pytest.mark.parametrize("save", SAVES)
def test_N36_a_feed_in_a_file_is_read_again_however_it_was_saved(
    tmp_path: Path, save: Callable[[Path, bytes], None]
) -> None:
    path = tmp_path / "feeds" / "a.rss"
    path.parent.mkdir()
    path.write_bytes(rss("a"))

    async def go() -> None:
        async with aclosing(feeds.watch(feed(path=str(path)))) as source:  # type: ignore[type-var]
            assert titles(await anext(source)) == ["a"]
            following = asyncio.create_task(anext(source))
            while not here.has_caught_up:
                await asyncio.sleep(0.001)
            save(path, rss("b", "a"))
            assert titles(await following) == ["b", "a"]

    here = CallContext("1.1", 1, "step", tmp_path, target=Target(where="source"))
    here.context().run(asyncio.run, go())


def test_a_file_that_goes_and_comes_back_with_its_folders_is_told_of_each_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "a.rss"

    async def go() -> None:
        async with aclosing(feeds.watch(feed(path=str(path)))) as source:  # type: ignore[type-var]
            assert titles(await anext(source)) == ["feed-unreachable"]
            for title in ("a", "b"):
                following = asyncio.create_task(anext(source))
                path.parent.mkdir(parents=True)
                path.write_bytes(rss(title))
                assert titles(await following) == [title]
                following = asyncio.create_task(anext(source))
                shutil.rmtree(tmp_path / "deep")
                assert titles(await following) == ["feed-unreachable"]

    answer(tmp_path, go())


def test_a_neighbour_that_changes_is_no_reason_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.rss"
    path.write_bytes(rss("a"))
    readings = []
    whole = feeds_origins.File.scan
    monkeypatch.setattr(feeds_origins.File, "scan", lambda self: readings.append(1) or whole(self))

    async def go() -> None:
        async with aclosing(feeds.watch(feed(path=str(path)))) as source:  # type: ignore[type-var]
            await anext(source)
            following = asyncio.create_task(anext(source))
            for number in range(20):
                (tmp_path / f"other-{number}").write_bytes(b"x")
                await asyncio.sleep(0.01)
            await asyncio.sleep(2 * feeds_origins.QUIET_SECONDS)
            assert len(readings) == 1
            path.write_bytes(rss("b"))
            assert titles(await following) == ["b"]

    answer(tmp_path, go())
