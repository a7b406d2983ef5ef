"""Folders watched for changes, as the system gives them; nothing is polled. watchdog collects the events."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FILE_EVENTS = (
    "FileCreatedEvent", "FileModifiedEvent", "FileAttribEvent", "FileClosedEvent", "FileMovedEvent",
    "FileDeletedEvent",
)  # fmt: skip
"""The events of files that count: not those of a file opened, or closed unwritten, which reading causes."""

_FOLDER_EVENTS = ("DirCreatedEvent", "DirMovedEvent", "DirDeletedEvent")

_SILENCE = logging.NullHandler()
"""Without a handler, Python writes the warnings of watchdog to standard error, when it ends for example."""


class FolderWatch:
    """Watches folders until it is closed: `add` each of them. Making and adding take a while: not in a loop.

    An event says no more than that one should look: a change may come in several events, and events may be
    lost where very many come at once.
    """

    def __init__(self) -> None:
        from watchdog.observers import Observer  # here: few programs watch folders

        logging.getLogger("watchdog").addHandler(_SILENCE)
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)  # of folders made just now
        self._observer = Observer()
        self._observer.start()

    def add(
        self,
        folder: Path,
        hear: Callable[[bool, tuple[str, ...]], None],
        *,
        deep: bool = False,
        files: bool = True,
    ) -> None:
        """Have `hear` called for each change in a folder, with `deep` in those below it too; without `files`
        of folders in it alone. It is called in a thread of its own: `hear(is_folder, paths)`, with one path,
        or two of a move.

        Raises FileNotFoundError or NotADirectoryError where there is no folder, and another OSError where the
        system watches no more.
        """
        from watchdog import events

        counted = [getattr(events, name) for name in (*(_FILE_EVENTS if files else ()), *_FOLDER_EVENTS)]
        listener: Any = _Listener(hear)
        self._observer.schedule(listener, os.fspath(folder), recursive=deep, event_filter=counted)

    def close(self, *, wait: bool = False) -> None:
        """Watch nothing more; with `wait` nothing is heard once this returns."""
        self._observer.stop()
        if wait:
            self._observer.join()


class _Listener:
    """Takes the events of one folder from watchdog."""

    def __init__(self, hear: Callable[[bool, tuple[str, ...]], None]) -> None:
        self._hear = hear

    def dispatch(self, event: Any) -> None:
        """Called by watchdog, in a thread of its own."""
        self._hear(event.is_directory, tuple(filter(None, (event.src_path, event.dest_path))))
