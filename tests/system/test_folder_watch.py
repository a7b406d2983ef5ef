"""Folders watched: what is heard of files and folders in them, and of those below."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from narval.system.file_events import FolderWatch

News = queue.Queue[tuple[bool, tuple[str, ...]]]


def until(news: News, is_folder: bool, *paths: Path) -> None:
    """Wait for this event."""
    while news.get(timeout=60) != (is_folder, tuple(map(str, paths))):
        pass


def test_files_and_folders_are_heard_of_and_a_move_with_both_paths(tmp_path: Path) -> None:
    news: News = queue.Queue()
    watch = FolderWatch()
    watch.add(tmp_path, lambda *event: news.put(event))
    (tmp_path / "a").write_text("")
    until(news, False, tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    until(news, False, tmp_path / "a", tmp_path / "b")
    (tmp_path / "within").mkdir()
    until(news, True, tmp_path / "within")
    (tmp_path / "within").chmod(0o500)  # it may be readable again
    until(news, True, tmp_path / "within")
    (tmp_path / "b").unlink()
    until(news, False, tmp_path / "b")
    watch.close(wait=True)
    (tmp_path / "c").write_text("")
    assert news.empty()


def test_below_it_only_if_deep_and_files_only_if_asked_for(tmp_path: Path) -> None:
    news: News = queue.Queue()
    for name in ("deep/below", "folders"):
        (tmp_path / name).mkdir(parents=True)
    watch = FolderWatch()
    watch.add(tmp_path / "deep", lambda *event: news.put(event), deep=True)
    watch.add(tmp_path / "folders", lambda *event: news.put(event), files=False)
    (tmp_path / "deep" / "below" / "x").write_text("")
    until(news, False, tmp_path / "deep" / "below" / "x")
    (tmp_path / "folders" / "y").write_text("")
    (tmp_path / "folders" / "z").mkdir()
    heard = []
    while (event := news.get(timeout=60)) != (True, (str(tmp_path / "folders" / "z"),)):
        heard.append(event)
    assert all("folders" not in path for _, paths in heard for path in paths)
    watch.close(wait=True)


def test_what_is_no_folder_is_not_watched(tmp_path: Path) -> None:
    watch = FolderWatch()
    with pytest.raises(FileNotFoundError):
        watch.add(tmp_path / "missing", print)
    watch.close(wait=True)
